"""Metrics of the links that the probe measures: medians between zones.

Rule: the series are replaced with each table, so there are never more than `scoring.probing.summary` allows.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from scoring.probing.summary import Summary

_LABELS: Final = ("from_zone", "to_zone")


class ProbeMetrics:
    """The gauges, in the registry of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"netgang_probe_zone_{name}", text, _LABELS, registry=registry)

        self._loss = gauge("loss_ratio", "Median packet loss of the links between two zones")
        self._delay = gauge("delay_seconds", "Median one-way delay of the links between two zones")

    def summed_up(self, summary: Summary) -> None:
        """Show a new summary instead of the last one."""
        self._loss.clear()
        self._delay.clear()
        for zones, quality in summary.zones.items():
            if quality.loss_ratio is not None:
                self._loss.labels(*zones).set(quality.loss_ratio)
            if quality.delay_ms is not None:
                self._delay.labels(*zones).set(quality.delay_ms / 1000.0)
