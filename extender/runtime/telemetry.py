"""What netgang says about itself in Prometheus metrics.

Why one module: a metric label and a log field (`decision_log`) that mean the same carry the same name and the same
words (the reasons of `scoring.model.reasons`), and both have a bound: no pod, node or gang name is in a label.
Rule: callers hand over facts; nothing here decides, reads a clock or does I/O.
"""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

METRICS_CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_REQUEST_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0)
"""From a filter answered from memory to a bind that is held until its deadline."""
_RESIZE_BUCKETS_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
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
        self._overcommitted_nodes = self._gauge(
            "overcommitted_nodes", "Nodes with a pod of ours whose bound pods request more than the node has", []
        )
        self._overcommits = self._counter("overcommits", "Times that a node became over-committed so", [])
        self._restarts = self._counter(
            "restarts", "Owners of gangs; outcome: suspended, resumed, or refused (not restarted)", ["outcome"]
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
        self._unreadable_readings = self._counter(
            "unreadable", "Readings of objects of a kind that failed; such an object is left out", ["kind"]
        )
        self._unreadable_objects = self._gauge(
            "unreadable_objects", "Objects of a kind that cannot be read now, of at most 1,000 remembered", ["kind"]
        )
        self._contact_age = self._gauge(
            "watch_contact_age_seconds", "Since the API server last said something about a kind", ["kind"]
        )
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
        self._announcements = self._counter(
            "announcements",
            "Events that must come before pods are taken away; outcome: posted, refused (for good: the act went "
            "on), put_off (no answer: the act was not started)",
            ["outcome"],
        )
        self._log_lines_dropped = self._counter("log_lines_dropped", "Repeated refusals not logged", [])
        self._leads = False
        self._leader = self._gauge("leader", "Whether this replica acts: 1 or 0", [])
        self._leader_changes = self._counter(
            "leader_changes", "Terms of this replica started (to: leader) and ended (to: standby)", ["to"]
        )
        self._notes_ignored = self._counter(
            "notes_ignored",
            "Notes on tenants' objects that are not netgang's, each time one is read; kind: the annotation's name",
            ["kind"],
        )
        self._note_keys = self._gauge(
            "note_keys", "Keys in the Secret by which notes are signed; 0: no gang is suspended, no job resized", []
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
            "From the decision to the start of the gang that it was made for; direction: in or out",
            ["direction"],
            _RESIZE_BUCKETS_S,
        )
        self._pod_seconds_lost = self._counter("lost_pod_seconds", "Pod-seconds idle because of resizes", [])
        self._reports = self._counter("reports", "Reports of training jobs; outcome: accepted, or why not", ["outcome"])
        self._connections_ended = self._counter(
            "connections_ended",
            "Connections that we ended; port: verbs, people, probes, reports; outcome: idle, too slow, ended for "
            "another, too many bytes",
            ["port", "outcome"],
        )
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

    def note_ignored(self, kind: str) -> None:
        """Count a note that is not ours; `kind` is its annotation without the prefix."""
        self._notes_ignored.labels(kind).inc()

    def note_keys(self, count: int) -> None:
        """Set the number of keys for notes that are in the Secret."""
        self._note_keys.set(count)

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
        """Count outcomes of making gangs leave for one: blocked, begun, then started, refused, lapsed or gone."""
        self._preemptions.labels(outcome).inc()

    def restarted(self, outcome: str) -> None:
        """Count an owner that was `suspended` or `resumed`, or a gang whose restart was `refused`."""
        self._restarts.labels(outcome).inc()

    def relisted(self, kind: str) -> None:
        """Count a full list of a watched kind."""
        self._relists.labels(kind).inc()

    def watch_failed(self, kind: str) -> None:
        """Count a watch that ended with an error."""
        self._watch_errors.labels(kind).inc()

    def unreadable(self, kind: str, *, readings: int, objects: int) -> None:
        """Count readings that failed since the last call, and set how many objects cannot be read now."""
        self._unreadable_readings.labels(kind).inc(readings)
        self._unreadable_objects.labels(kind).set(objects)

    def contact(self, kind: str, *, age_s: float) -> None:
        """Set how long the API server has said nothing about a watched kind."""
        self._contact_age.labels(kind).set(age_s)

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

    def overcommitted(self, nodes: int, *, new: int) -> None:
        """Set how many nodes are over-committed now, and count those that have become so."""
        self._overcommitted_nodes.set(nodes)
        self._overcommits.inc(new)

    def announced(self, outcome: str) -> None:
        """Count an Event that announces an act."""
        self._announcements.labels(outcome).inc()

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

    def connection_ended(self, port: str, outcome: str) -> None:
        """Count a connection that a port ended of itself."""
        self._connections_ended.labels(port, outcome).inc()

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
