"""The planner: from a snapshot to a plan for all gangs together (DESIGN §1, §4).

Rule: room that one gang is given is not there for the next, and what is committed is taken out first, so a plan never
promises the same room twice. The same arguments always give the same plan; a memo only saves time.

Steps:
1. Take the room of commitments (S4).
2. Put gangs in order (`order`); gangs that cannot be helped are answered with their reason at once.
3. Each in turn: keep the place that the previous plan gave it if that still stands (`later`), else place its minimum
   set whole or not at all (`place`); then as many further members as fit.

Why places are kept: pods are offered their nodes one by one, so a plan that moves a gang between two offers makes both
worthless; and a run after one event costs little. A gang ahead is planned first and may take a kept place away; new
network data, or a node that does not do any more, make a gang be placed anew.
"""

from collections.abc import Generator, Iterable
from dataclasses import replace

from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, GangSource, MemberClass, Role
from scoring.plan.ask import Ask
from scoring.plan.later import Later
from scoring.plan.memo import Memo
from scoring.plan.order import order_key
from scoring.plan.place import Placed, Refused, has_room, kind_of, place_minimum, place_more, place_rest
from scoring.plan.result import Admission, Plan, Waiting
from scoring.plan.run import Run
from scoring.policy import Policy
from scoring.reasons import Reason
from scoring.snapshot import Snapshot

__all__ = ["Admission", "Memo", "Plan", "Waiting", "plan", "plan_in_steps", "take_admissions", "take_commitments"]

_ASKS_A_STEP = 64
"""Gangs whose wishes are read between two steps."""


def plan(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_s: float,
    previous: Plan | None = None,
    memo: Memo | None = None,
) -> Plan:
    """Decide for every gang of the snapshot that has pending members.

    `previous`: the plan whose places are kept where they still stand. `now_s` is Unix time: it is compared with
    creation times and back-offs. Cost: about linear in gangs, plus the selection in one zone, O(nodes of the zone²),
    for each gang that gets a new place.
    """
    steps = plan_in_steps(snapshot, policy, now_s=now_s, previous=previous, memo=memo)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: Plan = done.value
            return made


def plan_in_steps(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_s: float,
    previous: Plan | None = None,
    memo: Memo | None = None,
) -> Generator[None, None, Plan]:
    """The same plan, with a chance to do something else after each step; a step is one gang or a few (S15).

    The memo may be used for other snapshots between two steps.
    """
    memo = memo if memo is not None else Memo()
    run = Run(snapshot, policy, memo)
    committed = take_commitments(run)
    admitted: dict[GangKey, Admission] = {}
    waiting: dict[GangKey, Waiting] = {}
    asks: list[Ask] = []
    for number, gang in enumerate(snapshot.gangs.values()):
        if _concerns_us(gang):
            ask = run.ask(gang)
            if ask.pending:
                asks.append(ask)
        if number % _ASKS_A_STEP == _ASKS_A_STEP - 1:
            yield
            memo.renew(snapshot.network.version)
    asks.sort(key=order_key)
    kept = previous.admitted if previous is not None and previous.network_version == snapshot.network.version else {}
    later = Later(run, [(ask, kept[ask.gang.key]) for ask in asks if ask.gang.key in kept])
    for rank, ask in enumerate(asks, start=1):
        key = ask.gang.key
        before = kept.get(key)
        later.begin(key)
        outcome: Placed | Refused | None = _refused_at_once(run, ask, now_s=now_s)
        held = key in snapshot.commitments
        if outcome is None and before is not None and not held and later.stands(key):
            same = before.rank == rank and not before.committed
            admitted[key] = before if same else replace(before, rank=rank, committed=False)
            continue
        if outcome is None:
            later.settle()
            outcome = (
                _keep_commitment(run, ask, committed.get(key, ()))
                or _keep_place(run, ask, before)
                or _move_aside(run, ask, later if before is not None else None, now_s=now_s)
                or _decide(run, ask, now_s=now_s)
            )
        if isinstance(outcome, Refused):
            waiting[key] = Waiting(key, rank, outcome.reason, outcome.detail)
        else:
            later.doubt(key, outcome.nodes)
            admitted[key] = Admission(key, rank, outcome.zones, outcome.nodes, outcome.score, committed=held)
        yield
        memo.renew(snapshot.network.version)  # another plan's network data would be taken for this one's
    node_of: dict[PodUid, NodeName] = {}
    for admission in admitted.values():
        node_of.update(admission.members)
    partial = frozenset(ask.gang.key for ask in asks if ask.partial)
    return Plan(snapshot.version, snapshot.network.version, admitted, waiting, node_of, partial)


