"""What changes make of a snapshot and of the plan, and what does not fit."""

import re
from dataclasses import replace

import numpy as np
import pytest

from scoring.feasibility.filters import node_allows
from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Constraints, Gang, HostPort, NodeSelectorTerm, Phase, Requirement, Role, Taint
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.resources import Resources
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Metric
from scoring.plan import plan
from scoring.what_if import changes as c
from scoring.what_if.changes import Change, MisfitError
from scoring.what_if.draft import Situation
from scoring.what_if.suppose import Standing, Supposed, apply, what_if
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import dressed

A, B = ZoneName("a"), ZoneName("b")
CPU = ResourceName("cpu")
NODES = [node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="2")]
RUNS = gang(
    "runs",
    members=[bound(pod(f"runs-{i}", gang="runs", job="runs", role=Role.WORKER, index=i), "a1") for i in range(3)],
    min_member=2,
)
WAITS = gang("waits", 3, created_s=5.0)
PLAIN = pod("plain", cpu="1", node="a1", scheduler_name="x")
NETWORK = mesh(NODES)


def base(*gangs: Gang, now_s: float = 10.0, policy: Policy | None = None, **fields: object) -> Situation:
    """Two zones, a job of three in the first one beside a plain pod, and a gang of three that waits."""
    state = snapshot(NODES, gangs or (RUNS, WAITS), pods=[PLAIN], network=NETWORK, **fields)  # type: ignore[arg-type]
    return Situation(state, policy or Policy(), now_s, {PLAIN.key: PLAIN})


def supposed(*changes: Change, of: Situation | None = None) -> Situation:
    return apply(of or base(), changes, version=-2)


def free(state: Snapshot) -> dict[str, int]:
    column = state.table.axis.index(CPU)
    left = (state.table.allocatable - state.used)[:, column]
    return dict(zip(state.table.names, left.tolist(), strict=True))


ROOM: dict[str, tuple[dict[str, int], tuple[Change, ...]]] = {  # case: (free CPU by node, changes)
    "nothing": ({"a1": 0, "b1": 2000}, ()),
    "more on a node": ({"a1": 1000, "b1": 2000}, (c.AddCapacity(A, CPU, "1", {NodeName("a1"): "1000m"}),)),
    "more in a zone": ({"a1": 0, "b1": 2500}, (c.AddCapacity(B, CPU, "500m"),)),
    "a node like another": ({"a1": 0, "b1": 2000, "what-if-a-0": 4000}, (c.AddNodes(A, 1, like=NodeName("a1")),)),
    "a new kind of node": (
        {"a1": 0, "b1": 2000, "what-if-c-0": 1000},
        (c.AddNodes(ZoneName("c"), 1, {"cpu": 1}),),
    ),
    "a node less": ({"b1": 2000}, (c.RemoveNodes((NodeName("a1"),)),)),
    "a plain pod less": ({"a1": 1000, "b1": 2000}, (c.RemovePods(("default/plain",)),)),
    "a member less": ({"a1": 1000, "b1": 2000}, (c.RemovePods(("default/runs-1",)),)),
    "a plain pod more": (
        {"a1": 0, "b1": 500},
        (c.AddPods(Namespace("x"), "p", 1, requests={"cpu": "1500m"}, node=NodeName("b1")),),
    ),
    "a job ends": ({"a1": 3000, "b1": 2000}, (c.JobEnds("default/runs"),)),
    "a job shrinks": ({"a1": 2000, "b1": 2000}, (c.JobShrinks("default/runs", 2),)),
    "a job grows": ({"a1": 0, "b1": 2000}, (c.JobGrows("default/runs", 2),)),
    "one after the other": ({"b1": 2000}, (c.JobEnds("default/runs"), c.RemoveNodes((NodeName("a1"),)))),
}  # fmt: skip


@pytest.mark.parametrize(("want", "changes"), ROOM.values(), ids=ROOM)
def test_room(want: dict[str, int], changes: tuple[Change, ...]) -> None:
    assert free(supposed(*changes).snapshot) == want


def test_the_original_is_as_it_was() -> None:
    before = base()
    used, names = before.snapshot.used.copy(), before.snapshot.table.names
    for _, changes in ROOM.values():
        supposed(*changes, of=before)
    assert np.array_equal(before.snapshot.used, used)
    assert before.snapshot.table.names is names
    assert set(before.snapshot.gangs) == {"default/runs", "default/waits"}


