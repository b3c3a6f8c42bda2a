"""What netgang says about itself: Prometheus metrics, and log lines that a machine can read.

Why one module: a metric label and a log field that mean the same carry the same name and the same words (the reasons
of `scoring.reasons`), and both have a bound: no pod, node or gang name in a label, no line per repeated refusal.
Rule: callers hand over facts; nothing here decides, reads a clock or does I/O beyond the log stream.
"""

import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TextIO

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

METRICS_CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
DECISIONS: Final = "netgang.decisions"
"""Name of the logger that carries one line per decision."""

_PLANNED: Final = frozenset({"admit", "plan"})
"""Decisions of the planner, which runs in a standby too"""
_REQUEST_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0)
"""From a filter answered from memory to a bind that is held until its deadline."""
_RESIZE_BUCKETS_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
_FORGOTTEN_AFTER: Final = 5.0
"""A refusal is forgotten after so many times `repeat_after_s`: longer than kube-scheduler leaves a pod alone."""
_LINE: Final = msgspec.json.Encoder(enc_hook=repr)
_PLAN_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Telemetry:
    """The metrics of one process, in a registry of their own so that tests and the simulator can have many."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._request_duration = self._histogram(
            "request_duration_seconds",
            "From the request's headers to its reply; verb: filter, prioritize, bind",
            ["verb"],
            _REQUEST_BUCKETS_S,
        )
        self._requests = self._counter(
            "requests",
            "Requests answered; outcome: passed, scored, bound, refused, failed, empty, debug, malformed, internal, "
            "gone (the caller hung up)",
            ["verb", "outcome"],
        )
        self._done: dict[tuple[str, str, str], tuple[Histogram, Counter, Counter | None]] = {}
        """(verb, outcome, reason) → where such a request is counted: looking it up by labels costs as much again"""
        self._refusals = self._counter(
            "refusals", "Negative answers of the verbs; reason: its constant sentence", ["verb", "reason"]
        )
        self._internal_errors = self._counter(
            "internal_errors", "Bugs that a supervisor caught; place: a verb, document, or a task", ["place"]
        )
        self._gangs = self._gauge("gangs", "Gangs known; state: admitted or waiting", ["state"])
        self._held_binds = self._gauge("held_binds", "Bind calls that wait for their gang", [])
        self._plan_duration = self._histogram("plan_duration_seconds", "One planner run", [], _PLAN_BUCKETS_S)
        self._snapshot_version = self._gauge("snapshot_version", "Version of the newest snapshot planned with", [])
        self._bindings = self._counter(
            "bindings", "Bindings posted to the API server; outcome: bound, conflict, error", ["outcome"]
        )
        self._binding_outcomes: dict[str, Counter] = {}
        """outcome → where such a Binding is counted"""
        self._nudges = self._counter(
            "nudges",
            "Patches that let pods go; action: nudge (parked) or ungate (at the gate); outcome: done, error, or gone "
            "(no such pod any more)",
            ["action", "outcome"],
        )
        self._evictions = self._counter(
            "evictions", "Pods evicted; reason: partial (half a gang), repin (nodes are gone), restart", ["reason"]
        )
        self._restarts = self._counter(
            "restarts", "Owners of gangs; outcome: suspended, resumed, or refused (not started anew)", ["outcome"]
        )
        self._preemptions = self._counter(
            "preemptions",
            "Waiting gangs for which whole gangs leave; outcome: begun, then started, lapsed, refused or gone; or "
            "blocked (one of them may not leave)",
            ["outcome"],
        )
        self._record_lost = self._counter("record_lost", "Decisions not kept for replay", [])
        self._relists = self._counter("relists", "Full lists of a watched kind, such as pods", ["kind"])
        self._watch_errors = self._counter("watch_errors", "Watches of a kind that ended with an error", ["kind"])
        self._network_pairs = self._gauge(
            "network_pairs",
            "Directed pairs of endpoints; metric: loss, delay, throughput; state: fresh, fading, expired, unknown",
            ["metric", "state"],
        )
        self._network_pairs_by_age = self._gauge(
            "network_pairs_by_age", "Directed pairs with a value of at most this age in seconds", ["metric", "le"]
        )
        self._network_nodes = self._gauge(
            "network_nodes", "Nodes by endpoint; state: mapped, unmapped, ambiguous", ["metric", "state"]
        )
        self._network_fetch_s = self._gauge(
            "network_fetch_seconds", "Duration of the last fetch of a source", ["source"]
        )
        self._network_fetches = self._counter(
            "network_fetches", "Fetches of measurements; outcome: success or error", ["source", "outcome"]
        )
        self._events_dropped = self._counter("events_dropped", "Kubernetes Events not posted: too many, or refused", [])
        self._log_lines_dropped = self._counter("log_lines_dropped", "Repeated refusals not logged", [])
        self._leads = False
        self._leader = self._gauge("leader", "Whether this replica acts: 1 or 0", [])
        self._leader_changes = self._counter(
            "leader_changes", "Terms of this replica begun (to: leader) and ended (to: standby)", ["to"]
        )
        self._jobs = self._gauge(
            "jobs", "Jobs of kinds that can be resized; state: as /v1/jobs says, or resizing", ["state"]
        )
        self._resizes = self._counter(
            "resizes",
            "Changes of worker counts; direction: in or out; outcome: done, given back, overruled, dry-run",
            ["kind", "direction", "outcome"],
        )
        self._resize_duration = self._histogram(
            "resize_duration_seconds",
            "From the decision to the start of those for whom it was made; direction: in or out",
            ["direction"],
            _RESIZE_BUCKETS_S,
        )
        self._pod_seconds_lost = self._counter(
            "lost_pod_seconds", "Pods times seconds of room that worked for nobody", []
        )
        self._reports = self._counter("reports", "Reports of training jobs; outcome: accepted, or why not", ["outcome"])
        self._tls_handshakes = self._counter(
            "tls_handshakes", "TLS handshakes of our ports; outcome: accepted, or why not", ["outcome"]
        )
        self._tls_reloads = self._counter(
            "tls_reloads", "New certificate files; outcome: loaded or refused", ["outcome"]
        )
        self._tls_expiry = self._gauge(
            "tls_expiry_timestamp_seconds",
            "Unix time at which what is in force ends; certificate: server or client_ca",
            ["certificate"],
        )

    def jobs(self, count_by_state: Mapping[str, int]) -> None:
        """Replace the number of jobs that may be resized per state; states that are not named any more disappear."""
        self._jobs.clear()
        for state, count in count_by_state.items():
            self._jobs.labels(state).set(count)

    def resized(self, kind: str, direction: str, outcome: str) -> None:
        """Count a change of a job's worker count that came to its end: `direction` is `in` or `out`."""
        self._resizes.labels(kind, direction, outcome).inc()

    def resize_took(self, direction: str, seconds: float) -> None:
        """Record the time from the decision to the start of those it was made for."""
        self._resize_duration.labels(direction).observe(seconds)

    def pod_seconds_lost(self, pod_s: float) -> None:
        """Count room that worked for neither job while workers were taken away: pods times seconds."""
        self._pod_seconds_lost.inc(pod_s)

    def reported(self, outcome: str) -> None:
        """Count a report of a job: `accepted`, or why not."""
        self._reports.labels(outcome).inc()

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format. O(series)."""
        return generate_latest(self.registry)

    def request_done(self, verb: str, outcome: str, *, duration_s: float, reason: str = "") -> None:
        """Count one answered request; `reason` from the closed set if the answer was no."""
        known = self._done.get((verb, outcome, reason))
        if known is None:
            refusals = self._refusals.labels(verb, reason) if reason else None
            known = self._request_duration.labels(verb), self._requests.labels(verb, outcome), refusals
            self._done[verb, outcome, reason] = known
        duration, requests, refusals = known
        duration.observe(duration_s)
        requests.inc()
        if refusals is not None:
            refusals.inc()

    def internal_error(self, place: str) -> None:
        """Count a bug that a supervisor caught in `place` (a constant word)."""
        self._internal_errors.labels(place).inc()

    def gangs(self, count_by_state: Mapping[str, int]) -> None:
        """Replace the number of gangs per state; states that are not named any more disappear."""
        self._gangs.clear()
        for state, count in count_by_state.items():
            self._gangs.labels(state).set(count)

    def held_binds(self, count: int) -> None:
        """Set the number of bind calls that are held now."""
        self._held_binds.set(count)

    def planned(self, *, duration_s: float, snapshot_version: int) -> None:
        """Record one run of the planner."""
        self._plan_duration.observe(duration_s)
        self._snapshot_version.set(snapshot_version)

    def binding_posted(self, outcome: str) -> None:
        """Count a Binding sent to the API server: `bound`, `conflict`, `error`."""
        known = self._binding_outcomes.get(outcome)
        if known is None:
            known = self._binding_outcomes[outcome] = self._bindings.labels(outcome)
        known.inc()

    def nudged(self, action: str, outcome: str) -> None:
        """Count an admission patch: `action` is `nudge` or `ungate`."""
        self._nudges.labels(action, outcome).inc()

    def evicted(self, reason: str) -> None:
        """Count a pod removed through the Eviction API."""
        self._evictions.labels(reason).inc()

    def preempted(self, outcome: str) -> None:
        """Count what became of making gangs leave for one: blocked, begun, then started, refused, lapsed or gone."""
        self._preemptions.labels(outcome).inc()

    def restarted(self, outcome: str) -> None:
        """Count an owner that was `suspended` or `resumed`, or a gang that was `refused` a start anew."""
        self._restarts.labels(outcome).inc()

    def relisted(self, kind: str) -> None:
        """Count a full list of a watched kind."""
        self._relists.labels(kind).inc()

    def watch_failed(self, kind: str) -> None:
        """Count a watch that ended with an error."""
        self._watch_errors.labels(kind).inc()

    def network_pairs(self, metric: str, *, fresh: int, fading: int, expired: int) -> None:
        """Set the number of directed pairs of endpoints with a value of a metric of the network, by its age."""
        for state, count in (("fresh", fresh), ("fading", fading), ("expired", expired)):
            self._network_pairs.labels(metric, state).set(count)

    def network_pairs_unknown(self, metric: str, count: int) -> None:
        """Set the number of directed pairs of endpoints of one zone that have no value of a metric."""
        self._network_pairs.labels(metric, "unknown").set(count)

    def network_ages(self, metric: str, count_by_age: Mapping[str, int]) -> None:
        """Set the number of directed pairs with a value of at most each age, as a histogram's buckets are counted."""
        for age, count in count_by_age.items():
            self._network_pairs_by_age.labels(metric, age).set(count)

    def network_nodes(self, metric: str, count_by_state: Mapping[str, int]) -> None:
        """Set the number of nodes that are `mapped` to an endpoint of a metric, `unmapped` or `ambiguous`."""
        for state, count in count_by_state.items():
            self._network_nodes.labels(metric, state).set(count)

    def network_took(self, source: str, fetch_s: float) -> None:
        """Set how long the last fetch of a source took, good or not."""
        self._network_fetch_s.labels(source).set(fetch_s)

    def network_fetched(self, source: str, outcome: str) -> None:
        """Count fetches of a source: `success` or `error`."""
        self._network_fetches.labels(source, outcome).inc()

    def event_dropped(self) -> None:
        """Count a Kubernetes Event that was not posted (queue full, or refused)."""
        self._events_dropped.inc()

    def leader(self, *, leads: bool) -> None:
        """Set whether this replica acts; a change is counted by what it became: `leader` or `standby`."""
        if leads != self._leads:
            self._leader_changes.labels("leader" if leads else "standby").inc()
        self._leads = leads
        self._leader.set(int(leads))

    def record_lost(self, entries: int) -> None:
        """Count decisions that were not kept for replay, because writing them did not keep up."""
        self._record_lost.inc(entries)

    def log_line_dropped(self) -> None:
        """Count a refusal that was not logged because it, or too many others, had been."""
        self._log_lines_dropped.inc()

    def tls_handshake(self, outcome: str) -> None:
        """Count a TLS handshake at one of our ports: `accepted`, or why the client was refused."""
        self._tls_handshakes.labels(outcome).inc()

    def tls_reloaded(self, outcome: str) -> None:
        """Count new certificate files: `loaded`, or `refused` because they cannot be used."""
        self._tls_reloads.labels(outcome).inc()

    def tls_expiry(self, certificate: str, ends_s: float) -> None:
        """Set the Unix time at which the `server` certificate, or the first authority of `client_ca`, ends."""
        self._tls_expiry.labels(certificate).set(ends_s)

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(f"netgang_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str]) -> Gauge:
        return Gauge(f"netgang_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: list[str], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"netgang_{name}", text, labels, registry=self.registry, buckets=buckets)


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision for the log. `reason` "" means yes; `parts` name → points show how a score came about."""

    what: str
    """A constant word: filter, prioritize, bind, admit, lapse, degraded, nudge, evict, restart, suspend, resume,
    scale-in, scale-out."""
    pod: str = ""
    gang: str = ""
    node: str = ""
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    snapshot_version: int = 0
    duration_ms: float = 0.0


class DecisionLog:
    """Writes one line per decision, and not the same refusal over and over.

    Why: kube-scheduler asks again for every refused pod at every cluster event (over a thousand calls a second,
    measured), and always gets the same answer. So a refusal is written when it is new for its pod or gang, again after
    `repeat_after_s` with the number of times it was left out, and never more than `refusals_per_s_max` in a second.
    What admits, binds, evicts or scales is always written.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        repeat_after_s: float = 60.0,
        refusals_per_s_max: int = 100,
        remembered_max: int = 10_000,
        acting: Callable[[], bool] = lambda: True,
        heard: Callable[[Decision], None] = lambda _: None,
    ) -> None:
        self._telemetry = telemetry
        self._heard = heard
        """Told each decision that is written, whatever the log's level"""
        self._acting = acting
        """Whether our plans are what happens; a standby's are not, and are not written"""
        self._logger = logging.getLogger(DECISIONS)
        self._repeat_after_s = repeat_after_s
        self._refusals_per_s_max = refusals_per_s_max
        self._remembered_max = remembered_max
        self._seen: OrderedDict[tuple[str, str, str], _Seen] = OrderedDict()
        """(what, pod or gang, reason) → when it was last written; the least recently written leaves first."""
        self._second = 0
        self._written_this_second = 0

    @property
    def remembered(self) -> int:
        """Refusals that would be left out, or counted, if they came again."""
        return len(self._seen)

    def log_decision(self, decision: Decision, *, now_s: float) -> bool:
        """Write `decision`, or leave it out as a repeated refusal; says whether it was written. `now_s`: monotonic."""
        repeated = 0
        if decision.what in _PLANNED and not self._acting():
            return False
        if decision.reason:
            seen = self._admit(decision, now_s)
            if seen is None:
                self._telemetry.log_line_dropped()
                return False
            repeated, seen.left_out = seen.left_out, 0
        self._heard(decision)
        if self._logger.isEnabledFor(logging.INFO):
            self._write(decision, repeated)
        return True

    def _write(self, decision: Decision, repeated: int) -> None:
        """Two lines per pod that is bound: made directly, without a search for the caller that nobody is told."""
        record = logging.LogRecord(DECISIONS, logging.INFO, "", 0, decision.what, (), None)
        record.fields = _fields(decision, repeated)
        self._logger.handle(record)

    def _admit(self, decision: Decision, now_s: float) -> "_Seen | None":
        key = (decision.what, decision.pod or decision.gang, decision.reason)
        self._forget_old(now_s)
        seen = self._seen.get(key)
        if seen is not None and now_s - seen.written_s < self._repeat_after_s:
            seen.left_out += 1
            return None
        if int(now_s) != self._second:
            self._second, self._written_this_second = int(now_s), 0
        if self._written_this_second >= self._refusals_per_s_max:
            return None
        self._written_this_second += 1
        if seen is None:
            seen = self._seen[key] = _Seen()
            if len(self._seen) > self._remembered_max:
                self._seen.popitem(last=False)
        seen.written_s = now_s
        self._seen.move_to_end(key)
        return seen

    def _forget_old(self, now_s: float) -> None:
        """What has not been written for so long is news if it comes again: most refused gangs start, and are gone."""
        forgotten_s = now_s - _FORGOTTEN_AFTER * self._repeat_after_s
        while self._seen and next(iter(self._seen.values())).written_s <= forgotten_s:
            self._seen.popitem(last=False)


class LogFormat(StrEnum):
    """How log lines look; `auto` is `human` on a terminal and `json` everywhere else."""

    AUTO = "auto"
    HUMAN = "human"
    JSON = "json"


def configure_logging(
    *, level: str = "INFO", log_format: LogFormat = LogFormat.AUTO, stream: TextIO | None = None
) -> None:
    """Send all log lines of the process to `stream` (default: standard error) in one format.

    Replaces the root logger's handlers. Errors: ValueError for a level that logging does not know.
    """
    out = stream or sys.stderr
    human = log_format is LogFormat.HUMAN or (log_format is LogFormat.AUTO and out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    # Neither format shows them, and every line would pay for asking.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.setLevel(level)
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Write `record` as one line of JSON; a field that JSON cannot say is written as Python shows it."""
        line = {
            "time": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _LINE.encode(line).decode()


class HumanFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, then `field=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write `record` as one line, and its traceback below."""
        head = f"{_timestamp(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        line = " ".join([head, *(f"{name}={_word(value)}" for name, value in _extra(record).items())])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


@dataclass(slots=True)
class _Seen:
    written_s: float = 0.0
    left_out: int = 0


def _fields(decision: Decision, repeated: int) -> dict[str, object]:
    """The decision's fields that say something, under their own names."""
    fields: dict[str, object] = {}
    if decision.pod:
        fields["pod"] = decision.pod
    if decision.gang:
        fields["gang"] = decision.gang
    if decision.node:
        fields["node"] = decision.node
    if decision.reason:
        fields["reason"] = decision.reason
    if decision.parts:
        fields["parts"] = dict(decision.parts)
    fields["snapshot_version"] = decision.snapshot_version
    if duration_ms := round(decision.duration_ms, 3):
        fields["duration_ms"] = duration_ms
    if repeated:
        fields["repeated"] = repeated
    return fields


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    extra = getattr(record, "fields", None)
    # almost all have a dict, and asking an abstract class takes as long as writing the timestamp
    return extra if type(extra) is dict or isinstance(extra, Mapping) else {}


def _word(value: object) -> str:
    """`value` for a `field=value` line: quoted as soon as it could be mistaken for more than one word."""
    text = str(value)
    return text if text.isprintable() and " " not in text else repr(text)


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339 with milliseconds, cut off as everywhere else."""
    second = int(record.created)
    return f"{_whole_second(second)}.{int((record.created - second) * 1000):03d}Z"


@lru_cache(maxsize=2)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
