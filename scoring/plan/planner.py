"""The planner: from a snapshot to a plan for all gangs together.

Rule: room that one gang is given is not there for the next, and what is committed is taken out first, so a plan never
promises the same room twice. The same arguments always give the same plan; a cache only saves time.

Steps:
1. Demand: what each gang asks for (`demand`).
2. Capacity: what is free (`capacity`), less the room of commitments (docs/safety.md S4).
3. Queue order (`queue_order`), in which new gangs beyond `most_new` have no place yet. Then gang by gang:
4. Reservations for gangs that find no room (`reservations`).
5. Zone order: which zones are tried first (`placement`).
6. Placement: the place of the previous plan if it still stands, else all members that the gang
   asked for, together (`placement`); nothing is searched where counting shows that there is no room.
7. Second look: gangs that found no room for all of that get room for their minimum and as many more as fit: no gang
   that waits can use this room whole. A STARVING gang is not made to wait for it, and has this look in its turn.
8. Result.

Why places are kept: pods are offered their nodes one by one, so a plan that moves a gang between two offers makes both
worthless; and a run after one event costs little. A gang ahead may take a kept place away; new network data, or a node
that does not do any more, make a gang be placed again.
"""

from math import inf

from msgspec.structs import replace

from scoring import GangKey
from scoring.model.policy import Policy, Preempting, ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan.cache import PlannerCache
from scoring.plan.demand import GangDemand, countable, whole_of
from scoring.plan.placement import (
    LaterPlaces,
    asks_uncounted,
    could_ever_start,
    has_room,
    keep_commitment,
    keep_place,
    kind_of,
    place_anew,
    place_anywhere,
)
from scoring.plan.queue_order import QueueOrder
from scoring.plan.reservations import BackfillRoom, StarvationReservations, promised_first
from scoring.plan.result import WANTS_ROOM, Admission, NoPlace, Placed, Plan, Waiting
from scoring.plan.run import Run, begin_run, take_commitments
from scoring.queue.weights import is_wide


def plan(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_s: float,
    previous: Plan | None = None,
    cache: PlannerCache | None = None,
    most_new: float = inf,
) -> Plan:
    """Decide for every gang of the snapshot that has pending members, but for new ones beyond `most_new`: `Plan.later`.

    `previous`: the plan whose places are kept where they still stand. `now_s`: Unix time. Cost: about linear in gangs,
    plus the selection in one zone, O(nodes of the zone²), for each gang that gets a new place.
    """
    cache = cache if cache is not None else PlannerCache()
    previous = previous if previous is not None else Plan(version=-1, network_version=-1)
    cache.keep_only(snapshot.gangs)
    run = begin_run(snapshot, policy, cache)
    demands = cache.demands.pending(snapshot.gangs.values(), policy, run.table.index)
    take_commitments(run)
    order = QueueOrder(run, now_s=now_s)
    later = order.later(demands, {*previous.admitted, *previous.waiting}, most_new)
    demands = order.in_order([demand for demand in demands if demand.gang.key not in later])
    if policy.queue.backfill:
        demands = promised_first(demands, previous.promise, snapshot)
    # 4. to 7. Gang by gang
    turns = _Turns(run, demands, order, previous, now_s=now_s)
    late = [place for place in range(len(demands)) if not turns.decide(place)]
    for place in late:
        turns.decide(place, again=True)
    return Plan(
        snapshot.version,
        snapshot.network.version,
        turns.admitted,
        turns.waiting,
        node_of={uid: node for admission in turns.admitted.values() for uid, node in admission.members.items()},
        partial=frozenset(demand.gang.key for demand in demands if demand.partial),
        reservations=turns.reserved.made,
        promise=turns.room.promise,
        later=later,
    )


