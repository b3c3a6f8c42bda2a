"""Decide on the next gang: the place it has, another one, or the reason to wait.

Steps, the first that answers counts:
1. What is committed stays (docs/safety.md S4); what came later goes beside it.
2. The place that the previous plan gave it, if that still stands.
3. For a gang that had one: a place that no gang has, else that of as few and as late gangs as suffice.
4. Any place that is left.
"""

from dataclasses import replace

from scoring.ids import NodeName, PodUid
from scoring.model import Role
from scoring.model.reasons import Reason
from scoring.plan.ask import Ask, countable
from scoring.plan.footprint import take_again
from scoring.plan.later import Later
from scoring.plan.outcome import Placed, Refused
from scoring.plan.place import has_room, place_minimum_in_steps, place_more, place_rest
from scoring.plan.result import Admission
from scoring.plan.run import Run
from scoring.plan.steps import Steps
from scoring.plan.zones import kind_of

Ends = tuple[tuple[Role, NodeName], ...]


def decided(
    run: Run, ask: Ask, before: Admission | None, later: Later, *, committed: Ends, now_s: float
) -> Steps[Placed | Refused]:
    """The gang's outcome, whose room is taken. `before`: its previous place; `committed`: see docs/safety.md S4."""
    return (
        _keep_commitment(run, ask, committed)
        or _keep_place(run, ask, before)
        or (yield from _move_aside(run, ask, later if before is not None else None, now_s=now_s))
        or (yield from _any_place(run, ask, now_s=now_s))
    )


def refused_at_once(run: Run, ask: Ask, *, now_s: float) -> Refused | None:
    """What cannot be helped by any room: a broken gang, one that is incomplete, one that backs off."""
    gang = ask.gang
    if gang.problem is not None:
        return Refused(gang.problem, gang.problem_detail)
    incomplete = ask.incomplete
    if incomplete is not None:
        return Refused(Reason.INCOMPLETE, incomplete)
    until_s = run.snapshot.backing_off_until_s.get(gang.key)
    if until_s is not None and until_s > now_s and not ask.partial:
        return Refused(Reason.BACKING_OFF, f"for another {until_s - now_s:.0f} s")
    return None


def _keep_commitment(run: Run, ask: Ask, ends: Ends) -> Placed | Refused | None:
    """A committed gang keeps its nodes (their room is taken already); members that came later go beside them."""
    commitment = run.snapshot.commitments.get(ask.gang.key)
    if commitment is None:
        return None
    nodes: dict[PodUid, NodeName] = {
        pod.uid: commitment.assignment[pod.uid] for pod in ask.gang.pending if pod.uid in commitment.assignment
    }
    zones = run.zones_of([*nodes.values(), *(node for _, node in ask.siblings)])
    placed = _beside(run, ask, Placed(zones, nodes, ends, None))
    return (
        placed if placed.nodes else Refused(Reason.SURPLUS, "the minimum is under way; more start when there is room")
    )


def _keep_place(run: Run, ask: Ask, before: Admission | None) -> Placed | None:
    """The gang's place in the previous plan, if it still stands for the whole minimum set and in zones it may use."""
    if before is None or not set(before.zones).issubset(run.candidate_zones(ask)) or not take_again(run, ask, before):
        return None
    pending = [pod for _, pods in (*ask.need, *ask.more) for pod in pods]
    nodes = {pod.uid: before.members[pod.uid] for pod in pending if pod.uid in before.members}
    if len(nodes) == len(pending):
        same = len(nodes) == len(before.members)
        return Placed(before.zones, before.members if same else nodes, (), before.score)
    ends = tuple((pod.role, nodes[pod.uid]) for pod in pending if pod.uid in nodes)
    placed = _beside(run, ask, Placed(before.zones, nodes, ends, before.score))
    return placed if placed.nodes else None  # those that had a place run by now, the rest is looked at again


def _move_aside(run: Run, ask: Ask, later: Later | None, *, now_s: float) -> Steps[Placed | None]:
    """A gang that lost its place takes another one that no gang has, else that of as few and as late gangs as suffice.

    Otherwise each gang that is moved would move the next, and one pod's event would cost a full plan.
    """
    if later is None or not ask.need:
        return None
    for left_out in later.tries():
        with later.spared(but_last=left_out):
            if not has_room(run, ask):
                continue
            outcome = yield from place_minimum_in_steps(run, ask, now_s=now_s)
        if isinstance(outcome, Placed):
            return _with_more(run, ask, outcome)
    return None


def _any_place(run: Run, ask: Ask, *, now_s: float) -> Steps[Placed | Refused]:
    if not ask.need:
        zones = run.zones_of(node for _, node in ask.siblings)
        more = place_more(run, ask, zones, ()) if zones else place_rest(run, ask)
        return more or Refused(Reason.SURPLUS, "the minimum runs; more members start when there is room")
    kind = kind_of(run, ask)
    if kind.refused is not None and kind.refused[0] in (None, run.room.moment):
        return kind.refused[1]
    outcome = yield from place_minimum_in_steps(run, ask, now_s=now_s)
    if isinstance(outcome, Refused):
        if outcome.reason is not Reason.SPILL_WAIT:  # which only a clock decides
            kind.refused = (run.room.moment if countable(ask) else None, outcome)
        return outcome
    return _with_more(run, ask, outcome)


def _beside(run: Run, ask: Ask, placed: Placed) -> Placed:
    """Add members that have no node in `placed`, as many as fit, near those that have."""
    rest = tuple(
        (member_class, left)
        for member_class, pods in (*ask.need, *ask.more)
        if (left := tuple(pod for pod in pods if pod.uid not in placed.nodes))
    )
    late = replace(ask, need=(), more=rest)
    return _with_more(run, late, placed) if rest and placed.zones else placed


def _with_more(run: Run, ask: Ask, placed: Placed) -> Placed:
    if not ask.more:
        return placed
    more = place_more(run, ask, placed.zones, placed.ends)
    return placed if more is None else Placed(placed.zones, {**placed.nodes, **more.nodes}, more.ends, placed.score)
