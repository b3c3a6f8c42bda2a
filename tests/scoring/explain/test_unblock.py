"""What would let a gang in, in named cases: the easiest way first, in words and as changes."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from scoring.explain.suggestions.candidates import room_in_steps
from scoring.explain.suggestions.more_room import more_room
from scoring.explain.suggestions.other_jobs import MOST_AHEAD
from scoring.explain.unblock import MOST_TRIALS, Trials, Unblocking, unblock, unblock_in_steps
from scoring.ids import GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Gang, GangSource, HostPort, Node, NodeSelectorTerm, Pod, Requirement, Role, Taint
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.resources import Resources
from scoring.plan import PlannerCache, Waiting, begin_run, plan
from scoring.plan.steps import finish
from scoring.what_if.changes import (
    AddCapacity,
    AddNodes,
    AddPods,
    Change,
    ClockAdvances,
    IgnoreNodeLabel,
    JobEnds,
    JobShrinks,
    LowerRequest,
    Tolerate,
)
from scoring.what_if.draft import Situation
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.plan.planned import dressed

A1, B1 = node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="2")
PLAIN = [pod("plain", cpu="4", node="a1", scheduler_name="x"), pod("other", cpu="2", node="b1", scheduler_name="x")]


def job(name: str, size: int, where: str, *, least: int | None = None, **fields: object) -> Gang:
    members = [
        bound(pod(f"{name}-{i}", gang=name, role=Role.WORKER, index=i, scheduled_s=0.0, **fields), where)  # type: ignore[arg-type]
        for i in range(size)
    ]
    return gang(name, members=members, min_member=least)


def crowd(size: int = MOST_AHEAD + 1, **fields: object) -> list[Gang]:
    return [gang(f"f{i:02d}", 3, priority=5, created_s=float(i), **fields) for i in range(size)]  # type: ignore[arg-type]


PATIENT = Policy(queue=QueuePolicy(starve_limit_s=1800.0))


def found(
    wanted: Gang,
    *others: Gang,
    nodes: Iterable[Node] = (A1, B1),
    pods: Iterable[Pod] = (),
    now_s: float = 10.0,
    policy: Policy | None = None,
    **fields: object,
) -> Unblocking:
    policy = policy or PATIENT
    state = snapshot(nodes, [wanted, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, policy, now_s=now_s)
    assert wanted.key in made.waiting
    return unblock(Situation(state, policy, now_s), made, wanted)


LATE = gang("heavy", members=[pod(f"heavy-{i}", gang="heavy", created_s=500.0) for i in range(4)], created_s=500.0)
GATED = gang("g", 2, gates=("example.com/wait",))
PORT = (HostPort("TCP", "0.0.0.0", 80),)
PORTED = gang("g", members=[dressed(pod(f"g-{i}", gang="g"), host_ports=PORT) for i in range(3)])
BEYOND = [*job("g", 2, "a1").members, pod("g-2", gang="g", role=Role.WORKER, index=2, created_s=1.0)]
ASTRAY = gang(
    "g",
    members=[bound(pod("g-0", gang="g"), "a1"), pod("g-1", gang="g", created_s=1.0)],
    min_member=1,
    options={"zones": "x", "zone-policy": "preferred"},
)
SIX = [node(f"n{i}", zone=f"z{i}", cpu="4") for i in range(6)]
ONE = {"cpu": "1", "pods": "1"}
GONE = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("gone",)),))

case = partial(partial, found)
TEXTS: dict[str, tuple[list[str], partial[Unblocking]]] = {  # sentence: (suggestions, …: and others; cluster)
    "a job shrinks or ends, the fewest pods first, or there is more room, with its zone and node": (
        ["job default/big shrinks by 3", "job default/big ends", "3 more cpu in zone a (on a1)"],
        case(gang("g", 3), job("big", 4, "a1", least=1), pods=PLAIN[1:])),
    "workers of the minimum do not leave": (["job default/big ends", "…"],
        case(gang("g", 3), job("big", 4, "a1"), pods=PLAIN[1:])),
    "a back-off that ends": (["4 min pass", "…"], case(gang("g", 1), backing_off_until_s={"default/g": 250.0})),
    "with `preferred` the wait for one zone": (["5 min pass", "…"],
        case(gang("g", 5, options={"zone-policy": "preferred"}, created_s=10.0))),
    "behind a heavier gang that has not started, until it is STARVING": (["13 min pass", "…"],
        case(gang("light", 3), LATE, nodes=[A1], now_s=1000.0)),
    "kube-scheduler places its members nowhere": (
        ["kube-scheduler's own filters accept the nodes for default/g again"],
        case(gang("g", 2, obstacle="claim x not found"))),
    "others' gates": (["the other scheduling gates of default/g's pods are removed"], case(GATED)),
    "others' gates, and room": (
        ["2 more cpu in zone a (on a1), and the other scheduling gates of default/g's pods are removed"],
        case(GATED, pods=PLAIN)),
    "what contradicts itself": (["what contradicts itself in default/g's pods is put right"],
        case(replace(gang("g", 1), problem=Reason.MIXED_PRIORITIES, problem_detail="x"))),
    "a share that is too small": (["namespace default may have 0.667 of the cluster", "…"],
        case(gang("g", 4), policy=Policy(queue=QueuePolicy(share_cap=0.5)))),
    "nodes without a zone take gangs that prefer one": (
        ["default/g has annotation netgang.io/zone-policy=preferred", "…"],
        case(gang("g", 1), nodes=[node("n1", zone="")])),
    "a resource that no node has": (["2 more nvidia.com/gpu in zone a (on a1)"],
        case(gang("g", 1, gpu=2), nodes=[A1])),
    "a member beyond the minimum": (["1 more cpu in zone a (on a1)", "…"],
        case(gang("g", members=BEYOND, min_member=2), nodes=[A1],
             pods=[pod("x", cpu="2", node="a1", scheduler_name="x")])),
    "gangs ahead that want another zone take nothing": (["job default/small ends", "…"],
        case(gang("g", 2, cpu="1"), *crowd(options={"zones": "a"}), job("small", 2, "b1"))),
    "one more member of a gang that prefers a zone that does not exist": (
        ["default/g loses annotation netgang.io/zones, and 1 more node like a1 in zone a"],
        case(ASTRAY, nodes=[A1], exclusions={ASTRAY.members[1].member_class: frozenset({A1.name})})),
    "an empty cluster, and no zone is named": ([], case(gang("g", 1), nodes=[])),
    "no other node would do": ([], case(gang("g", members=[pod("g-0", gang="g", affinity=(GONE,))]))),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "asked"), TEXTS.values(), ids=TEXTS)
def test_what_would_let_a_gang_in(texts: list[str], asked: partial[Unblocking]) -> None:
    """All suggestions, or the first ones; an empty list: nothing is offered, and that is said."""
    told = asked()
    listed = [one.text for one in told.suggestions]
    assert listed == texts or [*listed[: len(texts) - 1], "…"] == texts
    assert (told.impossible, told.not_beside) == (told.text.startswith("Waiting will not help"), 0)
    assert told.text.endswith("." if texts else "admits it.")


CHANGES: dict[str, tuple[tuple[Change, ...], partial[Unblocking]]] = {  # sentence: (first suggestion, cluster)
    "shrinks": ((JobShrinks("default/big", 3),), case(gang("g", 3), job("big", 4, "a1", least=1), pods=PLAIN[1:])),
    "two half zones make a whole one": ((JobEnds("default/one"), JobEnds("default/two")),
        case(gang("g", 4), job("one", 2, "a1"), job("two", 2, "a1"), pods=PLAIN[1:])),
    "the zone where least is missing": (
        (AddCapacity(ZoneName("a"), ResourceName("cpu"), "2", {NodeName("a1"): "2"}),), case(gang("g", 2), pods=PLAIN)),
    "pods that are missing are like those that are there": ((AddPods(Namespace("default"), "g", 2, gang="g"),),
        case(gang("g", 1, min_member=3))),
    "an empty cluster with a named zone": ((AddNodes(ZoneName("x"), 1, {"cpu": "2", "pods": "2"}),),
        case(gang("g", 2, options={"zones": "x"}), nodes=[])),
    "a moment, in Unix seconds": ((ClockAdvances(250.0),),
        case(gang("g", 1), backing_off_until_s={GangKey("default/g"): 250.0})),
    "one host port needs one node each": ((AddNodes(ZoneName("a"), 2, ONE, NodeName("a1")),), case(PORTED, nodes=[A1])),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "asked"), CHANGES.values(), ids=CHANGES)
def test_what_would_let_a_gang_in_as_changes(changes: tuple[Change, ...], asked: partial[Unblocking]) -> None:
    assert asked().suggestions[0].changes[: len(changes)] == changes


def test_gangs_that_lose_their_place() -> None:
    """A gang behind others that were given the room: their end is offered; one that starves sends them to wait."""
    ahead = gang("heavy", 4, created_s=5.0, priority=9)
    assert "job default/heavy ends" in [one.text for one in found(gang("light", 3), ahead, nodes=[A1]).suggestions]
    assert found(gang("light", 3), LATE, nodes=[A1], now_s=1000.0).suggestions[0].instead == ("default/heavy",)


def test_room_that_is_held() -> None:
    """Behind a STARVING gang for which the zone is reserved."""
    large, small = gang("large", 4, created_s=0.0), gang("small", 1, created_s=4000.0)
    policy = Policy(queue=QueuePolicy(reserve_after_s=0.0))
    busy = pod("x", cpu="1", node="a1", scheduler_name="x")
    told = found(small, large, nodes=[A1], pods=[busy], now_s=4001.0, policy=policy)
    assert told.suggestions
    assert all(one.changes for one in told.suggestions)


def test_what_waiting_cannot_help() -> None:
    """A zone that does not exist, a gang too large for any zone; with an autoscaler waiting may help."""
    nowhere = found(gang("g", 1, options={"zones": "x"}))
    assert (nowhere.impossible, nowhere.suggestions[0].text) == (True, "default/g loses annotation netgang.io/zones")
    told = found(gang("g", 6))
    assert (told.impossible, told.text[:21]) == (True, "Waiting will not help")
    assert [one.text for one in told.suggestions] == [
        "2 more cpu in zone a (on a1)",
        "the pods of default/g ask for cpu 600m instead of 1",
        "job default/g shrinks by 2",
    ]
    asks = found(gang("g", 6), policy=Policy(asks_for_nodes=True))
    assert asks.impossible is False
    assert asks.text.startswith("It would be admitted with: 2 more cpu in zone a")


TAINTED = node("t1", zone="t", taints=[Taint("k", "v", "NoSchedule")])
GEN = NodeSelectorTerm((Requirement("gen", "Gt", ("5",)), Requirement("kind", "In", ("x", "y"))))
GPU = NodeSelectorTerm((Requirement("gpu", "Exists"), Requirement("old", "DoesNotExist")))
NEW_NODES: dict[str, tuple[Change, Pod, Node]] = {  # case: (first change, member, node)
    "a label that no node has": (AddNodes(ZoneName("a"), 1, ONE, None, {"disk": "ssd"}),
        pod("g-0", gang="g", node_selector={"disk": "ssd"}), A1),
    "an affinity that no node meets": (AddNodes(ZoneName("a"), 1, ONE, None, {"gen": "6", "kind": "x"}),
        pod("g-0", gang="g", affinity=(GEN,)), A1),
    "labels that may not or only have to be there": (AddNodes(ZoneName("a"), 1, ONE, None, {"gpu": ""}),
        pod("g-0", gang="g", affinity=(GPU,)), A1),
    "a taint on all nodes": (Tolerate(GangKey("default/g"), "k"), pod("g-0", gang="g"), TAINTED),
    "nodes that are not ready": (AddNodes(ZoneName("a"), 1, like=NodeName("a1")),
        pod("g-0", gang="g"), replace(A1, ready=False)),
}  # fmt: skip


@pytest.mark.parametrize(("change", "member", "only"), NEW_NODES.values(), ids=NEW_NODES)
def test_new_nodes_where_none_may_be_used(change: Change, member: Pod, only: Node) -> None:
    """Like one that is there, if that would do, else with the labels that are asked for."""
    told = found(gang("g", members=[member]), nodes=[only])
    assert next(one for one in told.suggestions if not isinstance(one.changes[0], IgnoreNodeLabel)).changes == (change,)


def test_room_for_all_that_are_ahead() -> None:
    """What is added goes to the first in the queue, so as much is offered as those ahead and this one need.

    A gang ahead that wants one node by name is left out; pods that ask for no place get one all the same.
    """
    ahead = [gang(f"f{i}", 2, priority=5, created_s=float(i)) for i in range(3)]
    assert set(found(gang("g", 2), *ahead, pods=PLAIN).suggestions[0].also) == {one.key for one in ahead}
    pinned = gang("f", members=[pod("f-0", gang="f", priority=9, affinity=(GONE,))], priority=9)
    cpu = Resources.parse({"cpu": 1})
    small = [replace(p, member_class=replace(p.member_class, requests=cpu)) for p in gang("g", 2).members]
    told = found(gang("g", members=small), pinned, gang("h", 2, priority=8), pods=PLAIN)
    assert told.suggestions[0].also == ("default/h",)


def test_behind_too_many_the_search_ends_and_says_so() -> None:
    """Room for all of them is not supposed; what few trials showed is said with the number of those ahead."""
    told = found(gang("g", 3), *crowd(), job("big", 4, "a1", least=1), pods=PLAIN[1:])
    assert (told.suggestions, told.not_beside) == ((), MOST_AHEAD + 1)
    assert told.trials == 2, "one job that ends, and more room: both went to those ahead"
    assert told.text == (
        f"None of 2 changes that were tried admits it. {MOST_AHEAD + 1} gangs wait for room before it and would take "
        "more first; it was not searched further."
    )


def test_behind_fewer_it_does_not_end() -> None:
    """One less, and room for all of them is tried, and found to do; gangs that lack pods take no room."""
    told = found(gang("g", 3), *crowd(MOST_AHEAD), pods=PLAIN)
    assert (len(told.suggestions[0].also), told.not_beside) == (MOST_AHEAD, 0)
    told = found(gang("g", 3), *crowd(min_member=9), pods=PLAIN)
    assert (bool(told.suggestions), told.not_beside) == (True, 0)


def test_to_starve_behind_many_that_starve_longer_is_not_tried() -> None:
    """Its turn would not come before theirs; without them it would."""
    names = [f"f{i:02d}" for i in range(MOST_AHEAD + 1)]
    older = [gang(f, members=[pod(f"{f}-0", gang=f, created_s=-9.0)], options={"zones": "b"}) for f in names]
    alone, behind = (found(gang("light", 3), LATE, *more, now_s=1000.0, pods=PLAIN[1:]) for more in ((), older))
    assert alone.suggestions[0].text == "13 min pass"
    assert behind.suggestions
    assert "13 min pass" not in [one.text for one in behind.suggestions]


def test_room_that_only_the_planner_does_not_find() -> None:
    """Counting finds room for each kind: then nodes for all of them together are offered."""
    wanted = gang("g", 2)
    state = snapshot([A1], [wanted])
    waits = {wanted.key: Waiting(wanted.key, 1, Reason.NO_ROOM)}
    made = msgspec.structs.replace(plan(state, Policy(), now_s=0.0), waiting=waits)
    run = begin_run(state, Policy(), PlannerCache())
    room = finish(room_in_steps(run, made, run.view.demand(wanted)))
    assert finish(more_room(room, made, rounds=0)) == [AddNodes(ZoneName("a"), 1, like=NodeName("a1"))]


def test_a_list_that_can_be_read() -> None:
    """One job that shrinks, two that end, and the way in that needs no other job."""
    jobs = [job(f"j{i}", 2, f"n{i}", least=1, cpu="2") for i in range(6)]
    kinds = [type(one.changes[0]) for one in found(gang("g", 2), *jobs, nodes=SIX).suggestions]
    assert kinds == [JobShrinks, JobEnds, JobEnds, AddCapacity]


def test_a_gang_that_does_not_wait_needs_nothing() -> None:
    wanted = gang("g", 1)
    state = snapshot([A1], [wanted])
    told = unblock(Situation(state, Policy(), 0.0), plan(state, Policy(), now_s=0.0), wanted)
    assert (told.suggestions, told.trials, told.text) == ((), 0, "")


def test_the_number_of_trials_is_bounded() -> None:
    nodes = [node(f"n{i}", zone="a", cpu="2") for i in range(20)]
    assert found(gang("g", 40), *(job(f"j{i}", 2, f"n{i}") for i in range(20)), nodes=nodes).trials <= MOST_TRIALS


def test_long_work_is_left_often() -> None:
    """Between gangs, zones and jobs another client may have a turn (docs/safety.md S15)."""
    wanted = gang("g", 3)
    state = snapshot([A1, B1], [wanted, *crowd(MOST_AHEAD)], pods=PLAIN)
    made = plan(state, Policy(), now_s=1.0)
    steps = unblock_in_steps(Situation(state, Policy(), 1.0), made, wanted, cache=PlannerCache())
    assert sum(1 for _ in steps) > MOST_AHEAD * 2


def test_trials_end() -> None:
    """After the last one nothing is tried any more; the service's cache is only read."""
    wanted = gang("g", 9)
    state = snapshot([A1], [wanted, replace(wanted, key=GangKey("a/native"), source=GangSource.NATIVE)])
    cache = PlannerCache()
    made = plan(state, Policy(), now_s=0.0, cache=cache)
    before = dict(cache.scores)
    trials = Trials(Situation(state, Policy(), 0.0), made, wanted.key, cache=cache.borrowed(), most=1)
    assert [finish(trials.of([ClockAdvances(1.0)])) is None for _ in range(2)] == [False, True]
    assert cache.scores == before


