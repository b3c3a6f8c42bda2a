"""What netgang says about itself in Prometheus metrics.

Rules: a label and a log field (`decision_lines`) that mean the same carry the same name and words (the reasons of
`scoring.model.reasons`); no pod, node or gang name is in a label; a metric's text names the values of its labels.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_Kind = TypeVar("_Kind", Counter, Gauge, Histogram)
METRICS_CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_REQUEST_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0)
"""From a filter answered from memory to a bind that is held until its deadline."""
MOST_NAMESPACES: Final = 20
"""The first keep their names as long as the process runs, whatever tenants create, as counters cannot change a label.
About 1,000 series in all: `/metrics` is rendered in the event loop, at 5 µs a series (docs/safety.md S15)."""
OTHER: Final = "other"  # All other namespaces
_WAIT_BUCKETS_S: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
_START_BUCKETS_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_PLAN_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_TEXTS: Final = {  # metric → what it says
    "request_duration_seconds": "From the request's headers to its reply; verb: filter, prioritize, bind",
    "requests": "Requests answered; outcome: passed, scored, bound, refused, failed, empty, debug, malformed, "
    "internal, gone (the caller hung up)",
    "refusals": "Negative answers of the verbs; reason: its constant sentence",
    "internal_errors": "Bugs that a supervisor caught; place: a verb, document, or a task",
    "gangs": "Gangs known; state: admitted or waiting",
    "gang_wait_duration_seconds": "From the moment a gang could start (all of its minimum exists) until its minimum "
    "had nodes",
    "gang_start_duration_seconds": "From the plan that admits a gang until its minimum has nodes, to the second",
    "held_binds": "Bind calls that wait for their gang",
    "plan_duration_seconds": "One planner run",
    "bindings": "Bindings posted to the API server; outcome: bound, conflict, error",
    "nudges": "Patches that let pods go; action: nudge (parked) or ungate (at the gate); outcome: done, error, or "
    "gone (no such pod any more)",
    "evictions": "Pods evicted; reason: partial (half a gang), repin (nodes are gone), restart",
    "overcommits": "Times that bound pods, ours among them, began to request more of a node than it has",
    "restarts": "Owners of gangs; outcome: suspended, resumed, or refused (not restarted)",
    "preemptions": "Waiting gangs for which whole gangs leave; outcome: begun, then started, lapsed, refused or gone; "
    "or blocked (one of them may not leave)",
    "watch_errors": "Watches of a kind that ended with an error",
    "unreadable_objects": "Objects of a kind that cannot be read now, of at most 1,000 remembered",
    "watch_contact_age_seconds": "Since the API server last said something about a kind",
    "network_pairs": "Directed pairs of endpoints; metric: loss, delay, throughput; state: fresh, fading, expired",
    "network_nodes": "Nodes by endpoint; state: mapped, unmapped, ambiguous",
    "network_degraded": "Announced as bad; kind: node, zone (links inside it)",
    "network_fetches": "Fetches of measurements; outcome: success or error",
    "events_dropped": "Kubernetes Events not posted: too many, or refused",
    "build_info": "Always 1; version of netgang, and commit of the image (unknown: not built with one)",
    "leader": "Whether this replica acts: 1 or 0",
    "notes_ignored": "Notes on tenants' objects that are not netgang's, each time one is read; kind: the annotation's "
    "name",
    "resizes": "Changes of worker counts; direction: in or out; outcome: done, given back, overruled",
    "reports": "Reports of training jobs; outcome: accepted, or why not",
    "probe_reports": "Reports of the probe's agents; outcome: accepted, or why not",
    "probe_agents": "Agents of the probe; state: reporting, silent, or unanswered (by all peers)",
    "probe_bursts": "Bursts of throughput; outcome: measured, failed, impossible (above 400 Gbit/s), lapsed, "
    "withdrawn (a gang came), not expected (a result of no burst of that agent)",
    "tls_reloads": "New certificate files; outcome: loaded or refused",
    "tls_expiry_timestamp_seconds": "Unix time at which what is in force ends; certificate: server or client_ca",
}
_version = cache(partial(version, "netgang"))


class Telemetry:
    """The metrics of one process, in a registry of their own so that tests and the simulator can have many."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter, gauge = partial(_metric, Counter, self.registry), partial(_metric, Gauge, self.registry)
        histogram = partial(_metric, Histogram, self.registry)

        def count(name: str, *labels: str) -> Callable[..., None]:
            """Counts one under labels, which are remembered: looking them up costs as much again as counting."""
            under = cache(counter(name, *labels).labels)
            return lambda *values: under(*values).inc()

        def current(name: str, label: str) -> Callable[[Mapping[str, int]], None]:
            """Shows what is there now, given whole each time."""
            return partial(_replace_all, gauge(name, label), {})

        self._request_duration = cache(histogram("request_duration_seconds", "verb", buckets=_REQUEST_BUCKETS_S).labels)
        self._requests = count("requests", "verb", "outcome")
        self._refusals = count("refusals", "verb", "reason")
        self.internal_error = count("internal_errors", "place")
        self.gangs = current("gangs", "state")
        self._namespaces = set[str]()
        # Not `namespace`: Prometheus Operator sets that to the one of the scraped pod
        self._waited = histogram("gang_wait_duration_seconds", "gang_namespace", buckets=_WAIT_BUCKETS_S)
        self.started_after = histogram("gang_start_duration_seconds", buckets=_START_BUCKETS_S).observe
        self.held_binds = gauge("held_binds").set
        self.planned = histogram("plan_duration_seconds", buckets=_PLAN_BUCKETS_S).observe
        self.binding_posted = count("bindings", "outcome")
        self.nudged = count("nudges", "action", "outcome")
        self.evicted = count("evictions", "reason")
        self.overcommitted = counter("overcommits").inc
        self.restarted = count("restarts", "outcome")
        self.preempted = count("preemptions", "outcome")
        self.watch_errors = counter("watch_errors", "kind")
        self.unreadable_objects = gauge("unreadable_objects", "kind")
        self.contact_age = gauge("watch_contact_age_seconds", "kind")
        self.network_pairs = gauge("network_pairs", "metric", "state")
        self.network_nodes = gauge("network_nodes", "metric", "state")
        self.network_degraded = current("network_degraded", "kind")
        self.network_fetches = counter("network_fetches", "source", "outcome")
        self.event_dropped = counter("events_dropped").inc
        self._build = gauge("build_info", "version", "commit")
        self.built_from("")
        self.leads = gauge("leader").set
        self.note_ignored = count("notes_ignored", "kind")
        self.resized = count("resizes", "kind", "direction", "outcome")
        self.reported = count("reports", "outcome")
        self.probe_reported = count("probe_reports", "outcome")
        self.probe_agents = current("probe_agents", "state")
        self.probe_burst = count("probe_bursts", "outcome")
        self.tls_reloaded = count("tls_reloads", "outcome")
        self.tls_expiry = gauge("tls_expiry_timestamp_seconds", "certificate")

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

    def gang_waited(self, namespace: str, duration_s: float) -> None:
        """A gang has started, and waited so long for that."""
        if len(self._namespaces) < MOST_NAMESPACES:
            self._namespaces.add(namespace)
        self._waited.labels(namespace if namespace in self._namespaces else OTHER).observe(duration_s)


def _metric(kind: type[_Kind], registry: CollectorRegistry, name: str, *labels: str, **more: Any) -> _Kind:
    return kind(f"netgang_{name}", _TEXTS[name], labels, registry=registry, **more)


def _replace_all(gauge: Gauge, shown: dict[str, int], counts: Mapping[str, int]) -> None:
    """Show these and nothing else. `shown` is what is shown now: making a series costs ten times as much as setting."""
    for gone in shown.keys() - counts.keys():
        gauge.remove(gone)
        del shown[gone]
    for label, count in counts.items():
        gauge.labels(label).set(count)
    shown.update(counts)
