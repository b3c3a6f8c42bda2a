"""How links between nodes were over the last two hours: a bad value may be new, or may have been there all week.

Rule: in memory and bounded from the start: `MOST_LOOKS` looks at `MOST_LINKS` directed pairs. While there is room every
measured pair is kept; beyond that the bad ones, in place of those that were good at the last look. It is
empty after a restart; the sources' archives have the rest.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from extender.ports import Clock
from extender.runtime.slices import in_slices
from scoring.ids import NodeName
from scoring.model.snapshot import Snapshot
from scoring.network.link_grades import bounds_of
from scoring.network.matrix import METRICS, Metric, NetworkMatrix
from scoring.plan.steps import Steps

EVERY_S: Final = 60.0
MOST_LOOKS: Final = 120
MOST_LINKS: Final = 2_048
Link: TypeAlias = tuple[str, str]  # Endpoints, from and to


@dataclass(eq=False, repr=False)
class LinkHistory:
    """One thread of control."""

    snapshot: Callable[[], Snapshot]
    clock: Clock
    _values: dict[Metric, "_Kept"] = field(default_factory=lambda: {metric: _Kept() for metric in METRICS}, init=False)
    _version: int = field(default=0, init=False)

    async def run(self) -> None:
        """Look once a minute, if there is news; runs until cancelled."""
        while True:
            network = self.snapshot().network
            if network.version != self._version:
                await in_slices(self.add(network, self.clock.now_s()))
            await asyncio.sleep(EVERY_S)

    def add(self, network: NetworkMatrix, now_s: float) -> Steps[None]:
        """One look, a step a metric. Cost: O(pairs)."""
        self._version = network.version
        for metric, kept in self._values.items():
            kept.add(network, metric, now_s)
            yield

    def of(self, network: NetworkMatrix, source: NodeName, target: NodeName, metric: Metric) -> list[list[float]]:
        """(Unix seconds, value) of each look with a value, oldest first; empty: the pair is not kept."""
        ends = network.endpoint(source, metric), network.endpoint(target, metric)
        if ends[0] is None or ends[1] is None:
            return []
        return self._values[metric].of((ends[0], ends[1]))


class _Kept:
    """One metric."""

    def __init__(self) -> None:
        self.times_s = np.zeros(MOST_LOOKS)
        self.values = np.full((MOST_LOOKS, MOST_LINKS), np.nan, np.float32)
        self.columns: dict[Link, int] = {}
        self.good: set[Link] = set()  # At the last look: these may be replaced
        self.looks = 0

    def add(self, network: NetworkMatrix, metric: Metric, now_s: float) -> None:
        sources, targets, values, _ = network.measured_values(metric)
        best = float(values.max(initial=0.0)) if metric is Metric.THROUGHPUT else 0.0
        bounds = bounds_of(metric, best=best)
        poor = values < bounds.poor if bounds.highest_is_best else values >= bounds.poor
        first = np.flatnonzero(poor)[:MOST_LINKS]
        order = np.concatenate([first, np.flatnonzero(~poor)[: MOST_LINKS - len(first)]])
        row = self.looks % MOST_LOOKS
        self.looks += 1
        self.times_s[row], self.values[row] = now_s, np.nan
        seen: dict[Link, tuple[float, bool]] = {}
        for at in order.tolist():
            link = network.endpoints[sources[at]], network.endpoints[targets[at]]
            seen[link] = float(values[at]), bool(poor[at])
        self.good |= self.columns.keys() - seen.keys()
        for link, (value, bad) in seen.items():
            column = self.columns.get(link)
            if column is None:
                column = self._column(bad)
            if column is None:
                continue
            self.columns[link] = column
            self.values[row, column] = value
            (self.good.discard if bad else self.good.add)(link)

    def _column(self, bad: bool) -> int | None:
        if len(self.columns) < MOST_LINKS:
            return len(self.columns)
        if not bad or not self.good:
            return None
        column = self.columns.pop(self.good.pop())
        self.values[:, column] = np.nan
        return column

    def of(self, link: Link) -> list[list[float]]:
        column = self.columns.get(link)
        if column is None:
            return []
        order = np.argsort(self.times_s, kind="stable")
        found: Any = [[self.times_s[row], self.values[row, column]] for row in order.tolist()]
        return [[round(float(at_s)), float(f"{value:.3g}")] for at_s, value in found if value == value]
