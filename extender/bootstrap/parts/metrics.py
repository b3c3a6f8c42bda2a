"""Carry the counts that reflectors and network sources keep themselves over into metrics.

Why here and not where they arise: those parts know no metrics, so that they can be used and tested alone. Counters only
grow: each look adds what came since the last one.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from extender.network.coverage import AGE_EDGES_S, node_counts
from extender.network.refresh import NetworkStatus
from extender.runtime.telemetry import Telemetry

_EVERY_S = 5.0
_AGES = (*(f"{edge_s:g}" for edge_s in AGE_EDGES_S), "+Inf")


class Reporting:
    """Looks at the statuses now and then."""

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        sync: Callable[[], Mapping[str, Mapping[str, Any]]],
        network: Callable[[], NetworkStatus | None],
    ) -> None:
        self._telemetry = telemetry
        self._sync = sync
        self._network = network
        self._seen: dict[tuple[str, str], float] = {}
        """(what, whose) → value at the last look"""

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_EVERY_S)

    def look(self) -> None:
        """One look."""
        for kind, status in self._sync().items():
            for _ in range(self._more("relists", kind, status["relists"])):
                self._telemetry.relisted(kind)
            for _ in range(self._more("errors", kind, status["errors"])):
                self._telemetry.watch_failed(kind)
            readings, objects = self._more("unreadable", kind, status["unreadable"]), status["unreadable_now"]
            self._telemetry.unreadable(kind, readings=readings, objects=objects)
            age_s = status["contact_age_s"]
            if age_s is not None:
                self._telemetry.contact(kind, age_s=age_s)
        network = self._network()
        if network is None:
            return
        for metric, pairs in network.pairs.items():
            self._telemetry.network_pairs(str(metric), fresh=pairs.fresh, fading=pairs.fading, expired=pairs.expired)
        for metric, coverage in network.coverage.items():
            self._telemetry.network_pairs_unknown(str(metric), coverage.unknown)
            self._telemetry.network_ages(str(metric), dict(zip(_AGES, coverage.ages, strict=True)))
        if network.mapping is not None:
            for metric, count_by_state in node_counts(network.mapping).items():
                self._telemetry.network_nodes(str(metric), count_by_state)
        for source in network.sources:
            if source.fetch_s is not None:
                self._telemetry.network_took(source.name, source.fetch_s)
            for _ in range(self._more("failures", source.name, source.failures)):
                self._telemetry.network_fetched(source.name, "error")
            if self._more("success", source.name, source.last_success_s or 0.0):
                self._telemetry.network_fetched(source.name, "success")

    def _more(self, what: str, whose: str, value: float) -> int:
        """By how much a value grew since the last look (at least 1 when it grew at all)."""
        before = self._seen.get((what, whose), 0.0)
        self._seen[what, whose] = value
        return max(int(value - before), 1) if value > before else 0
