"""What changes make of a snapshot and of the plan, and what does not fit."""

import re
from dataclasses import replace

import numpy as np
import pytest

from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Constraints, Gang, HostPort, Phase, Pod, Role
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.resources import Resources
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Metric
from scoring.plan import Plan, plan
from scoring.what_if.apply import apply
from scoring.what_if.changes import (
    AddCapacity,
    AddNodes,
    AddPods,
    Change,
    ClockAdvances,
    ForgetRefusals,
    JobEnds,
    JobGrows,
    JobShrinks,
    MendGroup,
    MisfitError,
    OpenGates,
    RemoveNodes,
    RemovePods,
    SetLink,
    SetOption,
    SetSettings,
    SetShare,
)
from scoring.what_if.difference import Difference, Standing, what_if
from scoring.what_if.draft import Situation
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
    """The situation with these changes."""
    return apply(of or base(), changes, version=-2)


def free(state: Snapshot) -> dict[str, int]:
    """Free CPU by node, in millicores."""
    column = state.table.axis.index(CPU)
    left = (state.table.allocatable - state.used)[:, column]
    return dict(zip(state.table.names, left.tolist(), strict=True))


ROOM: dict[str, tuple[dict[str, int], tuple[Change, ...]]] = {  # case: (free CPU by node, changes)
    "nothing": ({"a1": 0, "b1": 2000}, ()),
    "more on a node": ({"a1": 1000, "b1": 2000}, (AddCapacity(A, CPU, "1", {NodeName("a1"): "1000m"}),)),
    "more in a zone": ({"a1": 0, "b1": 2500}, (AddCapacity(B, CPU, "500m"),)),
    "a node like another": ({"a1": 0, "b1": 2000, "what-if-a-0": 4000}, (AddNodes(A, 1, like=NodeName("a1")),)),
    "a new kind of node": (
        {"a1": 0, "b1": 2000, "what-if-c-0": 1000},
        (AddNodes(ZoneName("c"), 1, {"cpu": 1}),),
    ),
    "a node less": ({"b1": 2000}, (RemoveNodes((NodeName("a1"),)),)),
    "a plain pod less": ({"a1": 1000, "b1": 2000}, (RemovePods(("default/plain",)),)),
    "a member less": ({"a1": 1000, "b1": 2000}, (RemovePods(("default/runs-1",)),)),
    "a plain pod more": (
        {"a1": 0, "b1": 500},
        (AddPods(Namespace("x"), "p", 1, requests={"cpu": "1500m"}, node=NodeName("b1")),),
    ),
    "a job ends": ({"a1": 3000, "b1": 2000}, (JobEnds("default/runs"),)),
    "a job shrinks": ({"a1": 2000, "b1": 2000}, (JobShrinks("default/runs", 2),)),
    "a job grows": ({"a1": 0, "b1": 2000}, (JobGrows("default/runs", 2),)),
    "one after the other": ({"b1": 2000}, (JobEnds("default/runs"), RemoveNodes((NodeName("a1"),)))),
}  # fmt: skip


@pytest.mark.parametrize(("want", "changes"), ROOM.values(), ids=ROOM)
def test_room(want: dict[str, int], changes: tuple[Change, ...]) -> None:
    """What is free afterwards, on which nodes."""
    assert free(supposed(*changes).snapshot) == want


def test_the_original_is_as_it_was() -> None:
    """No change writes to what it began with."""
    before = base()
    used, names = before.snapshot.used.copy(), before.snapshot.table.names
    for _, changes in ROOM.values():
        supposed(*changes, of=before)
    assert np.array_equal(before.snapshot.used, used)
    assert before.snapshot.table.names is names
    assert set(before.snapshot.gangs) == {"default/runs", "default/waits"}


def test_who_leaves_a_job_that_shrinks() -> None:
    """The highest index; and its minimum is never more than what is left."""
    left = supposed(JobShrinks("default/runs", 2)).snapshot.gangs[RUNS.key]
    assert [pod.name for pod in left.members] == ["runs-0"]
    assert left.min_member == 1


