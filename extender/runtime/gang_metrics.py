"""How long gangs wait, and what network they start with: metrics by namespace, whatever tenants create.

Rule: a namespace has a label of its own while there are few of them, in the order in which they are first seen; all
others are one, `other`. Counters cannot change their label, so a namespace keeps it as long as the process runs.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

MOST_NAMESPACES: Final = 20
"""About 1,000 series in all: `/metrics` is rendered in the event loop, at 5 µs a series (docs/safety.md S15)."""
OTHER: Final = "other"
_LABEL: Final = "gang_namespace"  # Not `namespace`: Prometheus Operator sets that to the one of the scraped pod
WAIT_BUCKETS_S: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
START_BUCKETS_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class NamespaceLabels:
    """Values of label `gang_namespace`, at most `most` and `other`."""

    def __init__(self, most: int = MOST_NAMESPACES) -> None:
        self._most = most
        self._own: set[str] = set()

    def of(self, namespace: str) -> str:
        """The namespace, or `other`.

        >>> labels = NamespaceLabels(most=1)
        >>> labels.of("a"), labels.of("b"), labels.of("a")
        ('a', 'other', 'a')
        """
        if namespace not in self._own:
            if len(self._own) >= self._most:
                return OTHER
            self._own.add(namespace)
        return namespace


class GangMetrics:
    """The metrics of gangs that have a namespace in their labels, and of their start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._labels = NamespaceLabels()
        self._waited = Histogram(
            "netgang_gang_wait_duration_seconds",
            "From the moment a gang could start (all of its minimum exists) until its minimum had nodes",
            (_LABEL,),
            buckets=WAIT_BUCKETS_S,
            registry=registry,
        )
        self.started_after = Histogram(
            "netgang_gang_start_duration_seconds",
            "From the plan that admits a gang until its minimum has nodes, to the second",
            buckets=START_BUCKETS_S,
            registry=registry,
        ).observe

    def waited(self, namespace: str, duration_s: float) -> None:
        """A gang has started, and waited so long for that."""
        self._waited.labels(self._labels.of(namespace)).observe(duration_s)
