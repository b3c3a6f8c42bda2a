"""A gauge of what is there now, by state or namespace: given whole each time, after every plan or once a second.

Why not cleared and filled again: a label's series costs ten times as much to make as to set.
"""

from collections.abc import Mapping

from prometheus_client import Gauge


class CurrentCounts:
    """The series of a gauge with one label. Bounded by the values that were given last."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: Mapping[str, int] = {}

    def replace(self, counts: Mapping[str, int]) -> None:
        """Show these and nothing else; value of the label → count."""
        for gone in self._shown.keys() - counts.keys():
            self._gauge.remove(gone)
        for label, count in counts.items():
            self._gauge.labels(label).set(count)
        self._shown = dict(counts)