def test_who_joins_a_job_that_grows() -> None:
    """Waiting pods like its last worker, with the next indexes."""
    more = supposed(JobGrows("default/runs", 2)).snapshot.gangs[RUNS.key].members[3:]
    assert [(p.name, p.index, p.node, p.phase) for p in more] == [
        ("runs-3", 3, None, Phase.PENDING),
        ("runs-4", 4, None, Phase.PENDING),
    ]


def test_a_job_is_named_by_its_pods_too() -> None:
    """All gangs of a training job end with it."""
    parts = [gang(name, members=[bound(pod(f"{name}-0", gang=name, job="train"), "a1")]) for name in ("p", "q")]
    assert supposed(JobEnds("default/train"), of=base(*parts)).snapshot.gangs == {}


def test_a_gang_that_ends_takes_its_promises_along() -> None:
    """Commitment, back-off and pending members."""
    of = base(
        RUNS, WAITS, commitments={WAITS.key: {"uid-default-waits-0": "b1"}}, backing_off_until_s={WAITS.key: 99.0}
    )
    after = supposed(JobEnds(WAITS.key), of=of).snapshot
    assert (after.commitments, after.backing_off_until_s, list(after.gangs)) == ({}, {}, [RUNS.key])
    partly = supposed(RemovePods(("default/waits-0",)), of=of).snapshot
    assert partly.commitments == {}
    both = {"uid-default-waits-0": "b1", "uid-default-waits-1": "b1"}
    one = supposed(RemovePods(("default/waits-0",)), of=base(RUNS, WAITS, commitments={WAITS.key: both})).snapshot
    assert one.commitments[WAITS.key].assignment == {"uid-default-waits-1": "b1"}


def test_nodes_without_a_zone_have_no_label_of_one() -> None:
    """Whatever the node they are like has."""
    made = supposed(AddNodes(ZoneName(""), 1, like=NodeName("a1"))).snapshot.table.nodes[-1]
    assert (made.name, made.zone, dict(made.labels)) == ("what-if-nowhere-0", "", {"kubernetes.io/hostname": made.name})


def test_a_resource_may_go_with_its_last_node() -> None:
    """What ran there, and asked for it, is of no consequence any more."""
    gpu = node("g1", zone="a", gpu=2)
    runs = gang("r", members=[bound(pod("r-0", gang="r", gpu=1), "g1")])
    of = Situation(snapshot([gpu, NODES[1]], [runs]), Policy(), 0.0)
    after = supposed(RemoveNodes((NodeName("g1"),)), JobEnds(runs.key), of=of).snapshot
    assert "nvidia.com/gpu" not in after.table.axis
    back = supposed(
        RemoveNodes((NodeName("g1"),)),
        AddPods(Namespace("x"), "p", 1, node=NodeName("b1"), requests={"nvidia.com/gpu": 1, "cpu": 1}),
        of=of,
    ).snapshot
    assert free(back) == {"b1": 1000}


def test_host_ports_come_and_go() -> None:
    """With the pods that have them."""
    port = HostPort("TCP", "0.0.0.0", 80)
    member = bound(dressed(pod("g-0", gang="g"), host_ports=(port,)), "a1")
    of = base(gang("g", members=[member]), host_ports={NodeName("a1"): frozenset({port})})
    assert supposed(JobEnds("default/g"), of=of).snapshot.host_ports == {"a1": frozenset()}
    two = (
        JobEnds("default/g"),
        AddPods(Namespace("default"), "h", 1, gang="h", requests={"cpu": 1}, node=NodeName("a1")),
    )
    assert supposed(*two, of=of).snapshot.host_ports == {"a1": frozenset()}


def test_a_new_gang() -> None:
    """Pods with a group that nobody knows are a gang, and wait as one."""
    more = AddPods(Namespace("team"), "new", 2, gang="new", requests={"cpu": 1}, priority=7)
    made = supposed(more).snapshot.gangs[GangKey("team/new")]
    assert (made.min_member, made.priority, [p.name for p in made.pending]) == (2, 7, ["new-0", "new-1"])


