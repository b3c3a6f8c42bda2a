"""What netgang says about itself in Prometheus metrics.

Why one module: a metric label and a log field (`decision_lines`) that mean the same carry the same name and the same
words (the reasons of `scoring.model.reasons`), and both have a bound: no pod, node or gang name is in a label.
Rule: callers hand over facts; nothing here decides or reads a clock. A metric's text names the values of its labels.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from extender.runtime.current_counts import CurrentCounts
from extender.runtime.current_histogram import CurrentHistogram
from extender.runtime.gang_metrics import GangMetrics
from extender.runtime.length_metrics import LengthMetrics
from extender.runtime.probe_metrics import ProbeMetrics
from extender.runtime.repair_metrics import RepairMetrics

_Kind = TypeVar("_Kind", Counter, Gauge, Histogram)
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
        counter, gauge = partial(_metric, Counter, self.registry), partial(_metric, Gauge, self.registry)
        histogram = partial(_metric, Histogram, self.registry)

        def count(name: str, text: str, *labels: str) -> Callable[..., None]:
            """Counts one under labels, which are remembered: looking them up costs as much again as counting."""
            under = cache(counter(name, text, *labels).labels)
            return lambda *values: under(*values).inc()

        self._request_duration = cache(
            histogram(
                "request_duration_seconds",
                "From the request's headers to its reply; verb: filter, prioritize, bind",
                "verb",
                buckets=_REQUEST_BUCKETS_S,
            ).labels
        )
        self._requests = count(
            "requests",
            "Requests answered; outcome: passed, scored, bound, refused, failed, empty, debug, malformed, internal, "
            "gone (the caller hung up)",
            *("verb", "outcome"),
        )
        self._refusals = count(
            "refusals", "Negative answers of the verbs; reason: its constant sentence", "verb", "reason"
        )
        self.internal_error = count(
            "internal_errors", "Bugs that a supervisor caught; place: a verb, document, or a task", "place"
        )
        self.gangs = CurrentCounts(gauge("gangs", "Gangs known; state: admitted or waiting", "state")).replace
        self.gang_metrics = GangMetrics(self.registry)
        self.held_binds = gauge("held_binds", "Bind calls that wait for their gang").set
        self._plan_duration = histogram("plan_duration_seconds", "One planner run", buckets=_PLAN_BUCKETS_S)
        self._snapshot_version = gauge("snapshot_version", "Version of the newest snapshot planned with")
        self.binding_posted = count(
            "bindings", "Bindings posted to the API server; outcome: bound, conflict, error", "outcome"
        )
        self.nudged = count(
            "nudges",
            "Patches that let pods go; action: nudge (parked) or ungate (at the gate); outcome: done, error, or gone "
            "(no such pod any more)",
            *("action", "outcome"),
        )
        self.evicted = count(
            "evictions", "Pods evicted; reason: partial (half a gang), repin (nodes are gone), restart", "reason"
        )
        self.overcommitted_nodes = gauge(
            "overcommitted_nodes", "Nodes with a pod of ours whose bound pods request more than the node has"
        )
        self.overcommits = counter("overcommits", "Times that a node became over-committed so")
        self.restarted = count(
            "restarts", "Owners of gangs; outcome: suspended, resumed, or refused (not restarted)", "outcome"
        )
        self.preempted = count(
            "preemptions",
            "Waiting gangs for which whole gangs leave; outcome: begun, then started, lapsed, refused or gone; or "
            "blocked (one of them may not leave)",
            "outcome",
        )
        self.record_lost = counter("record_lost", "Decisions not kept for replay").inc
        self.relists = counter("relists", "Full lists of a watched kind, such as pods", "kind")
        self.watch_errors = counter("watch_errors", "Watches of a kind that ended with an error", "kind")
        self.unreadable_readings = counter(
            "unreadable", "Readings of objects of a kind that failed; such an object is left out", "kind"
        )
        self.unreadable_objects = gauge(
            "unreadable_objects", "Objects of a kind that cannot be read now, of at most 1,000 remembered", "kind"
        )
        self.contact_age = gauge(
            "watch_contact_age_seconds", "Since the API server last said something about a kind", "kind"
        )
        self.network_pairs = gauge(
            "network_pairs",
            "Directed pairs of endpoints; metric: loss, delay, throughput; state: fresh, fading, expired, unknown",
            *("metric", "state"),
        )
        self.network_pair_age = CurrentHistogram(
            self.registry,
            "netgang_network_pair_age_seconds",
            "Age of the values of directed pairs, as of the last publication; metric: loss, delay, throughput",
            "metric",
        )
        self.network_nodes = gauge(
            "network_nodes", "Nodes by endpoint; state: mapped, unmapped, ambiguous", "metric", "state"
        )
        self.network_degraded = CurrentCounts(
            gauge(
                "network_degraded",
                "Announced as bad; kind: node, zone (links inside it), uplink (of a zone), between (two zones)",
                "kind",
            )
        ).replace
        self.network_fetch_s = gauge("network_fetch_seconds", "Duration of the last fetch of a source", "source")
        self.network_fetches = counter(
            "network_fetches", "Fetches of measurements; outcome: success or error", "source", "outcome"
        )
        self.event_dropped = counter("events_dropped", "Kubernetes Events not posted: too many, or refused").inc
        self.announced = count(
            "announcements",
            "Events that must come before pods are taken away; outcome: posted, refused (for good: the act went "
            "on), put_off (no answer: the act was not started)",
            "outcome",
        )
        self.log_line_dropped = counter("log_lines_dropped", "Repeated refusals not logged").inc
        self._build = gauge(
            "build_info",
            "Always 1; version of netgang, and commit of the image (unknown: not built with one)",
            *("version", "commit"),
        )
        self.built_from("")
        self._leads = False
        self._leader = gauge("leader", "Whether this replica acts: 1 or 0")
        self._leader_changes = count(
            "leader_changes", "Terms of this replica started (to: leader) and ended (to: standby)", "to"
        )
        self.note_ignored = count(
            "notes_ignored",
            "Notes on tenants' objects that are not netgang's, each time one is read; kind: the annotation's name",
            "kind",
        )
        self.jobs = CurrentCounts(
            gauge("jobs", "Jobs of kinds that can be resized; state: as /v1/jobs says, or resizing", "state")
        ).replace
        self.resized = count(
            "resizes",
            "Changes of worker counts; direction: in or out; outcome: done, given back, overruled, dry-run",
            *("kind", "direction", "outcome"),
        )
        self.resize_duration = histogram(
            "resize_duration_seconds",
            "From the decision to the start of the gang that it was made for; direction: in or out",
            "direction",
            buckets=_RESIZE_BUCKETS_S,
        )
        self.pod_seconds_lost = counter("lost_pod_seconds", "Pod-seconds idle because of resizes").inc
        self.reported = count("reports", "Reports of training jobs; outcome: accepted, or why not", "outcome")
        self.probe_reported = count(
            "probe_reports", "Reports of the probe's agents; outcome: accepted, or why not", "outcome"
        )
        self.probe_agents = CurrentCounts(
            gauge(
                "probe_agents", "Agents of the probe; state: reporting, silent, or unanswered (by all peers)", "state"
            )
        ).replace
        self.probe_burst = count(
            "probe_bursts",
            "Bursts of throughput; outcome: measured, failed, impossible (above max_bps), lapsed, withdrawn (a gang "
            "came), not expected (a result of no burst of that agent)",
            "outcome",
        )
        self.probe_metrics = ProbeMetrics(self.registry)
        self.length_metrics = LengthMetrics(self.registry)
        self.repair_metrics = RepairMetrics(self.registry)
        self.connection_ended = count(
            "connections_ended",
            "Connections that we ended; port: verbs, people, probes, reports; outcome: idle, too slow, ended for "
            "another, too many bytes",
            *("port", "outcome"),
        )
        self.tls_handshake = count(
            "tls_handshakes", "TLS handshakes of our ports; outcome: accepted, or why not", "outcome"
        )
        self.tls_reloaded = count("tls_reloads", "New certificate files; outcome: loaded or refused", "outcome")
        self.tls_expiry = gauge(
            "tls_expiry_timestamp_seconds",
            "Unix time at which what is in force ends; certificate: server or client_ca",
            "certificate",
        )

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format. O(series)."""
        return generate_latest(self.registry)

    def built_from(self, commit: str) -> None:
        """Say from which commit the image was built; empty: it is not known."""
        self._build.clear()
        self._build.labels(_version(), commit or "unknown").set(1)

    def request_done(self, verb: str, outcome: str, *, duration_s: float, reason: str = "") -> None:
        """Count one answered request; `reason` from the closed set if the answer was no."""
        self._request_duration(verb).observe(duration_s)
        self._requests(verb, outcome)
        if reason:
            self._refusals(verb, reason)

    def planned(self, *, duration_s: float, snapshot_version: int) -> None:
        """Record one run of the planner."""
        self._plan_duration.observe(duration_s)
        self._snapshot_version.set(snapshot_version)

    def leader(self, *, leads: bool) -> None:
        """Set whether this replica acts; a change is counted by what it became: `leader` or `standby`."""
        if leads != self._leads:
            self._leader_changes("leader" if leads else "standby")
        self._leads = leads
        self._leader.set(int(leads))


@cache
def _version() -> str:
    return version("netgang")


def _metric(kind: type[_Kind], registry: CollectorRegistry, name: str, text: str, *labels: str, **more: Any) -> _Kind:
    return kind(f"netgang_{name}", text, labels, registry=registry, **more)
