"""Metrics of the links that the probe measures: medians between zones, and the ten worst links.

Why the worst by name, where no other label names a node: an alert must say where to look. Rule: the series are replaced
with each table, so there are never more than `scoring.probing.summary` allows.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from scoring.probing.summary import Summary

_ZONES: Final = ("from_zone", "to_zone")
_NODES: Final = ("from_node", "to_node")


class ProbeMetrics:
    """The gauges, in the registry of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, str]) -> Gauge:
            return Gauge(f"netgang_probe_{name}", text, labels, registry=registry)

        self._zone_loss = gauge("zone_loss_ratio", "Median packet loss of the links between two zones", _ZONES)
        self._zone_delay = gauge("zone_delay_seconds", "Median one-way delay of the links between two zones", _ZONES)
        self._worst_loss = gauge("worst_link_loss_ratio", "Packet loss of the ten worst links", _NODES)
        self._worst_delay = gauge("worst_link_delay_seconds", "One-way delay of the ten worst links", _NODES)

    def summed_up(self, summary: Summary) -> None:
        """Show a new summary instead of the last one."""
        for loss, delay, qualities in (
            (self._zone_loss, self._zone_delay, summary.zones),
            (self._worst_loss, self._worst_delay, summary.worst),
        ):
            loss.clear()
            delay.clear()
            for labels, quality in qualities.items():
                if quality.loss_ratio is not None:
                    loss.labels(*labels).set(quality.loss_ratio)
                if quality.delay_ms is not None:
                    delay.labels(*labels).set(quality.delay_ms / 1000.0)
