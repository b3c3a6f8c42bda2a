"""Metrics of what repair is built on: whether the next process would know which gangs have started."""

from prometheus_client import CollectorRegistry, Gauge


class RepairMetrics:
    """The gauges, in the registry of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._kept = Gauge(
            "netgang_started_gangs_kept",
            "1: gangs that have started are kept in netgang's ConfigMap; 0: they are not (see the log)",
            registry=registry,
        )
        self._left_out = Gauge(
            "netgang_started_gangs_left_out",
            "Gangs that have started and do not fit into netgang's ConfigMap",
            registry=registry,
        )

    def starts_kept(self, kept: bool, left_out: int) -> None:
        """Whether starts outlive this process, and of how many gangs they do not for lack of room."""
        self._kept.set(kept)
        self._left_out.set(left_out)
