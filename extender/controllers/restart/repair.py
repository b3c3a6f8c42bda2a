"""Gangs that lost members after they had started: an Event, and a restart where that is configured.

docs/safety.md S8.

The planner itself places successors first and beside the others; this controller does what it cannot: see that a
member without a successor is lost, say what is waited for, and hand the gang to `restarts`. Rules: a gang that cannot
be restarted is given successors like any other; a refusal that lasts is not asked for again until it was whole.
"""

from collections.abc import Callable

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.recorder import Happening
from extender.controllers.restart.controller import Restarts
from extender.controllers.restart.eligibility import Obstacle
from extender.runtime.clock import Backoff
from extender.runtime.slices import Steps
from scoring.feasibility.quorum import Quorums
from scoring.ids import GangKey, NodeName
from scoring.model import Gang
from scoring.model.policy import Repair, gang_options
from scoring.repair import Crew, due_s, observe, repaired, words_of

PATIENCE_S = 5.0  # A loss gets an Event when it has stood so long
_AGAIN = Backoff(5.0, 120.0)  # After a refusal that need not last


class _Watched(msgspec.Struct):
    gang: Gang
    crew: Crew
    posted: str = ""
    asked: int = 0  # How often it was handed to `restarts` since it broke
    ask_again_s: float = 0.0  # When it may be handed to `restarts` again
    given_up: bool = False  # It cannot be restarted, and is given successors instead
    refused: str = ""  # Why it was not restarted when that was asked last
    owner_over: bool | None = None  # Its owner wants no more pods; `None`: it has yet to be asked before the next Event
    over: bool = False  # It was restarted: the members that run next are others


class Repairs(ControlLoop):
    """The crews of all gangs that run. Bounded by the gangs that exist."""

    def __init__(
        self, context: ControllerContext, restarts: Restarts, *, silent: Callable[[], frozenset[NodeName]]
    ) -> None:
        """`silent`: nodes that exist and have not answered for too long."""
        super().__init__(context)
        self._restarts, self._silent = restarts, silent
        self._asking = context.background("repair")
        self._quorums = Quorums()
        self._watched: dict[GangKey, _Watched] = {}
        self._looked_at: dict[GangKey, Gang] = {}  # All gangs as they were at the last look
        self._nodes: tuple[int, frozenset[NodeName]] = (0, frozenset())  # version, silent ones

    def look(self) -> Steps[None]:
        """See what is lost. Cost: O(gangs + members that changed, all when nodes did)."""
        now_s = self.context.clock.monotonic_s()
        self._quorums.keep_only(self.context.cache.gang)
        snapshot, under_way = self.context.cache.snapshot(), self._restarts.under_way
        nodes = snapshot.table.version, self._silent()
        same_nodes, self._nodes = nodes == self._nodes, nodes
        before, after = self._watched, dict[GangKey, _Watched]()
        looked_at, self._looked_at = self._looked_at, dict(snapshot.gangs)
        mine = self._looked_at
        for key, gang in snapshot.gangs.items():
            yield
            if self._looked_at is not mine:
                return  # all was forgotten meanwhile
            watched = before.get(key)
            if watched is not None and watched.over:
                watched = None
            elif key in under_way or (
                same_nodes and looked_at.get(key) is gang and (watched is None or not watched.crew.broken)
            ):
                if watched is not None:
                    after[key] = watched
                continue
            if key not in under_way and gang.actionable and (watched := self._seen(watched, gang, now_s)) is not None:
                after[key] = watched
                if watched.crew.broken:
                    self._see_to(key, watched, now_s)
        self._watched = after

    def words(self, key: GangKey) -> str:
        """What is wrong with a gang that lost members, and what is waited for; empty: nothing is."""
        if key in self._restarts.under_way:
            return "The gang is being restarted as a whole."
        watched = self._watched.get(key)
        if watched is None or watched.over or watched.owner_over or not watched.crew.broken:
            return ""
        refused = f" It is not restarted as a whole, because {watched.refused}." if watched.refused else ""
        return words_of(watched.crew) + refused

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._watched, self._looked_at = {}, {}

    def _seen(self, watched: _Watched | None, gang: Gang, now_s: float) -> _Watched | None:
        quorum = self._quorums.of(gang, lost_nodes=self.context.lost_of(gang.members))
        nodes = self.context.cache.snapshot().table.index
        crew = observe(watched.crew if watched is not None else None, gang, quorum, nodes=nodes, now_s=now_s)
        if crew is None:
            return None
        if watched is None:
            return _Watched(gang, crew)
        by_successors = watched.given_up or self._repair_of(gang) is not Repair.RESTART
        mended = repaired(crew, quorum, gang) if by_successors else None
        if mended is not None or not crew.broken:
            return _Watched(gang, mended or crew)
        watched.gang, watched.crew = gang, crew
        return watched

    def _repair_of(self, gang: Gang) -> Repair:
        return gang_options(dict(gang.options), self.context.planner.policy).repair

    def _see_to(self, key: GangKey, watched: _Watched, now_s: float) -> None:
        repair = self._repair_of(watched.gang)
        if repair is Repair.NONE:
            return
        since_s, note = watched.crew.broken_since_s, words_of(watched.crew)
        if since_s is not None and now_s - since_s >= PATIENCE_S and note != watched.posted:
            if watched.owner_over is None:
                watched.owner_over = True  # until it has answered
                self._asking.start(self._ask_owner(key, watched), f"ask the owner of {key}")
            elif not watched.owner_over:
                watched.posted, watched.owner_over = note, None
                there = (*watched.gang.pending, *watched.gang.placed)
                self.context.post_gang_event(watched.gang, Happening.BROKEN, note, note, pods=there[:1])
        limits = self.context.planner.policy.repair
        due = due_s(watched.crew, watched.gang, limits) if repair is Repair.RESTART else None
        if due is None or watched.given_up or not self.context.quiet.over:
            return
        if now_s >= due and now_s >= watched.ask_again_s:
            watched.asked += 1
            watched.ask_again_s = now_s + _AGAIN.whole_s(watched.asked)
            first = watched.crew.losses[0]
            why = f"pod {first.name} was lost, {first.cause_text}"
            self._restarts.add(key, why=why, ended=self._ended)

    async def _ask_owner(self, key: GangKey, watched: _Watched) -> None:
        """A job that ends loses its members one by one, which gets no Event."""
        watched.owner_over = await self._restarts.judge.wants_no_more(key)

    def _ended(self, key: GangKey, obstacle: Obstacle | None) -> None:
        """A restart is over: what runs next is another crew; or it was refused, and the gang is kept in mind."""
        if (watched := self._watched.get(key)) is not None:
            watched.over = obstacle is None
            watched.given_up, watched.refused = (obstacle.final, obstacle.why) if obstacle is not None else (False, "")