def members(gang_: Gang) -> list[tuple[str, int | None, str | None, Phase]]:
    return [(p.name, p.index, p.node, p.phase) for p in gang_.members]


def test_jobs_that_change_their_size() -> None:
    """The highest indexes leave, the minimum follows; newcomers wait and are like the last worker."""
    less = supposed(c.JobShrinks("default/runs", 2)).snapshot.gangs[RUNS.key]
    assert (less.members, less.min_member) == (RUNS.members[:1], 1)
    more = supposed(c.JobGrows("default/runs", 2)).snapshot.gangs[RUNS.key]
    assert members(more)[3:] == [(f"runs-{i}", i, None, Phase.PENDING) for i in (3, 4)]


def test_what_ends_takes_its_promises_along() -> None:
    """Commitment, back-off and pending members; and with a training job all of its gangs."""
    both = {"uid-default-waits-0": "b1", "uid-default-waits-1": "b1"}
    of = base(RUNS, WAITS, commitments={WAITS.key: both}, backing_off_until_s={WAITS.key: 99.0})
    after = supposed(c.JobEnds(WAITS.key), of=of).snapshot
    assert (after.commitments, after.backing_off_until_s, list(after.gangs)) == ({}, {}, [RUNS.key])
    first, second = c.RemovePods(("default/waits-0",)), c.RemovePods(("default/waits-1",))
    assert supposed(first, of=of).snapshot.commitments[WAITS.key].assignment == {"uid-default-waits-1": "b1"}
    assert supposed(first, second, of=of).snapshot.commitments == {}
    parts = [gang(name, members=[bound(pod(f"{name}-0", gang=name, job="train"), "a1")]) for name in ("p", "q")]
    assert supposed(c.JobEnds("default/train"), of=base(*parts)).snapshot.gangs == {}


def test_labels_of_new_nodes() -> None:
    """Zone and name are their own, without a zone no label of one; all else is that of the node they are like."""
    like = replace(NODES[0], labels=(*NODES[0].labels, ("disk", "ssd")))
    of = Situation(snapshot([like]), Policy(), 0.0)
    more = (c.AddNodes(zone, 1, like=NodeName("a1"), labels={"rack": "7"}) for zone in (B, ZoneName("")))
    made, nowhere = supposed(*more, of=of).snapshot.table.nodes[1:]
    common = {"disk": "ssd", "rack": "7"}
    hostname, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    assert dict(made.labels) == common | {hostname: "what-if-b-0", zone: "b"}
    assert (nowhere.zone, dict(nowhere.labels)) == ("", common | {hostname: "what-if-nowhere-0"})


def test_a_resource_may_go_with_its_last_node() -> None:
    """What ran there, and asked for it, is of no consequence any more."""
    runs = gang("r", members=[bound(pod("r-0", gang="r", gpu=1), "g1")])
    of = Situation(snapshot([node("g1", zone="a", gpu=2), NODES[1]], [runs]), Policy(), 0.0)
    gone = c.RemoveNodes((NodeName("g1"),))
    assert "nvidia.com/gpu" not in supposed(gone, c.JobEnds(runs.key), of=of).snapshot.table.axis
    asks = c.AddPods(Namespace("x"), "p", 1, node=NodeName("b1"), requests={"nvidia.com/gpu": 1, "cpu": 1})
    assert free(supposed(gone, asks, of=of).snapshot) == {"b1": 1000}


def test_host_ports_come_and_go() -> None:
    port = HostPort("TCP", "0.0.0.0", 80)
    member = bound(dressed(pod("g-0", gang="g"), host_ports=(port,)), "a1")
    of = base(gang("g", members=[member]), host_ports={NodeName("a1"): frozenset({port})})
    plain = c.AddPods(Namespace("default"), "h", 1, gang="h", requests={"cpu": 1}, node=NodeName("a1"))
    for changes in ([c.JobEnds("default/g")], [c.JobEnds("default/g"), plain]):
        assert supposed(*changes, of=of).snapshot.host_ports == {"a1": frozenset()}


