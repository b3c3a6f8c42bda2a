"""What would let a gang in, in named cases: the easiest way first, in words and as changes."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest

from scoring.explain.givers import room_in_steps
from scoring.explain.room import more_room
from scoring.explain.unblock import MOST_AHEAD, Unblocking, unblock, unblock_in_steps
from scoring.ids import GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Gang, HostPort, Node, NodeSelectorTerm, Pod, Requirement, Role, Taint
from scoring.model.policy import Algorithm, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.resources import Resources
from scoring.plan import PlannerCache, Waiting, begin_run, plan
from scoring.plan.steps import finish
from scoring.what_if.changes import AddCapacity, AddNodes, AddPods, Change, ClockAdvances, JobEnds, JobShrinks
from scoring.what_if.draft import Situation
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.plan.planned import dressed

A1, B1 = node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="2")
PLAIN = [pod("plain", cpu="4", node="a1", scheduler_name="x"), pod("other", cpu="2", node="b1", scheduler_name="x")]


def job(name: str, size: int, where: str, *, least: int | None = None, **fields: object) -> Gang:
    """A job that runs on one node."""
    members = [
        bound(pod(f"{name}-{i}", gang=name, role=Role.WORKER, index=i, scheduled_s=0.0, **fields), where)  # type: ignore[arg-type]
        for i in range(size)
    ]
    return gang(name, members=members, min_member=least)


def found(
    wish: Gang,
    *others: Gang,
    nodes: Iterable[Node] = (A1, B1),
    pods: Iterable[Pod] = (),
    now_s: float = 10.0,
    policy: Policy | None = None,
    **fields: object,
) -> Unblocking:
    """What would let `wish` in."""
    policy = policy or Policy()
    state = snapshot(nodes, [wish, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, policy, now_s=now_s)
    assert wish.key in made.waiting
    return unblock(Situation(state, policy, now_s), made, wish)


def texts(wish: Gang, *others: Gang, **fields: object) -> list[str]:
    """The same in words."""
    return [one.text for one in found(wish, *others, **fields).suggestions]  # type: ignore[arg-type]


def test_a_job_shrinks_or_ends_or_there_is_more_room() -> None:
    """The fewest pods first; room is said with its zone and node."""
    told = found(gang("g", 3), job("big", 4, "a1", least=1), pods=PLAIN[1:])
    assert [one.text for one in told.suggestions] == [
        "job default/big shrinks by 3",
        "job default/big ends",
        "3 more cpu in zone a (on a1)",
    ]
    assert told.suggestions[0].changes == (JobShrinks("default/big", 3),)
    assert told.impossible is False
    assert told.text.startswith("It would be admitted with: job default/big shrinks by 3; or: ")


def test_workers_of_the_minimum_do_not_leave() -> None:
    """A job without workers to spare can only end."""
    first, *_ = texts(gang("g", 3), job("big", 4, "a1"), pods=PLAIN[1:])
    assert first == "job default/big ends"


def test_jobs_end_together_where_one_is_not_enough() -> None:
    """Two half zones make a whole one."""
    told = found(gang("g", 4), job("one", 2, "a1"), job("two", 2, "a1"), pods=PLAIN[1:])
    assert set(told.suggestions[0].changes) == {JobEnds("default/one"), JobEnds("default/two")}


def test_more_room_where_only_strangers_run() -> None:
    """Which resource is short by how much, in the zone where least is missing."""
    told = found(gang("g", 2), pods=PLAIN)
    assert told.suggestions[0].changes == (AddCapacity(ZoneName("a"), ResourceName("cpu"), "2", {NodeName("a1"): "2"}),)
    assert told.suggestions[0].text == "2 more cpu in zone a (on a1)"


def test_time_that_ends_a_back_off() -> None:
    """How long it is."""
    assert texts(gang("g", 1), backing_off_until_s={"default/g": 250.0})[0] == "4 min pass"


def test_time_that_lets_a_gang_be_spread() -> None:
    """Zone policy `preferred`: after the wait."""
    wish = gang("g", 5, options={"zone-policy": "preferred"}, created_s=10.0)
    assert texts(wish)[0] == "5 min pass"


def test_time_that_makes_a_gang_starve() -> None:
    """A gang behind a heavier one that was admitted and has not started goes first once it is STARVING."""
    late = [pod(f"heavy-{i}", gang="heavy", created_s=500.0) for i in range(4)]
    light, heavy = gang("light", 3), gang("heavy", members=late, created_s=500.0)
    told = found(light, heavy, nodes=[A1], now_s=1000.0)
    assert told.suggestions[0].text == "13 min pass"
    assert told.suggestions[0].instead == ("default/heavy",)


def test_those_ahead_are_withdrawn() -> None:
    """A gang behind others that were given the room."""
    heavy = gang("heavy", 4, created_s=5.0, priority=9)
    said = texts(gang("light", 3), heavy, nodes=[A1])
    assert "job default/heavy ends" in said


def test_room_that_is_held() -> None:
    """Behind a STARVING gang for which the zone is reserved."""
    large = gang("large", 4, created_s=0.0)
    small = gang("small", 1, created_s=4000.0)
    told = found(small, large, nodes=[A1], pods=[pod("x", cpu="1", node="a1", scheduler_name="x")], now_s=4001.0)
    changes = [one.changes for one in told.suggestions]
    assert changes
    assert all(one for one in changes)


def test_pods_that_are_missing() -> None:
    """They are like those that are there."""
    told = found(gang("g", 1, min_member=3))
    assert told.suggestions[0].changes[0] == AddPods(Namespace("default"), "g", 2, gang="g")
    assert told.suggestions[0].text.startswith("2 more pods of default/g")


def test_members_that_kube_scheduler_places_nowhere() -> None:
    """Their claim does not exist: that kube-scheduler accepts them is what is missing, and room besides."""
    lacks = gang("g", 2, obstacle="claim x not found")
    assert texts(lacks) == ["kube-scheduler's own filters accept the nodes for default/g again"]


def test_gates_of_others() -> None:
    """Said first, and room only if that is missing too."""
    gated = gang("g", 2, gates=("example.com/wait",))
    assert texts(gated) == ["the other scheduling gates of default/g's pods are removed"]
    assert texts(gated, pods=PLAIN) == [
        "2 more cpu in zone a (on a1), and the other scheduling gates of default/g's pods are removed"
    ]


def test_what_contradicts_itself() -> None:
    """No room helps before that is put right."""
    broken = replace(gang("g", 1), problem=Reason.MIXED_PRIORITIES, problem_detail="x")
    assert texts(broken) == ["what contradicts itself in default/g's pods is put right"]


def test_a_share_that_is_too_small() -> None:
    """The share that suffices."""
    capped = Policy(queue=QueuePolicy(share_cap=0.5))
    assert texts(gang("g", 4), policy=capped)[0] == "namespace default may have 0.667 of the cluster"


def test_zones_that_do_not_exist() -> None:
    """Any zone would do; waiting does not help."""
    told = found(gang("g", 1, options={"zones": "x"}))
    assert told.impossible is True
    assert told.suggestions[0].text == "default/g loses annotation netgang.io/zones"


def test_nodes_without_a_zone() -> None:
    """A cluster without zone labels takes gangs that prefer one only."""
    told = found(gang("g", 1), nodes=[node("n1", zone="")])
    assert told.suggestions[0].text == "default/g has annotation netgang.io/zone-policy=preferred"


def test_an_empty_cluster() -> None:
    """A zone that is named can be filled with nodes; without a name nobody knows where."""
    assert found(gang("g", 1), nodes=[]).suggestions == ()
    told = found(gang("g", 2, options={"zones": "x"}), nodes=[])
    assert told.suggestions[0].changes == (AddNodes(ZoneName("x"), 1, {"cpu": "2", "pods": "2"}),)


def test_what_is_too_large_for_any_zone() -> None:
    """It is said that waiting does not help; larger nodes, a smaller job or several zones would."""
    told = found(gang("g", 6))
    assert told.impossible is True
    assert told.text.startswith("Waiting will not help")
    assert [one.text for one in told.suggestions] == [
        "2 more cpu in zone a (on a1)",
        "job default/g shrinks by 2",
    ]


def test_what_is_too_large_waits_for_nodes_where_they_are_asked_for() -> None:
    """Waiting may help then; the ways in are the same."""
    told = found(gang("g", 6), policy=Policy(asks_for_nodes=True))
    assert told.impossible is False
    assert told.text.startswith("It would be admitted with: 2 more cpu in zone a")


def test_a_resource_that_no_node_has() -> None:
    """Named as the pods name it."""
    assert texts(gang("g", 1, gpu=2), nodes=[A1]) == ["2 more nvidia.com/gpu in zone a (on a1)"]


TAINTED = node("t1", zone="t", taints=[Taint("k", "v", "NoSchedule")])
NEW_NODES: dict[str, tuple[Change, Pod, list[Node]]] = {  # case: (first change, member, nodes)
    "a label that no node has": (
        AddNodes(ZoneName("a"), 1, {"cpu": "1", "pods": "1"}, None, {"disk": "ssd"}),
        pod("g-0", gang="g", node_selector={"disk": "ssd"}),
        [A1],
    ),
    "an affinity that no node meets": (
        AddNodes(ZoneName("a"), 1, {"cpu": "1", "pods": "1"}, None, {"gen": "6", "kind": "x"}),
        pod(
            "g-0",
            gang="g",
            affinity=(
                NodeSelectorTerm((Requirement("gen", "Gt", ("5",)), Requirement("kind", "In", ("x", "y")))),
            ),
        ),
        [A1],
    ),
    "labels that may not or only have to be there": (
        AddNodes(ZoneName("a"), 1, {"cpu": "1", "pods": "1"}, None, {"gpu": ""}),
        pod(
            "g-0",
            gang="g",
            affinity=(NodeSelectorTerm((Requirement("gpu", "Exists"), Requirement("old", "DoesNotExist"))),),
        ),
        [A1],
    ),
    "a taint on all nodes": (
        AddNodes(ZoneName("t"), 1, {"cpu": "1", "pods": "1"}),
        pod("g-0", gang="g"),
        [TAINTED],
    ),
    "nodes that are not ready": (
        AddNodes(ZoneName("a"), 1, like=NodeName("a1")),
        pod("g-0", gang="g"),
        [replace(A1, ready=False)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "member", "nodes"), NEW_NODES.values(), ids=NEW_NODES)
def test_new_nodes_where_none_may_be_used(change: Change, member: Pod, nodes: list[Node]) -> None:
    """Like one that is there, if that would do, else with the labels that are asked for."""
    assert found(gang("g", members=[member]), nodes=nodes).suggestions[0].changes == (change,)


def test_one_port_needs_one_node_each() -> None:
    """Two members with the same host port do not share a node."""
    port = (HostPort("TCP", "0.0.0.0", 80),)
    wish = gang("g", members=[dressed(pod(f"g-{i}", gang="g"), host_ports=port) for i in range(3)])
    [change] = found(wish, nodes=[A1]).suggestions[0].changes
    assert isinstance(change, AddNodes)
    assert (change.count, change.like) == (2, "a1")


def test_pods_that_name_their_node() -> None:
    """No other node would do: nothing is offered, and that is said."""
    field = Requirement("metadata.name", "In", ("gone",))
    told = found(gang("g", members=[pod("g-0", gang="g", affinity=(NodeSelectorTerm(fields=(field,)),))]))
    assert told.suggestions == ()
    assert told.text.endswith("admits it.")


def test_room_for_all_who_are_ahead() -> None:
    """What is added goes to the first in the queue, so as much is offered as those ahead and this one need."""
    ahead = [gang(f"f{i}", 2, priority=5, created_s=float(i)) for i in range(3)]
    told = found(gang("g", 2), *ahead, pods=PLAIN)
    assert told.suggestions
    assert set(told.suggestions[0].also) == {one.key for one in ahead}


def crowd(size: int = MOST_AHEAD + 1, **fields: object) -> list[Gang]:
    """Gangs that wait ahead of all others."""
    return [gang(f"f{i:02d}", 3, priority=5, created_s=float(i), **fields) for i in range(size)]  # type: ignore[arg-type]


def test_behind_a_crowd_the_search_ends_and_says_so() -> None:
    """Room for all of them is not supposed; what few trials showed is told with the number of those ahead."""
    told = found(gang("g", 3), *crowd(), job("big", 4, "a1", least=1), pods=PLAIN[1:])
    assert told.suggestions == ()
    assert told.not_beside == MOST_AHEAD + 1
    assert told.trials == 2, "one job that ends, and more room: both went to the crowd"
    assert told.text == (
        f"None of 2 changes that were tried admits it. {MOST_AHEAD + 1} gangs wait for room before it and would take "
        "more first; it was not searched further."
    )


def test_behind_fewer_it_does_not_end() -> None:
    """One less, and room for all of them is tried, and found to do."""
    told = found(gang("g", 3), *crowd(MOST_AHEAD), pods=PLAIN)
    assert (len(told.suggestions[0].also), told.not_beside) == (MOST_AHEAD, 0)


def test_a_crowd_that_wants_something_else_does_not_matter() -> None:
    """What nobody of them can use is offered as ever."""
    told = found(gang("g", 2, cpu="1"), *crowd(options={"zones": "a"}), job("small", 2, "b1"))
    assert told.suggestions[0].text == "job default/small ends"
    assert told.not_beside == 0


def test_gangs_that_wait_for_no_room_are_no_crowd() -> None:
    """Those that lack pods take none."""
    told = found(gang("g", 3), *crowd(min_member=9), pods=PLAIN)
    assert told.suggestions
    assert told.not_beside == 0


def test_to_starve_behind_a_crowd_that_starves_longer_is_not_tried() -> None:
    """Its turn would not come before theirs; without them it would."""
    late = [pod(f"heavy-{i}", gang="heavy", created_s=500.0) for i in range(4)]
    heavy = gang("heavy", members=late, created_s=500.0)
    names = [f"f{i:02d}" for i in range(MOST_AHEAD + 1)]
    older = [gang(f, members=[pod(f"{f}-0", gang=f, created_s=-9.0)], options={"zones": "b"}) for f in names]
    full = pod("full", cpu="2", node="b1", scheduler_name="x")
    alone = found(gang("light", 3), heavy, now_s=1000.0, pods=[full])
    behind = found(gang("light", 3), heavy, *older, now_s=1000.0, pods=[full])
    assert alone.suggestions[0].text == "13 min pass"
    assert "13 min pass" not in [one.text for one in behind.suggestions]
    assert behind.suggestions


def test_those_ahead_who_want_one_node_are_left_out() -> None:
    """Nobody can add a second node of their name; pods that do not ask for a place get one all the same."""
    field = Requirement("metadata.name", "In", ("gone",))
    pinned = pod("f-0", gang="f", priority=9, affinity=(NodeSelectorTerm(fields=(field,)),))
    first, ahead = gang("f", members=[pinned], priority=9), gang("h", 2, priority=8)
    small = [
        replace(one, member_class=replace(one.member_class, requests=Resources.parse({"cpu": 1})))
        for one in gang("g", 2).members
    ]
    told = found(gang("g", members=small), first, ahead, pods=PLAIN)
    assert told.suggestions
    assert told.suggestions[0].also == ("default/h",)


def test_room_that_only_the_planner_does_not_find() -> None:
    """Counting finds room for each kind: then nodes for all of them together are offered."""
    wish = gang("g", 2)
    state = snapshot([A1], [wish])
    waits = {wish.key: Waiting(wish.key, 1, Reason.NO_ROOM)}
    made = msgspec.structs.replace(plan(state, Policy(), now_s=0.0), waiting=waits)
    run = begin_run(state, Policy(), PlannerCache())
    room = finish(room_in_steps(run, made, run.view.demand(wish)))
    assert finish(more_room(room, made, rounds=0)) == [AddNodes(ZoneName("a"), 1, like=NodeName("a1"))]


def test_zones_without_names_under_the_published_algorithm() -> None:
    """Where no zone may be used no room helps."""
    literal = Policy(queue=QueuePolicy(algorithm=Algorithm.LITERAL))
    assert found(gang("g", 9), nodes=[node("n1", zone="", cpu="1")], policy=literal).suggestions == ()


def test_a_list_that_can_be_read() -> None:
    """One job that shrinks, two that end, and the way in that needs nobody."""
    jobs = [job(f"j{i}", 2, f"n{i}", least=1, cpu="2") for i in range(6)]
    nodes = [node(f"n{i}", zone=f"z{i}", cpu="4") for i in range(6)]
    kinds = [type(one.changes[0]) for one in found(gang("g", 2), *jobs, nodes=nodes).suggestions]
    assert kinds == [JobShrinks, JobEnds, JobEnds, AddCapacity]


def test_the_published_algorithm() -> None:
    """Under Algorithm 1 only the heaviest is tried: the gangs before it must end first."""
    literal = Policy(queue=QueuePolicy(algorithm=Algorithm.LITERAL))
    heavy = gang("heavy", 4, cpu="1", created_s=1.0)
    told = found(gang("light", 1, cpu="2", created_s=2.0), heavy, nodes=[A1], pods=PLAIN[:1], policy=literal)
    assert told.suggestions
    assert all(isinstance(change, JobEnds | AddCapacity | AddNodes) for change in told.suggestions[0].changes)


def test_members_beyond_the_minimum() -> None:
    """A gang that runs is told what one more member needs."""
    members = [*job("g", 2, "a1").members, pod("g-2", gang="g", role=Role.WORKER, index=2, created_s=1.0)]
    busy = pod("x", cpu="2", node="a1", scheduler_name="x")
    told = found(gang("g", members=members, min_member=2), nodes=[A1], pods=[busy])
    assert told.suggestions[0].text == "1 more cpu in zone a (on a1)"


def test_a_gang_that_does_not_wait_needs_nothing() -> None:
    """Nothing is tried."""
    wish = gang("g", 1)
    state = snapshot([A1], [wish])
    told = unblock(Situation(state, Policy(), 0.0), plan(state, Policy(), now_s=0.0), wish)
    assert (told.suggestions, told.trials, told.text) == ((), 0, "")


def test_the_number_of_trials_is_bounded() -> None:
    """However many jobs might make room, at most a dozen plans are tried."""
    nodes = [node(f"n{i}", zone="a", cpu="2") for i in range(20)]
    jobs = [job(f"j{i}", 2, f"n{i}") for i in range(20)]
    assert found(gang("g", 40), *jobs, nodes=nodes).trials <= 12


def test_long_work_is_left_often() -> None:
    """Between gangs, zones and jobs another client may have a turn (docs/safety.md S15)."""
    wish = gang("g", 3)
    state = snapshot([A1, B1], [wish, *crowd(MOST_AHEAD)], pods=PLAIN)
    made = plan(state, Policy(), now_s=1.0)
    steps = unblock_in_steps(Situation(state, Policy(), 1.0), made, wish, cache=PlannerCache())
    assert sum(1 for _ in steps) > MOST_AHEAD * 2


def test_clock_changes_are_moments() -> None:
    """Typed: when, in Unix seconds."""
    told = found(gang("g", 1), backing_off_until_s={GangKey("default/g"): 250.0})
    assert told.suggestions[0].changes == (ClockAdvances(250.0),)
