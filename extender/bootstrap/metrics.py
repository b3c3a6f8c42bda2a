"""Carry the counts that reflectors and network sources keep themselves over into metrics.

Why here and not where they arise: those parts know no metrics, so that they can be used and tested alone. Counters only
grow: each look adds what came since the last one.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from extender.runtime.telemetry import Telemetry
from extender.schemas import SourcesStatus, Watch

_EVERY_S = 5.0


@dataclass(eq=False, repr=False)
class Reporting:
    """Looks at the statuses now and then."""

    telemetry: Telemetry
    _: KW_ONLY
    sync: Callable[[], Mapping[str, Watch]]
    network: Callable[[], SourcesStatus | None]
    _seen: dict[tuple[str, str], float] = field(default_factory=dict, init=False)

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_EVERY_S)

    def look(self) -> None:
        """One look."""
        telemetry = self.telemetry
        for kind, status in self.sync().items():
            if more := self._more("errors", kind, status.errors):
                telemetry.watch_errors.labels(kind).inc(more)
            telemetry.unreadable_objects.labels(kind).set(status.unreadable_now)
            if status.contact_age_s is not None:
                telemetry.contact_age.labels(kind).set(status.contact_age_s)
        network = self.network()
        if network is None:
            return
        for metric, pairs in network.pairs.items():
            for state in ("fresh", "fading", "expired"):
                telemetry.network_pairs.labels(metric, state).set(getattr(pairs, state))
        if network.mapping is not None:
            for metric, count_by_state in network.mapping.nodes.items():
                for state, nodes in count_by_state.items():
                    telemetry.network_nodes.labels(metric, state).set(nodes)
        for source in network.sources:
            if more := self._more("failures", source.name, source.failures):
                telemetry.network_fetches.labels(source.name, "error").inc(more)
            if self._more("success", source.name, source.last_success_s or 0.0):
                telemetry.network_fetches.labels(source.name, "success").inc()

    def _more(self, what: str, whose: str, value: float) -> int:
        """By how much a value grew since the last look (at least 1 when it grew at all)."""
        before = self._seen.get((what, whose), 0.0)
        self._seen[what, whose] = value
        return max(int(value - before), 1) if value > before else 0