class _Turns:
    def __init__(self, run: Run, demands: list[GangDemand], order: QueueOrder, previous: Plan, *, now_s: float) -> None:
        self._run, self._demands, self._order, self._previous, self._now_s = run, demands, order, previous, now_s
        same_network = previous.network_version == run.snapshot.network.version
        self._before = previous.admitted if same_network else {}  # Places that gangs may keep
        places = [(demand, self._before[demand.gang.key]) for demand in demands if demand.gang.key in self._before]
        self._later = LaterPlaces(run, places)
        backfills = run.policy.queue.backfill and any(gang.length_s is not None for gang in run.snapshot.gangs.values())
        self.room = BackfillRoom(run, previous.promise, backfills=backfills, now_s=now_s)
        self.reserved = StarvationReservations(run, previous.reservations)
        # Gangs that ask for the same → a moment of the room, and what `_by_end_times` made of which refusal then
        self._by_ends: dict[object, tuple[object, NoPlace, NoPlace]] = {}
        # Gangs that are placed in their turn or not at all, and those about which more than room decides
        self._never_late = {*self._before, *run.snapshot.commitments, *run.snapshot.claims}
        # STARVING gangs may start with their minimum; suspendable ones only once they have been so for `long_s`
        aged = [demand for demand in demands if demand.gang.key in order.aged]
        self._never_late.update(d.gang.key for d in aged if not self._by_level(d) or order.waits_long(d))
        self._apart = {*self._never_late, *previous.admitted, *run.snapshot.backing_off_until_s}
        self._moment: object = run.capacity.room.moment  # Of the room, when one of the others was looked at last
        self.admitted: dict[GangKey, Admission] = {}
        self.waiting: dict[GangKey, Waiting] = {}

    def decide(self, place: int, *, again: bool = False) -> bool:
        """Admit or refuse one gang; `False`: it is to have a second look, as which `again` is made."""
        demand = self._demands[place]
        key = demand.gang.key
        before = self._before.get(key)
        if before is not None:
            self._later.begin(key)
        outcome: Placed | NoPlace | None = self._refused_at_once(demand)
        given = self._moment != self._run.capacity.room.moment
        if key not in self._apart or (outcome is None and before is None):
            self._moment = self._run.capacity.room.moment
        if outcome is None:
            whole = demand if again or key in self._never_late else self._whole(demand, given=given)
            outcome = self._place(whole)
            if isinstance(outcome, NoPlace):
                outcome = self._by_end_times(self.room, whole, outcome)
            else:
                self.room.close(whole, outcome.nodes)
            if isinstance(outcome, NoPlace) and whole is not demand:
                by_level = self._by_level(demand) and is_wide(whole.gang, self._run.table, self._run.policy.service)
                if not (by_level and could_ever_start(self._run, whole)):  # else it starts whole or not at all
                    return False
        if isinstance(outcome, NoPlace):
            refused, last = self._reserve(demand, outcome), self._previous.waiting.get(key)
            waits = Waiting(key, place + 1, refused.reason, refused.detail)
            self.waiting[key] = last if last is not None and last == waits else waits
            return True
        held = key in self._run.snapshot.commitments
        admission = Admission(key, place + 1, outcome.zones, outcome.nodes, outcome.score, committed=held)
        self.admitted[key] = before if before is not None and before == admission else admission
        return True

    def _by_level(self, demand: GangDemand) -> bool:
        """Whether the gang takes room by its service level, and gives it back so."""
        return demand.options.suspendable and self._run.policy.preemption is not Preempting.OFF

    def _refused_at_once(self, demand: GangDemand) -> NoPlace | None:
        """What no room can help: a broken gang, one that is incomplete or backs off."""
        gang = demand.gang
        if gang.problem is not None:
            return NoPlace(gang.problem, gang.problem_detail)
        incomplete = demand.incomplete
        if incomplete is not None:
            return NoPlace(Reason.INCOMPLETE, incomplete)
        until_s = self._run.snapshot.backing_off_until_s.get(gang.key)
        if until_s is not None and until_s > self._now_s and not demand.partial:
            return NoPlace(Reason.BACKING_OFF, f"for another {until_s - self._now_s:.0f} s")
        return None

    def _whole(self, demand: GangDemand, *, given: bool) -> GangDemand:
        """All that the gang asks for, if that is more than its minimum and it has nothing yet; else `demand` itself.

        Also `demand`, if counting alone shows no room for its minimum and none was `given` away since the gang before:
        the second look could not place it either, so it is told in its turn.
        """
        if demand.siblings or demand.options.zone_policy is ZonePolicy.PREFERRED:
            return demand
        whole = whole_of(demand)
        if whole is demand or given or demand.gang.key in self._apart:
            return whole
        excluded = any(self._run.snapshot.excluded(member_class) for member_class, _ in demand.need)
        by_count_alone = countable(demand) and not excluded and not asks_uncounted(self._run, demand)
        if not by_count_alone or has_room(self._run, demand):
            return whole
        return whole if self.room.wants(demand) or self.room.fills(demand) else demand

    def _place(self, demand: GangDemand) -> Placed | NoPlace:
        """What is committed stays; else the place it had, one that no gang has or that late ones had, or any."""
        run, before, now_s = self._run, self._before.get(demand.gang.key), self._now_s
        if demand.gang.key in run.snapshot.commitments:
            return keep_commitment(run, demand)
        placed = self._back_again(demand, before) if demand.gang.former and demand.gang.started else None
        if placed is None and before is not None:
            placed = keep_place(run, demand, before) or self._later.move_aside(demand, now_s=now_s)
        return placed or place_anywhere(run, demand, now_s=now_s)

    def _back_again(self, demand: GangDemand, before: Admission | None) -> Placed | None:
        """As `keep_place`, deleted members' successors where these were, unless a link is bad there (PAPERS E4)."""
        run, given = self._run, dict(before.members) if before is not None else {}
        wanted = {pod.uid for _, pods in (*demand.need, *demand.more) for pod in pods} - given.keys()
        former = {uid: node for uid, node in demand.gang.former if uid in wanted and node in run.table.index}
        if not former:
            return None
        ends = {node for _, node in demand.siblings}
        others = tuple(sorted({*ends, *former.values(), *(node for node in given.values() if node in run.table.index)}))
        links = run.scores.toward((*former.values(),), others, replace(run.view.score(demand), bad_pairs_first=True))
        back = {uid: node for (uid, node), bad in zip(former.items(), links.bad.tolist(), strict=True) if not any(bad)}
        zones, score = (before.zones, before.score) if before is not None else ((), None)
        zones = tuple(sorted({*zones, *run.view.zones_of(ends)}))
        return keep_place(run, demand, Admission(demand.gang.key, 0, zones, back | given, score))

    def _by_end_times(self, room: BackfillRoom, demand: GangDemand, refused: NoPlace) -> Placed | NoPlace:
        """Place the gang in room that is kept for a later start, if it may have it; else perhaps promise it a start."""
        key, before = demand.gang.key, self._before.get(demand.gang.key)
        if refused.reason not in WANTS_ROOM or key in self._run.snapshot.commitments:
            return refused
        over_zones = before is not None or demand.options.zone_policy is ZonePolicy.PREFERRED
        fills = room.fills(demand) and (over_zones or room.would_help(demand))
        alike = (id(kind_of(self._run, demand)), fills)
        cached = self._by_ends.get(alike)
        same = cached is not None and cached[:2] == (self._run.capacity.room.moment, refused)
        if cached is not None and same and before is None and not room.wants(demand):
            return cached[2]
        if fills:
            room.open()
            outcome: Placed | NoPlace | None = keep_place(self._run, demand, before) if before is not None else None
            if outcome is None:
                outcome = place_anew(self._run, demand, now_s=self._now_s)
            room.close(demand, outcome.nodes if isinstance(outcome, Placed) else None)
            if isinstance(outcome, Placed):
                return outcome
        if not room.wants(demand):
            told = room.explained(demand, refused)
            if room.promise is None or room.promise.gang != key:
                self._by_ends[alike] = (self._run.capacity.room.moment, refused, told)
            return told
        promise = room.try_to_promise(demand, self.admitted.values())
        if promise is None:
            return refused
        after = f"after {promise.after} ends" if promise.after is not None else "next"
        return NoPlace(refused.reason, f"{refused.detail}; it starts {after}, in zone {promise.zones[0]}")

    def _reserve(self, demand: GangDemand, refused: NoPlace) -> NoPlace:
        """Keep room for the gang if it is STARVING, or if others leave for it; gives the refusal in its final words."""
        promised = (promise := self.room.promise) is not None and promise.gang == demand.gang.key
        if promised or refused.reason not in WANTS_ROOM:
            return refused
        claim = self._run.snapshot.claims.get(demand.gang.key)
        starving = demand.gang.key in self._order.aged and self._order.may_reserve(demand)
        return self.reserved.reserve(demand, refused, claim, starving=starving)
