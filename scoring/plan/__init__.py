"""The planner: from a snapshot to a plan for all gangs together.

Rule: room that one gang is given is not there for the next, and what is committed is taken out first, so a plan never
promises the same room twice. The same arguments always give the same plan; a memo only saves time.

Steps:
1. Take the room of commitments (docs/safety.md S4).
2. Put gangs in order (`order`); gangs that cannot be helped are answered with their reason at once.
3. Each in turn: keep the place that the previous plan gave it if that still stands (`later`), else place its minimum
   set whole or not at all (`decide`, `place`); then as many further members as fit.

Why places are kept: pods are offered their nodes one by one, so a plan that moves a gang between two offers makes both
worthless; and a run after one event costs little. A gang ahead is planned first and may take a kept place away; new
network data, or a node that does not do any more, make the planner place a gang again.
"""

from collections.abc import Iterable
from dataclasses import replace

from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import MemberClass, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan.bulk_refusal import BulkRefusals, still_waiting
from scoring.plan.decide import decided, refused_at_once
from scoring.plan.forgetting import keep_only
from scoring.plan.later import Later
from scoring.plan.memo import Memo
from scoring.plan.outcome import Placed, Refused
from scoring.plan.result import Admission, Plan, Waiting
from scoring.plan.run import Run
from scoring.plan.steps import Steps, finish
from scoring.plan.turns import Turns

__all__ = ["Admission", "Memo", "Plan", "Waiting", "plan", "plan_in_steps", "take_admissions", "take_commitments"]


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
    return finish(plan_in_steps(snapshot, policy, now_s=now_s, previous=previous, memo=memo))


def plan_in_steps(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_s: float,
    previous: Plan | None = None,
    memo: Memo | None = None,
) -> Steps[Plan]:
    """The same plan, with a chance to do something else after each step; a step is one gang or many alike.

    docs/safety.md S15.

    The memo may be used for other snapshots between two steps.
    """
    memo = memo if memo is not None else Memo()
    yield from keep_only(memo, snapshot.gangs)
    run = Run(snapshot, policy, memo)
    committed = take_commitments(run)
    admitted: dict[GangKey, Admission] = {}
    waiting: dict[GangKey, Waiting] = {}
    asks = yield from memo.wishes.pending(snapshot.gangs, policy, run.table.index, pause=run.pause)
    yield from run.pause()
    turns = Turns(run, now_s=now_s, previous=previous)
    yield from turns.in_order(asks)
    kept = previous.admitted if previous is not None and previous.network_version == snapshot.network.version else {}
    yield from run.pause()
    later = Later(run, [(ask, kept[ask.gang.key]) for ask in asks if ask.gang.key in kept])
    yield from run.pause()
    bulk = BulkRefusals(run, asks, turns, later, previous=previous)
    yield from run.pause()
    known = previous.waiting if previous is not None else {}
    rank = 0
    while rank < len(asks):
        told = yield from bulk.waiting(rank)
        if told:
            waiting.update(told)
            rank += len(told)
            yield from run.pause()
            continue
        ask, rank = turns.begin(asks[rank]), rank + 1
        key = ask.gang.key
        before = kept.get(key)
        later.begin(key)
        outcome: Placed | Refused | None = refused_at_once(run, ask, now_s=now_s) or turns.refuses(ask)
        held = key in snapshot.commitments
        if outcome is None and before is not None and not held and turns.keeps() and later.stands(key):
            same = before.rank == rank and not before.committed
            admitted[key] = before if same else replace(before, rank=rank, committed=False)
            turns.admitted(ask, before.members)
            continue
        if outcome is None:
            later.settle()
            outcome = (yield from bulk.refusal(rank - 1)) if before is None and not held else None
        if outcome is None:
            outcome = yield from decided(run, ask, before, later, committed=committed.get(key, ()), now_s=now_s)
        if isinstance(outcome, Refused):
            outcome = turns.refused(ask, outcome, later)
            waiting[key] = still_waiting(known.get(key), key, rank, outcome)
        else:
            later.doubt(key, outcome.nodes)
            turns.admitted(ask, outcome.nodes)
            admitted[key] = Admission(key, rank, outcome.zones, outcome.nodes, outcome.score, committed=held)
        yield from run.pause()
    node_of: dict[PodUid, NodeName] = {}
    for admission in admitted.values():
        node_of.update(admission.members)
    partial = frozenset(ask.gang.key for ask in asks if ask.partial)
    made = Plan(snapshot.version, snapshot.network.version, admitted, waiting, node_of, partial, turns.holds)
    yield from run.pause()  # adopting it takes about a step as well
    return made


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