def _concerns_us(gang: Gang) -> bool:
    """Native groups are started by kube-scheduler itself; other schedulers' pods are load (S1).

    A gang that is ours in part is told so: its problem is its answer.
    """
    return (gang.own or gang.problem is not None) and gang.source is not GangSource.NATIVE


def take_commitments(run: Run, *, besides: GangKey | None = None) -> dict[GangKey, tuple[tuple[Role, NodeName], ...]]:
    """Step 1; gives the (role, node) of every committed member that is still pending; `besides`: not this gang's."""
    ends: dict[GangKey, tuple[tuple[Role, NodeName], ...]] = {}
    nodes_of: dict[int, tuple[MemberClass, list[NodeName]]] = {}  # class number → its members' nodes
    for key, commitment in sorted(run.snapshot.commitments.items()):
        gang = run.snapshot.gangs.get(key)
        if gang is None or key == besides:
            continue
        found: list[tuple[Role, NodeName]] = []
        for pod in gang.pending:
            node = commitment.assignment.get(pod.uid)
            if node is not None:
                number = run.memo.number(pod.member_class)
                nodes_of.setdefault(number, (pod.member_class, []))[1].append(node)
                found.append((pod.role, node))
        ends[key] = tuple(found)
    for member_class, nodes in nodes_of.values():
        run.take(member_class, nodes)
    return ends


def take_admissions(run: Run, admissions: Iterable[Admission]) -> None:
    """Take the room of admitted members, for a look beside a plan; that of committed gangs is taken already."""
    taken: dict[int, tuple[MemberClass, list[NodeName]]] = {}
    for admission in admissions:
        gang = run.snapshot.gangs.get(admission.gang)
        for pod in gang.pending if gang is not None and not admission.committed else ():
            node = admission.members.get(pod.uid)
            if node is not None:
                number = run.memo.number(pod.member_class)
                taken.setdefault(number, (pod.member_class, []))[1].append(node)
    for member_class, nodes in taken.values():
        run.take(member_class, nodes)


def _decide(run: Run, ask: Ask, *, now_s: float) -> Placed | Refused:
    if not ask.need:
        zones = run.zones_of(node for _, node in ask.siblings)
        more = place_more(run, ask, zones, ()) if zones else place_rest(run, ask)
        return more or Refused(Reason.SURPLUS, "the minimum runs; more members start when there is room")
    # Room only shrinks during a run: the same wish that was refused once is refused again without looking.
    kind = kind_of(run, ask)
    if kind.refused is not None and kind.refused.reason is not Reason.SPILL_WAIT:
        return kind.refused
    outcome = place_minimum(run, ask, now_s=now_s)
    if isinstance(outcome, Refused):
        kind.refused = outcome
        return outcome
    return _with_more(run, ask, outcome)


def _refused_at_once(run: Run, ask: Ask, *, now_s: float) -> Refused | None:
    gang = ask.gang
    if gang.problem is not None:
        return Refused(gang.problem, gang.problem_detail)
    incomplete = ask.incomplete
    if incomplete is not None:
        return Refused(Reason.INCOMPLETE, incomplete)
    until_s = run.snapshot.backing_off_until_s.get(gang.key)
    if until_s is not None and until_s > now_s and not ask.siblings:
        return Refused(Reason.BACKING_OFF, f"for another {until_s - now_s:.0f} s")
    return None


def _keep_commitment(run: Run, ask: Ask, ends: tuple[tuple[Role, NodeName], ...]) -> Placed | Refused | None:
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
    if before is None or not set(before.zones).issubset(run.candidate_zones(ask)) or not run.take_again(ask, before):
        return None
    pending = [pod for _, pods in (*ask.need, *ask.more) for pod in pods]
    nodes = {pod.uid: before.members[pod.uid] for pod in pending if pod.uid in before.members}
    if len(nodes) == len(pending):
        same = len(nodes) == len(before.members)
        return Placed(before.zones, before.members if same else nodes, (), before.score)
    ends = tuple((pod.role, nodes[pod.uid]) for pod in pending if pod.uid in nodes)
    placed = _beside(run, ask, Placed(before.zones, nodes, ends, before.score))
    return placed if placed.nodes else None  # those that had a place run by now, the rest is looked at anew


def _move_aside(run: Run, ask: Ask, later: Later | None, *, now_s: float) -> Placed | None:
    """A gang that lost its place takes another one that nobody has, else that of as few and as late gangs as suffice.

    Otherwise each gang that is moved would move the next, and one pod's event would cost a full plan.
    """
    if later is None or not ask.need:
        return None
    for left_out in later.tries():
        with later.spared(but_last=left_out):
            outcome = place_minimum(run, ask, now_s=now_s) if has_room(run, ask) else None
        if isinstance(outcome, Placed):
            return _with_more(run, ask, outcome)
    return None


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