def test_more_members_are_like_the_last() -> None:
    """Of a gang that exists; names that are taken are left out."""
    made = supposed(AddPods(Namespace("default"), "waits", 1, gang="waits")).snapshot.gangs[WAITS.key]
    assert (made.members[-1].name, made.members[-1].requests, made.members[-1].index) == (
        "waits-3",
        WAITS.members[0].requests,
        3,
    )


def test_labels_of_new_nodes() -> None:
    """Zone and name are their own, all else is that of the node they are like."""
    like = replace(NODES[0], labels=(*NODES[0].labels, ("disk", "ssd")))
    of = Situation(snapshot([like]), Policy(), 0.0)
    made = supposed(AddNodes(B, 1, like=NodeName("a1"), labels={"rack": "7"}), of=of).snapshot.table.nodes[-1]
    assert dict(made.labels) == {
        "disk": "ssd",
        "kubernetes.io/hostname": "what-if-b-0",
        "rack": "7",
        "topology.kubernetes.io/zone": "b",
    }


def test_time_passes() -> None:
    """The moment is another one, and nothing else."""
    before = base()
    after = supposed(ClockAdvances(99.0), of=before)
    assert (after.now_s, after.snapshot.gangs, after.snapshot.network) == (99.0, before.snapshot.gangs, NETWORK)


def test_a_link_is_measured_anew() -> None:
    """In one direction; both ends may be nodes, and the other values stay."""
    link = SetLink(NodeName("a1"), EndpointId("b1"), Metric.DELAY, 90.0)
    network = supposed(link).snapshot.network
    there, back = (
        network.known(*ends, Metric.DELAY) for ends in ((NODES[0].name, NODES[1].name), (NODES[1].name, NODES[0].name))
    )
    assert there is not None
    assert back is not None
    assert (there.value, there.origin, back.value) == (90.0, "what-if", 1.0)
    assert network.version != NETWORK.version
    unknown = supposed(link, of=base()).snapshot.network.known(NODES[0].name, NODES[1].name, Metric.LOSS)
    assert unknown is not None
    assert unknown.value == 0.0


def test_policy_share_and_annotations() -> None:
    """What decides may be another."""
    of = replace(base(), policy_with=lambda given: replace(Policy(), **given))
    settings = SetSettings({"spill_wait_s": 1.0})
    after = supposed(settings, SetShare(Namespace("x"), 0.5), SetOption(WAITS.key, "netgang.io/zones", "b"), of=of)
    assert after.policy.spill_wait_s == 1.0
    assert after.policy.queue.share_cap_by_namespace == (("x", 0.5),)
    assert dict(after.snapshot.gangs[WAITS.key].options) == {"zones": "b"}
    assert supposed(SetOption(WAITS.key, "zones", None), of=after).snapshot.gangs[WAITS.key].options == ()


def test_obstacles_of_a_gang() -> None:
    """Others' gates, contradictions and learned refusals can be supposed away."""
    gated = gang("g", members=[pod("g-0", gang="g", gates=("netgang.io/gang", "x/y"), obstacle="no claim")])
    broken = replace(gated, problem=Reason.MIXED_SCHEDULERS, problem_detail="x", own=False)
    of = base(broken, exclusions={gated.members[0].member_class: frozenset({NodeName("a1")})})
    after = supposed(OpenGates(broken.key), MendGroup(broken.key), ForgetRefusals(broken.key), of=of).snapshot
    made = after.gangs[broken.key]
    assert (made.members[0].gates, made.problem, made.own, after.exclusions) == (("netgang.io/gang",), None, True, {})
    assert made.members[0].obstacle == ""