CORDONED, DEDICATED = (
    node("b1", zone="b", unschedulable=True),
    node("b1", zone="b", taints=[Taint("k", "v", "NoSchedule")]),
)
KEPT_OFF: dict[str, tuple[str, Gang, list[Node]]] = {  # case: (suggestion, gang, nodes)
    "a cordon": ("node b1 uncordoned", gang("g", 3), [A1, CORDONED]),
    "a taint": ("the pods of default/g tolerate taint k", gang("g", 3), [A1, DEDICATED]),
    "its annotation": (
        "default/g loses annotation netgang.io/zones",
        gang("g", 3, options={"zones": "a"}), [A1, node("b1", zone="b")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted", "nodes"), KEPT_OFF.values(), ids=KEPT_OFF)
@pytest.mark.parametrize("cpu", ["1", "5"], ids=["no room now", "impossible as it is"])
def test_what_keeps_pods_off_free_nodes_is_taken_away(text: str, wanted: Gang, nodes: list[Node], cpu: str) -> None:
    """First of all, and only because the planner admitted the gang so: b1 is free, and a1 full or too small."""
    asking = gang("g", 1 if cpu == "5" else 3, cpu=cpu, options=dict(wanted.options))
    assert found(asking, nodes=nodes, pods=PLAIN[:1]).suggestions[0].text == text


HUGE = Resources.parse({"hugepages-2Mi": "2Gi"})
ASKS_HUGE = pod("g-0", gang="g")
ASKS_HUGE = replace(ASKS_HUGE, member_class=replace(ASKS_HUGE.member_class, requests=ASKS_HUGE.requests + HUGE + HUGE))
KINDS = gang("g", members=[pod(f"g-{i}", gang="g", cpu="500m", memory=f"{i}Mi") for i in range(9)])
RUNS_IN_PART = gang("g", members=[bound(pod("g-0", gang="g", cpu="3"), "a1"), pod("g-1", gang="g", cpu="2")])
SELECTS = {"disk": "ssd", "gpu": "a100"}
G: GangKey = GangKey("default/g")
ASKS_FOR_LESS: dict[str, tuple[list[Change], partial[Unblocking]]] = {  # case: (changes of its pods, cluster)
    "each of two resources would do: that first of which the larger part stays": (
        [LowerRequest(G, ResourceName("cpu"), "4", "3"), LowerRequest(G, ResourceName("nvidia.com/gpu"), "2", "1")],
        case(gang("g", 2, cpu="4", gpu=2), nodes=[node("n1", cpu="8", gpu=3), node("n2", cpu="3", gpu=2)])),
    "a quarter of the request": ([LowerRequest(G, ResourceName("cpu"), "4", "1")], case(gang("g", 1, cpu="4"),
        nodes=[A1], pods=[pod("x", cpu="3", node="a1", scheduler_name="x")])),
    "less than a quarter is another job": ([], case(gang("g", 1, cpu="4"),
        nodes=[A1], pods=[pod("x", cpu="3001m", node="a1", scheduler_name="x")])),
    "beside gangs ahead, which keep their room": ([LowerRequest(G, ResourceName("cpu"), "3", "2")],
        case(gang("g", 1, cpu="3"), gang("f", 2, priority=1), nodes=[A1])),
    "a gang of which a member runs": ([], case(RUNS_IN_PART, nodes=[A1])),
    "huge pages come in sizes": ([], case(gang("g", members=[ASKS_HUGE]),
        nodes=[replace(A1, allocatable=A1.allocatable + HUGE)])),
    "many kinds of members are not counted through": ([], case(KINDS, nodes=[A1])),
    "none of two labels alone opens a node": ([], case(gang("g", 1, node_selector=SELECTS), nodes=[A1])),
    "a label that nodes have is asked for": ([IgnoreNodeLabel(G, "gpu")],
        case(gang("g", 1, node_selector=SELECTS), nodes=[node(f"n{i}", labels={"disk": "ssd"}) for i in range(130)])),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "asked"), ASKS_FOR_LESS.values(), ids=ASKS_FOR_LESS)
def test_a_gang_that_asks_for_less(changes: list[Change], asked: partial[Unblocking]) -> None:
    """One resource or one label at a time, while none of its members has a node."""
    offered = [change for one in asked().suggestions for change in one.changes]
    assert [change for change in offered if isinstance(change, LowerRequest | IgnoreNodeLabel)] == changes


WITHOUT_INDEX = gang("g", members=[pod(f"g-{i}", gang="g") for i in range(3)])
FEWER: dict[
    str, tuple[list[int], Gang, str]
] = {  # case: (fewer workers, gang that has room for some, CPU that is used)
    "workers that have an index": ([2], gang("g", 3), "3"),
    "those beyond the minimum leave first": ([4], gang("g", 6, min_member=3), "2"),
    "workers without an index": ([], WITHOUT_INDEX, "3"),
    "fewer than a quarter are another job": ([], gang("g", 5, cpu="700m"), "3300m"),
    "none has room": ([], gang("g", 3), "4"),
}


@pytest.mark.parametrize(("by", "wanted", "used"), FEWER.values(), ids=FEWER)
def test_fewer_workers(by: list[int], wanted: Gang, used: str) -> None:
    """As many as have room now; none where the planner would still not admit the gang."""
    told = found(wanted, nodes=[A1], pods=[pod("x", cpu=used, node="a1", scheduler_name="x")])
    offered = [change for one in told.suggestions for change in one.changes]
    assert [change.by for change in offered if isinstance(change, JobShrinks)] == by