def test_more_members() -> None:
    """Pods with an unknown group are a gang that waits, without constraints; else they are like the last member."""
    more = c.AddPods(Namespace("team"), "new", 2, gang="new", requests={"cpu": 1}, priority=7)
    made = supposed(more).snapshot.gangs[GangKey("team/new")]
    assert (made.min_member, made.priority, [p.name for p in made.pending]) == (2, 7, ["new-0", "new-1"])
    kind = made.members[0].member_class
    assert (kind.constraints, kind.requests) == (Constraints(), Resources.parse({"cpu": 1, "pods": 1}))
    last = supposed(c.AddPods(Namespace("default"), "waits", 1, gang="waits")).snapshot.gangs[WAITS.key].members[-1]
    assert (last.name, last.requests, last.index) == ("waits-3", WAITS.members[0].requests, 3)


def test_time_passes() -> None:
    before = base()
    after = supposed(c.ClockAdvances(99.0), of=before)
    assert (after.now_s, after.snapshot.gangs, after.snapshot.network) == (99.0, before.snapshot.gangs, NETWORK)


def test_a_link_is_measured_again() -> None:
    """In one direction; both ends may be nodes, and the other values stay."""
    network = supposed(c.SetLink(NodeName("a1"), EndpointId("b1"), Metric.DELAY, 90.0)).snapshot.network
    a1, b1 = NODES[0].name, NODES[1].name
    there, back, loss = (
        network.known(*link) for link in ((a1, b1, Metric.DELAY), (b1, a1, Metric.DELAY), (a1, b1, Metric.LOSS))
    )
    assert (there and (there.value, there.origin), back and back.value, loss and loss.value) == (
        (90.0, "what-if"),
        1.0,
        0.0,
    )
    assert network.version != NETWORK.version


def test_policy_share_and_annotations() -> None:
    of = replace(base(), policy_with=lambda given: replace(Policy(), **given))
    settings = c.SetSettings({"spill_wait_s": 1.0})
    after = supposed(settings, c.SetShare(Namespace("x"), 0.5), c.SetOption(WAITS.key, "netgang.io/zones", "b"), of=of)
    assert (after.policy.spill_wait_s, after.policy.queue.share_cap_by_namespace) == (1.0, (("x", 0.5),))
    assert after.snapshot.gangs[WAITS.key].options == (("zones", "b"),)
    assert supposed(c.SetOption(WAITS.key, "zones", None), of=after).snapshot.gangs[WAITS.key].options == ()


def test_obstacles_of_a_gang() -> None:
    """Others' gates, contradictions and learned refusals can be supposed away."""
    gated = gang("g", members=[pod("g-0", gang="g", gates=("netgang.io/gang", "x/y"), obstacle="no claim")])
    broken = replace(gated, problem=Reason.MIXED_SCHEDULERS, problem_detail="x", own=False)
    of = base(broken, exclusions={gated.members[0].member_class: frozenset({NodeName("a1")})})
    after = supposed(c.OpenGates(broken.key), c.MendGroup(broken.key), c.ForgetRefusals(broken.key), of=of).snapshot
    made = after.gangs[broken.key]
    assert (made.members[0].gates, made.problem, made.own, after.exclusions) == (("netgang.io/gang",), None, True, {})
    assert made.members[0].obstacle == ""


def test_barriers_of_nodes() -> None:
    """A cordon and a taint can be supposed away."""
    shut = node("n1", unschedulable=True, taints=[Taint("k", "v", "NoSchedule")])
    of = Situation(snapshot([shut], [WAITS]), Policy(), 10.0, {})
    after = supposed(c.UncordonNodes((shut.name,)), c.Tolerate(WAITS.key, "k"), of=of).snapshot
    constraints = after.gangs[WAITS.key].members[0].member_class.constraints
    assert (node_allows(shut, constraints), node_allows(after.table.nodes[0], constraints)) == (False, True)


