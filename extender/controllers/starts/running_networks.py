"""Know what network each gang that runs has: with the data of today, and when it started.

Why kept and not computed when asked: a gang on 64 nodes takes 10 ms, and the queue shows thousands. Rules: a gang is
looked at when its pods changed, and again with new network data, but not more often than once in `AGAIN_S`; few are
looked at in a second, those that were looked at longest ago first. The score at the start is remembered by the leader
that saw the start, and is gone with it; the annotation on a pod stays.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from extender.controllers.context import ControllerContext
from scoring.explain.running_network import RunningNetwork, running_network
from scoring.ids import GangKey
from scoring.model import Gang, GangSource, Policy
from scoring.plan import PlannerCache, begin_run
from scoring.plan.namespace_quota import namespace_of
from scoring.queue.states import is_running

AGAIN_S: Final = 60.0
_MOST_A_LOOK: Final = 10  # 3 ms each beside 5,000 nodes
_GANGS_A_STEP: Final = 64


@dataclass(slots=True)
class Known:
    """What is known of one gang that runs."""

    gang: Gang
    version: int  # Of the network's data
    at_s: float  # When it was looked at, Unix seconds
    network: RunningNetwork | None
    score_at_start: float | None = None


@dataclass(eq=False, repr=False)
class RunningNetworks:
    """Every gang that runs. Bounded by the gangs that exist."""

    context: ControllerContext
    policy: Policy
    planner_cache: Callable[[], PlannerCache]
    on_start: Callable[[Gang, RunningNetwork, float], None] = lambda _gang, _network, _at_s: None
    looks: int = field(default=0, init=False)
    """How many times gangs were looked at: what is shown of them may be different then"""
    _known: dict[GangKey, Known] = field(default_factory=dict, init=False)
    _starts: set[GangKey] = field(default_factory=set, init=False)  # Gangs that started in this term, and are not seen

    def started(self, gang: GangKey) -> None:
        """A gang has just started: what it has now is what it has got."""
        self._starts.add(gang)

    def of(self, gang: GangKey) -> Known | None:
        """What is known of a gang; `None`: it does not run, or was not looked at yet."""
        return self._known.get(gang)

    def forget(self) -> None:
        """Know nothing of starts, as after a restart."""
        self._starts.clear()
        for known in self._known.values():
            known.score_at_start = None

    def look(self) -> Iterator[None]:
        """Once a second, in steps. Cost: O(gangs), and the links of a few."""
        plan = self.context.plan()
        if plan is None:
            return
        snapshot, now_s = self.context.cache.snapshot(), self.context.clock.now_s()
        gone = self._known.keys() - snapshot.gangs.keys()
        self._starts &= snapshot.gangs.keys()
        for key in gone:
            del self._known[key]
        due: list[tuple[bool, float, GangKey]] = []
        for number, (key, gang) in enumerate(snapshot.gangs.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            known = self._known.get(key)
            if known is not None and known.gang is gang:
                if known.version != snapshot.network.version and now_s - known.at_s >= AGAIN_S:
                    due.append((key not in self._starts, known.at_s, key))
            elif not gang.own or gang.source is GangSource.NATIVE or not is_running(gang):
                self._known.pop(key, None)
            else:
                due.append((key not in self._starts, known.at_s if known is not None else 0.0, key))
        for _, _, key in sorted(due)[:_MOST_A_LOOK]:
            yield
            run = begin_run(snapshot, self.policy, self.planner_cache())
            self._look_at(snapshot.gangs[key], snapshot.network.version, running_network(run, snapshot.gangs[key]))
        if due:
            self.looks += 1

    def _look_at(self, gang: Gang, version: int, network: RunningNetwork | None) -> None:
        now_s, before = self.context.clock.now_s(), self._known.get(gang.key)
        known = Known(gang, version, now_s, network, before.score_at_start if before is not None else None)
        self._known[gang.key] = known
        if gang.key in self._starts and network is not None:
            self._starts.discard(gang.key)
            known.score_at_start = network.score
            if network.score is not None:
                self.context.telemetry.gang_metrics.started_with(namespace_of(gang), network.score)
            self.on_start(gang, network, now_s)