MISFITS = {  # case: (field, part of the reason, change)
    "no such zone": ("zone", "no node in zone 'x'", AddCapacity(ZoneName("x"), CPU, 1)),
    "nothing more": ("amount", "not between", AddCapacity(A, CPU, 0)),
    "amounts that differ": ("nodes", "together", AddCapacity(A, CPU, 3, {NodeName("a1"): 1})),
    "a node of another zone": ("nodes", "no node of zone", AddCapacity(A, CPU, 1, {NodeName("b1"): 1})),
    "too many nodes": ("count", "1000", AddNodes(A, 1001, like=NodeName("a1"))),
    "like a node that is not there": ("like", "no node x", AddNodes(A, 1, like=NodeName("x"))),
    "nodes of nothing": ("allocatable", "say what", AddNodes(A, 1)),
    "more than can be counted": ("nodes", "cannot have", AddCapacity(A, CPU, f"{2**53}m")),
    "a node larger than can be counted": ("allocatable", "an amount", AddNodes(A, 1, {"x/y": 2**60})),
    "an unknown node": ("nodes", "no node x", RemoveNodes((NodeName("x"),))),
    "no pods": ("count", "between", AddPods(Namespace("a"), "p", 0, gang="waits")),
    "a plain pod nowhere": (
        "node",
        "plain pods",
        AddPods(Namespace("a"), "p", 1, requests={"cpu": 1}),
    ),
    "a pod on no node": ("node", "no node x", AddPods(Namespace("a"), "p", 1, gang="waits", node=NodeName("x"))),
    "a new gang of nothing": ("requests", "ask for", AddPods(Namespace("a"), "p", 1, gang="new")),
    "a new gang of less than one": (
        "min_available",
        "at least 1",
        AddPods(Namespace("a"), "p", 1, gang="new", min_available=-1, requests={"cpu": 1}),
    ),
    "a job of no workers": ("job", "no job", JobShrinks("default/leads", 1)),
    "an unknown pod": ("pods", "no pod default/x", RemovePods(("default/x",))),
    "an unknown job": ("job", "there are default/leads, default/runs", JobEnds("default/x")),
    "a job without a worker left": ("by", "one must stay", JobShrinks("default/runs", 3)),
    "growing by nothing": ("by", "between", JobGrows("default/runs", 0)),
    "back in time": ("to_s", "between now", ClockAdvances(9.0)),
    "an end that is not measured": ("target", "neither", SetLink(EndpointId("a1"), EndpointId("x"), Metric.DELAY, 1.0)),
    "one end twice": ("target", "same place", SetLink(EndpointId("a1"), EndpointId("a1"), Metric.DELAY, 1.0)),
    "a delay without end": (
        "value",
        "outside",
        SetLink(EndpointId("a1"), EndpointId("b1"), Metric.DELAY, float("inf")),
    ),
    "a loss beyond all": ("value", "outside", SetLink(EndpointId("a1"), EndpointId("b1"), Metric.LOSS, 1.5)),
    "an unknown gang": ("gang", "no gang default/x", SetOption(GangKey("default/x"), "zones", "a")),
    "an unknown annotation": ("name", "no such", SetOption(WAITS.key, "colour", "red")),
    "more than all": ("cap", "no share", SetShare(Namespace("a"), 1.5)),
    "two moments": ("to_s", "either", ClockAdvances(11.0, by_s=1.0)),
    "no moment": ("to_s", "either", ClockAdvances()),
    "no quantity": ("amount", "'2x' is not a quantity", AddCapacity(A, CPU, "2x")),
    "a negative quantity": ("nodes.a1", "-1 is negative", AddCapacity(A, CPU, 1, {NodeName("a1"): -1})),
    "settings of no service": ("settings", "none here", SetSettings({"order": "fifo"})),
    "gates of nobody": ("gang", "no gang", OpenGates(GangKey("default/x"))),
}