def test_pods_that_ask_for_less() -> None:
    """Of a request, and of labels; pods on nodes stay as they are, and refused nodes stay refused."""
    terms = tuple(NodeSelectorTerm((Requirement(key, "Exists"), Requirement("gpu", "Exists"))) for key in ("x", "y"))
    asks = [pod(f"g-{i}", gang="g", cpu="4", node_selector={"gpu": "a"}, affinity=terms) for i in range(2)]
    of = base(
        gang("g", members=[bound(asks[0], "a1"), asks[1]]),
        exclusions={asks[1].member_class.anywhere: frozenset({NodeName("a1")})},
    )
    less = (c.LowerRequest(GangKey("default/g"), CPU, 4, "2500m"), c.IgnoreNodeLabel(GangKey("default/g"), "gpu"))
    after = supposed(*less, of=of).snapshot
    runs, waits = after.gangs[GangKey("default/g")].members
    assert (runs.member_class, waits.requests.get(CPU)) == (asks[0].member_class, 2500)
    assert waits.member_class.constraints.node_selector == ()
    assert [one.key for term in waits.member_class.constraints.affinity or () for one in term.expressions] == ["x", "y"]
    assert after.excluded(waits.member_class) == {"a1"}
    both = [c.IgnoreNodeLabel(GangKey("default/g"), key) for key in ("gpu", "x")]
    free_pod = supposed(*both, of=of).snapshot.gangs[GangKey("default/g")].members[1]
    assert free_pod.member_class.constraints.affinity is None, "a term that asks for nothing more is met by any node"


MISFITS = {  # case: (field, part of the reason, change)
    "no such node to uncordon": ("nodes", "there is no node x", c.UncordonNodes((NodeName("x"),))),
    "no such zone": ("zone", "no node in zone 'x'", c.AddCapacity(ZoneName("x"), CPU, 1)),
    "nothing more": ("amount", "not between", c.AddCapacity(A, CPU, 0)),
    "amounts that differ": ("nodes", "together", c.AddCapacity(A, CPU, 3, {NodeName("a1"): 1})),
    "a node of another zone": ("nodes", "no node of zone", c.AddCapacity(A, CPU, 1, {NodeName("b1"): 1})),
    "like a node that is not there": ("like", "no node x", c.AddNodes(A, 1, like=NodeName("x"))),
    "nodes of nothing": ("allocatable", "say what", c.AddNodes(A, 1)),
    "more than can be counted": ("nodes", "cannot have", c.AddCapacity(A, CPU, f"{2**53}m")),
    "a node larger than can be counted": ("allocatable", "an amount", c.AddNodes(A, 1, {"x/y": 2**60})),
    "an unknown node": ("nodes", "no node x", c.RemoveNodes((NodeName("x"),))),
    "a plain pod nowhere": ("node", "plain pods", c.AddPods(Namespace("a"), "p", 1, requests={"cpu": 1})),
    "a pod on no node": ("node", "no node x", c.AddPods(Namespace("a"), "p", 1, gang="waits", node=NodeName("x"))),
    "a new gang of nothing": ("requests", "ask for", c.AddPods(Namespace("a"), "p", 1, gang="new")),
    "a job of no workers": ("job", "no job", c.JobShrinks("default/leads", 1)),
    "an unknown pod": ("pods", "no pod default/x", c.RemovePods(("default/x",))),
    "an unknown job": ("job", "there are default/leads, default/runs", c.JobEnds("default/x")),
    "a job without a worker left": ("by", "one must stay", c.JobShrinks("default/runs", 3)),
    "back in time": ("to_s", "between now", c.ClockAdvances(9.0)),
    "an unmeasured end": ("target", "neither", c.SetLink(EndpointId("a1"), EndpointId("x"), Metric.DELAY, 1.0)),
    "one end twice": ("target", "same place", c.SetLink(EndpointId("a1"), EndpointId("a1"), Metric.DELAY, 1.0)),
    "a delay without end": ("value", "outside",
        c.SetLink(EndpointId("a1"), EndpointId("b1"), Metric.DELAY, float("inf"))),
    "a loss beyond all": ("value", "outside", c.SetLink(EndpointId("a1"), EndpointId("b1"), Metric.LOSS, 1.5)),
    "an unknown gang": ("gang", "no gang default/x", c.SetOption(GangKey("default/x"), "zones", "a")),
    "an unknown annotation": ("name", "no such", c.SetOption(WAITS.key, "colour", "red")),
    "two moments": ("to_s", "either", c.ClockAdvances(11.0, by_s=1.0)),
    "no moment": ("to_s", "either", c.ClockAdvances()),
    "no quantity": ("amount", "'2x' is not a quantity", c.AddCapacity(A, CPU, "2x")),
    "a negative quantity": ("nodes.a1", "-1 is negative", c.AddCapacity(A, CPU, 1, {NodeName("a1"): -1})),
    "settings of no service": ("settings", "none here", c.SetSettings({"order": "fifo"})),
    "a request that no pod has": ("asked", "asks for cpu 3", c.LowerRequest(WAITS.key, CPU, 3, 2)),
    "a request that is no smaller": ("to", "between 0 and 1", c.LowerRequest(WAITS.key, CPU, 1, "1000m")),
    "a request of nothing": ("to", "between 0 and 1", c.LowerRequest(WAITS.key, CPU, 1, 0)),
    "a label that no pod asks for": ("key", "asks for node label x", c.IgnoreNodeLabel(WAITS.key, "x")),
    "gates of nobody": ("gang", "no gang", c.OpenGates(GangKey("default/x"))),
}  # fmt: skip


