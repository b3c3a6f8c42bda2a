"""A histogram of what is there now: Prometheus' buckets of values that are counted again, not added up over time.

Why not a gauge with label `le`: that label is reserved for histograms, and Grafana's heatmaps and `histogram_quantile`
read only those. Rule: its counts can fall, so `rate()` of it says nothing; each set of labels is given whole or not.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily

_NO_LIMIT: Final = "+Inf"


class CurrentHistogram:
    """One metric; empty until `replace` is called."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str, *labels: str) -> None:
        self._name = name
        self._text = text
        self._labelnames = labels  # Under the name that the client's own metrics have it
        self._edges: tuple[str, ...] = (_NO_LIMIT,)
        self._counts: Mapping[tuple[str, ...], Sequence[int]] = {}
        registry.register(self)

    def replace(self, edges: Sequence[float], counts: Mapping[tuple[str, ...], Sequence[int]]) -> None:
        """Show these and nothing else.

        `edges`: upper bounds of the buckets, ascending, without the infinite one. `counts`: values of the labels → how
        many are at most each edge, and in all. ValueError: they do not fit together.
        """
        if any(len(of) != len(edges) + 1 for of in counts.values()):
            raise ValueError(f"{self._name} has {len(edges) + 1} buckets")
        self._edges, self._counts = (*(str(float(edge)) for edge in edges), _NO_LIMIT), counts

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Name and type, as the registry asks for them."""
        yield HistogramMetricFamily(self._name, self._text, labels=self._labelnames)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """All buckets; no sum, which is not known. Cost: O(label values)."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labelnames)
        for labels, of in self._counts.items():
            family.add_metric(labels, list(zip(self._edges, map(float, of), strict=True)), sum_value=None)
        yield family