@pytest.mark.parametrize(("field", "why", "change"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit(field: str, why: str, change: Change) -> None:
    """The first change that the cluster has no place for is named with its field; nothing is guessed."""
    leads = gang("leads", members=[pod("leads-0", gang="leads", role=Role.PS)])
    with pytest.raises(MisfitError, match=rf"^changes\.1\.{field}: .*{re.escape(why)}"):
        apply(base(RUNS, WAITS, leads), [ClockAdvances(10.0), change], version=-2)


# -- the plan's difference --------------------------------------------------------------------------------------------


def differs(*changes: Change, of: Situation | None = None) -> tuple[Difference, Plan]:
    """What changes would make of the plan of now."""
    before = of or base()
    now = plan(before.snapshot, before.policy, now_s=before.now_s)
    found = what_if(before, now, changes)
    return found.difference, found.plan


def names(difference: Difference) -> dict[str, list[str]]:
    """Gangs by what would become of them."""
    lists = {"admitted": difference.admitted, "refused": difference.refused, "moved": difference.moved}
    return {name: [one.gang for one in some] for name, some in (lists | {"other": difference.other}).items() if some}


def test_nothing_differs() -> None:
    """Without an effect on any gang."""
    found, _ = differs(ClockAdvances(11.0))
    assert found.empty


def test_what_does_not_fit_has_no_plan() -> None:
    """The misfit is the answer."""
    before = base()
    now = plan(before.snapshot, before.policy, now_s=before.now_s)
    with pytest.raises(MisfitError, match=r"^changes\.0\.job: "):
        what_if(before, now, [JobEnds("default/x")])


def test_a_gang_is_let_in() -> None:
    """Its fate before and after is told: the reason, then the places."""
    found, after = differs(JobEnds("default/runs"))
    assert names(found) == {"admitted": ["default/waits"], "other": ["default/runs"]}
    [one] = found.admitted
    assert (one.before.standing, one.before.reason) == (Standing.WAITING, Reason.NO_ROOM)
    assert one.after.members == {f"waits-{i}": "a1" for i in range(3)}
    assert found.other[0].after.standing is Standing.ABSENT
    assert list(after.admitted) == ["default/waits"]


def test_a_gang_is_refused() -> None:
    """One that was admitted, and has no room then."""
    small = gang("small", 2)
    found, _ = differs(RemoveNodes((NodeName("b1"),)), of=base(RUNS, small))
    assert names(found) == {"refused": ["default/small"]}


def test_a_gang_moves() -> None:
    """Let in before and after, at other nodes."""
    small = gang("small", 2)
    more = AddNodes(A, 1, like=NodeName("a1"))
    found, _ = differs(more, RemoveNodes((NodeName("b1"),)), of=base(RUNS, small))
    assert names(found) == {"moved": ["default/small"]}


def test_places_that_stand_are_kept() -> None:
    """Better room does not move who has a place: the service would not either."""
    small = gang("small", 2)
    found, _ = differs(AddNodes(A, 3, like=NodeName("a1")), of=base(RUNS, small))
    assert found.empty


def test_another_order() -> None:
    """Weights decide who of two is admitted."""
    of = base(RUNS, gang("one", 2, created_s=1.0), gang("two", 2, created_s=2.0))
    heavy = QueuePolicy(weight_namespaces=frozenset({Namespace("default")}))
    of = replace(of, policy_with=lambda _: replace(Policy(), queue=heavy))
    found, _ = differs(SetSettings({}), SetOption(GangKey("default/two"), "weight", "10000"), of=of)
    assert names(found) == {"admitted": ["default/two"], "refused": ["default/one"]}


def test_the_same_question_has_the_same_answer() -> None:
    """Plans and differences depend on the arguments alone."""
    changes = (JobEnds("default/runs"), AddNodes(B, 2, like=NodeName("b1")))
    assert differs(*changes) == differs(*changes)


def test_a_pod_without_constraints_is_made() -> None:
    """A new gang's members ask for nothing but their resources."""
    more = AddPods(Namespace("team"), "new", 1, gang="new", requests={"cpu": 1})
    member: Pod = supposed(more).snapshot.gangs[GangKey("team/new")].members[0]
    assert member.member_class.constraints == Constraints()
    assert member.requests == Resources.parse({"cpu": 1, "pods": 1})