@pytest.mark.parametrize(("field", "why", "change"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit(field: str, why: str, change: Change) -> None:
    """The first change that the cluster has no place for is named with its field; nothing is guessed."""
    leads = gang("leads", members=[pod("leads-0", gang="leads", role=Role.PS)])
    with pytest.raises(MisfitError, match=rf"^changes\.1\.{field}: .*{re.escape(why)}"):
        apply(base(RUNS, WAITS, leads), [c.ClockAdvances(10.0), change], version=-2)


# -- the plan's difference --------------------------------------------------------------------------------------------


def differs(*changes: Change, of: Situation | None = None) -> Supposed:
    before = of or base()
    return what_if(before, plan(before.snapshot, before.policy, now_s=before.now_s), changes)


LIKE_A1 = c.AddNodes(A, 1, like=NodeName("a1"))
NO_B1 = c.RemoveNodes((NodeName("b1"),))
SMALL = base(RUNS, gang("small", 2))
TWO = base(RUNS, gang("one", 2, created_s=1.0), gang("two", 2, created_s=2.0))
HEAVY = QueuePolicy(weight_namespaces=frozenset({Namespace("default")}))
WEIGHED = replace(TWO, policy_with=lambda _: replace(Policy(), queue=HEAVY))
DIFFERENCES: dict[
    str, tuple[dict[str, list[str]], tuple[Change, ...], Situation | None]
] = {  # case: (gangs by list, …)
    "nothing differs": ({}, (c.ClockAdvances(11.0),), None),
    "a gang is admitted, another is gone": (
        {"admitted": ["default/waits"], "other": ["default/runs"]},
        (c.JobEnds("default/runs"),),
        None,
    ),
    "a gang is refused": ({"refused": ["default/small"]}, (NO_B1,), SMALL),
    "a gang moves": ({"moved": ["default/small"]}, (LIKE_A1, NO_B1), SMALL),
    "better room moves no gang that has a place": ({}, (c.AddNodes(A, 3, like=NodeName("a1")),), SMALL),
    "weights decide which of two is admitted": (
        {"admitted": ["default/two"], "refused": ["default/one"]},
        (c.SetSettings({}), c.SetOption(GangKey("default/two"), "weight", "10000")),
        WEIGHED,
    ),
}


@pytest.mark.parametrize(("want", "changes", "of"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_difference(want: dict[str, list[str]], changes: tuple[Change, ...], of: Situation | None) -> None:
    """Each gang for which something differs, by what the change makes of it; twice the same."""
    found = differs(*changes, of=of)
    lists = {name: getattr(found.difference, name) for name in ("admitted", "refused", "moved", "other")}
    assert {name: [one.gang for one in some] for name, some in lists.items() if some} == want
    again = differs(*changes, of=of)
    assert (again.difference, again.plan) == (found.difference, found.plan)


def test_before_and_after() -> None:
    found = differs(c.JobEnds("default/runs"))
    [one] = found.difference.admitted
    assert (one.before.standing, one.before.reason) == (Standing.WAITING, Reason.NO_ROOM)
    assert one.after.members == {f"waits-{i}": "a1" for i in range(3)}
    assert found.difference.other[0].after.standing is Standing.ABSENT
    assert list(found.plan.admitted) == ["default/waits"]
