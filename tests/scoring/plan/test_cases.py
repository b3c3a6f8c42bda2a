"""What the planner answers in particular situations: one row each, as a sentence, the answer and the cluster."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import permutations
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from scoring import EndpointId, NodeName
from scoring.model import Gang, GangSource, HostPort, Node, NodeSelectorTerm, Phase, Pod, Requirement, Role, Taint
from scoring.model.pod import NO_RESOURCES
from scoring.model.policy import Selection
from scoring.model.reasons import Reason
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from scoring.plan import Plan, PlannerCache, plan
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import LATE_S, POLICY, answer, planned, ported, row, zoned

KUEUE = "kueue.x-k8s.io/admission"
PREFERRED = {"zone-policy": "preferred"}
BUSY = [pod("x", node="n0")]
TWO_ZONES = zoned(a=2, b=2)
ONE_EACH, THREE_ONES = zoned(a=1, b=1), zoned(a=1, b=1, c=1)
WEB = frozenset({HostPort("TCP", "0.0.0.0", 80)})


def of(members: Iterable[Pod], **fields: Any) -> Gang:
    return gang("g", members=members, **fields)


def gated(count: int, *gates: str, first: int = 0, size: int = 3, role: Role = Role.OTHER) -> list[Pod]:
    """Members of gang g, `count` of which, from the first named on, have these gates."""
    return [
        pod(f"g-{i}", gang="g", index=i, role=role, gates=gates if first <= i < first + count else ())
        for i in range(size)
    ]


def runs(*nodes: str, more: int = 0, gates: tuple[str, ...] = (), **fields: object) -> list[Pod]:
    """Members of gang g on these nodes, and so many more that wait."""
    there = [bound(pod(f"g-{i}", gang="g", **fields), at) for i, at in enumerate(nodes)]  # type: ignore[arg-type]
    return [*there, *(pod(f"g-{i}", gang="g", gates=gates) for i in range(len(nodes), len(nodes) + more))]


def finished(count: int, more: int = 0) -> list[Pod]:
    """Members of gang g that succeeded on nodes that are gone, and so many more that wait."""
    members = runs(*["gone"] * count, more=more)
    return [replace(one, phase=Phase.SUCCEEDED) if one.node is not None else one for one in members]


def on_port(name: str, size: int, **fields: object) -> list[Pod]:
    return [ported(one, 80) for one in gang(name, size, **fields).members]  # type: ignore[arg-type]


def held(**where: dict[str, str]) -> dict[str, dict[str, str]]:
    """Commitments: gang → member → node."""
    return {f"default/{g}": {f"uid-default-{m}": at for m, at in members.items()} for g, members in where.items()}


def case(want: object, nodes: Iterable[Node], *gangs: Gang, **fields: Any) -> tuple[object, Callable[[], Plan]]:
    """The answer to gang g, and the plan of these gangs, made when it is tested."""
    return want, partial(planned, nodes, *gangs, **fields)


Answers: TypeAlias = dict[str, tuple[object, Callable[[], Plan]]]
"""Sentence → the answer to gang g: its nodes, a reason, or a reason with its detail; and the plan"""

GATES: Answers = {  # docs/safety.md S5, S9
    "a gang that needs a pod behind a gate is incomplete, and the gate is named": case((Reason.INCOMPLETE,
        f"pod default/g-0 waits for scheduling gate {KUEUE}"),
        row(3), of(gated(1, KUEUE)), gang("h", 3, created_s=9.0)),
    "one pod stands for several with gates": case((Reason.INCOMPLETE,
        f"pod default/g-0 (and 2 more pods) waits for scheduling gate {KUEUE}, example.com/quota"),
        row(3), of(gated(3, KUEUE, "example.com/quota"))),
    "too few pods come before gates": case((Reason.INCOMPLETE, "2 of 3 pods exist"),
        row(3), of(gated(1, KUEUE, size=2), min_member=3)),
    "a gang starts without a first gated pod that it does not need": case(["n0", "n1"],
        row(3), of(gated(1, KUEUE), min_member=2)),
    "a gang starts without a last gated pod that it does not need": case(["n0", "n1"],
        row(3), of(gated(1, KUEUE, first=2), min_member=2)),
    "with known roles worker 0 must be free of gates": case(Reason.INCOMPLETE,
        row(3), of(gated(1, KUEUE, role=Role.WORKER), min_member=2)),
    "with known roles a worker beyond the minimum may have gates": case(["n0", "n1"],
        row(3), of(gated(1, KUEUE, first=2, role=Role.WORKER), min_member=2)),
}  # fmt: skip
LOST_NODES: Answers = {  # docs/safety.md S8, S12
    "members on a node that is gone do not count": case((Reason.INCOMPLETE,
        "2 of 3 pods exist, not counting those on gone, which is gone"), row(3), of(runs("gone", more=2))),
    "a successor takes the place of a lost member, beside the others": case(["b0"],
        TWO_ZONES, of(runs("gone", "b1", more=1), min_member=2)),
    "a succeeded member counts wherever its node is": case(["n0"], row(3), of(finished(1, more=1))),
    "siblings only on lost nodes bind to no zone": case(["b0", "b1"],
        zoned(a=1, b=2), of(runs("gone", more=2), min_member=2)),
}  # fmt: skip
THREE_ZONES = zoned(a=1, b=2, c=2)
AFTER_SUCCESS = of(finished(2, more=3), min_member=2)
WAITS_AFTER_SUCCESS = of(finished(1, more=1), min_member=1)
FAR = [
    Measurement(EndpointId(a), EndpointId(b), Metric.DELAY, ms, 0.0)
    for (one, other), ms in {("n0", "n1"): 50.0, ("n0", "n2"): 5.0, ("n0", "n3"): 20.0}.items()
    for a, b in ((one, other), (other, one))
]
OWN_ENDS = {metric: {NodeName(f"n{i}"): EndpointId(f"n{i}") for i in range(4)} for metric in METRICS}
BEYOND_THE_MINIMUM: Answers = {
    "as many more as fit join, in the same zone": case(["n0", "n1", "n2"], row(3), gang("g", 5, min_member=2)),
    "one more joins those that run": case(["n2"], row(3), of(runs("n0", "n1", more=1), min_member=2)),
    "without room it is surplus": case(Reason.SURPLUS, row(2), of(runs("n0", "n1", more=1), min_member=2)),
    "after success members go together, where most of them fit": case(["b0", "b1"], THREE_ZONES, AFTER_SUCCESS),
    "after success, near the users among equals": case(["c0", "c1"],
        THREE_ZONES, replace(AFTER_SUCCESS, options=(("near", "c"),))),
    "after success nothing is free": case(Reason.SURPLUS, row(1), WAITS_AFTER_SUCCESS, pods=BUSY),
    "after success in no zone": case(Reason.SURPLUS,
        row(1), replace(WAITS_AFTER_SUCCESS, options=(("zones", "mars"),))),
    "after success a class that has no place hinders no other": case(["a0"],
        ONE_EACH, of([*finished(1, more=1), pod("g-2", gang="g", gpu=1)], min_member=1), network=mesh(ONE_EACH)),
    "each class gets what it can": case(["n1", "n2"], [*row(2), node("n2", cpu="2")], of([*runs("n0"),
        pod("g-1", gang="g", gpu=1), pod("g-2", gang="g"), pod("g-3", gang="g", cpu="2")], min_member=1)),
    "the paper's method fills nodes, too": case(["n0", "n0", "n1", "n1"],
        row(2, cpu="2"), gang("g", 6, min_member=2, options={"selection": Selection.PAPER})),
    "near those that run, which count once each": case(["n2"], row(4), gang("g",
        members=runs("n0", more=1), min_member=1),
        network=NetworkMatrix.from_measurements(FAR, endpoint_of=OWN_ENDS, now_s=0.0)),
    "a minimum of nothing still starts what fits": case(["n0", "n1"], row(2), gang("g", 3, min_member=0)),
}  # fmt: skip
PAIR, CARDS = gang("g", 2), gang("g", 2, gpu=1)
SIX = zoned(cpu="4", a=3, b=3)
ON_THREE = [bound(pod(f"x{at}", cpu="2"), at) for at in ("a0", "a1", "b0")]
BY_KIND = [pod("ps", gang="g", cpu="1"), *(pod(f"w{i}", gang="g", cpu="3") for i in range(3))]
CLASS = PAIR.members[0].member_class
REFUSED = {CLASS: frozenset({NodeName("n0")})}
NOTHING = [replace(m, member_class=replace(m.member_class, requests=NO_RESOURCES)) for m in gang("g", 3).members]
REASONS: Answers = {
    "too few pods": case(Reason.INCOMPLETE, row(4), gang("g", 2, min_member=3)),
    "no room now": case(Reason.NO_ROOM, row(2), PAIR, pods=BUSY),
    "never any room": case(Reason.IMPOSSIBLE, row(2), gang("g", 2, cpu="2")),
    "room only over two zones": case(Reason.IMPOSSIBLE, ONE_EACH, PAIR),
    "no zone would have room": case((Reason.IMPOSSIBLE,
        "4 members at once fit in no allowed zone, even when it is empty"), SIX, gang("g", 4, cpu="4"), pods=ON_THREE),
    "pods are in the way in the zone with most room, the last by name": case((Reason.NO_ROOM,
        "most room in zone b: 2 of 3 members"), SIX, gang("g", 3, cpu="3"), pods=ON_THREE),
    "only zones it names count": case((Reason.NO_ROOM, "most room in zone a: 1 of 3 members"),
        SIX, gang("g", 3, cpu="3", options={"zones": "a"}), pods=ON_THREE),
    "two kinds of members, with most room": case((Reason.NO_ROOM, "most room in zone b: 3 of 4 members"),
        SIX, of(BY_KIND), pods=ON_THREE),
    "a zone that does not exist": case(Reason.NO_ALLOWED_ZONE, row(2), gang("g", 2, options={"zones": "mars"})),
    "a preferred zone that does not exist, past STARVELIMIT: no plan breaks (docs/safety.md S21)": case(
        Reason.NO_ALLOWED_ZONE, row(2), gang("g", 2, options={"zones": "mars", "zone-policy": "preferred"}), now_s=1e5),
    "nodes without zone label": case(Reason.NO_ALLOWED_ZONE, row(2, zone=""), PAIR),
    "no node at all": case(Reason.NO_ALLOWED_ZONE, [], PAIR),
    "a contradiction in its labels": case(Reason.INVALID_GROUP, row(4), replace(PAIR, problem=Reason.INVALID_GROUP)),
    "a gang ahead has the room (PAPERS G6: two gangs of four in room for six)": case(Reason.BEHIND,
        row(6), gang("a", 4, created_s=1.0), gang("g", 4, created_s=2.0)),
    "no room by competition of two classes: no gang is ahead": case(Reason.NO_ROOM,
        [node("n0", cpu="2"), node("n1", cpu="2")], gang("g",
        members=[pod("g-0", gang="g", cpu="2"), pod("g-1", gang="g", cpu="1")]), pods=[pod("x", cpu="2", node="n0")]),
    "learned refusals may pass (docs/safety.md S7)": case(Reason.FILTERED, row(2), PAIR, exclusions=REFUSED),
    "beside refusals there is no room either": case(Reason.NO_ROOM,
        row(2), PAIR, exclusions=REFUSED, pods=[pod("x", cpu="4", node="n1")]),
    "what no node's allocatable shows does not stop it (docs/safety.md S27)": case(["n0", "n1"],
        row(2), gang("g", 2, gpu=1)),
    "beside what no allocatable shows there is no room: nobody leaves for it": case(Reason.UNCOUNTED,
        row(2), gang("g", 2, gpu=1), pods=BUSY),
    "every node refuses what no allocatable shows": case(Reason.UNCOUNTED,
        row(2), CARDS, exclusions={CARDS.members[0].member_class: frozenset({NodeName("n0"), NodeName("n1")})}),
    "a resource that one node shows is counted, and others have none": case(Reason.IMPOSSIBLE,
        [*row(2), node("n2", cpu="1", gpu=1)], CARDS),
    "claims for devices that every node refuses": case(Reason.UNCOUNTED,
        row(1), gang("g", 1, unmodelled=("resourceClaims",)), exclusions=REFUSED),
    "another pod's host port will be free again": case(Reason.NO_ROOM,
        row(2), of(on_port("g", 2)), host_ports={NodeName("n0"): WEB}),
    "a gang ahead has the host port": case(Reason.BEHIND,
        row(2, cpu="2"), of(on_port("g", 2)), gang("h", members=on_port("h", 1), priority=1)),
    "a back-off holds nothing back that runs in part (docs/safety.md S5)": case(["n1"],
        row(2), of(runs("n0", more=1)), backing_off_until_s={PAIR.key: 99.0}),
    "a back-off lasts until its moment (docs/safety.md S5)": case(Reason.BACKING_OFF,
        row(2), PAIR, now_s=99.0, backing_off_until_s={PAIR.key: 100.0}),
    "a back-off ends": case(["n0", "n1"], row(2), PAIR, now_s=100.0, backing_off_until_s={PAIR.key: 100.0}),
    "members that ask for nothing": case(["n0", "n0", "n0"], row(1, cpu="0"), of(NOTHING)),
    "two roles, each where it fits": case(["cpu", "g0", "g1"], [node("cpu", cpu="8"),
        node("g0", cpu="2", gpu=2), node("g1", cpu="2", gpu=2)], of([pod("ps", role=Role.PS, cpu="4", gang="g"),
        *(pod(f"w{i}", role=Role.WORKER, index=i, gpu=2, gang="g") for i in range(2))])),
    "not on a tainted node": case(["n0", "n1"],
        [node("bad", cpu="1", taints=[Taint("k", "v", "NoSchedule")]), *row(2)], PAIR),
}  # fmt: skip
PS, WORKER = pod("g-0", gang="g", role=Role.PS), pod("g-1", gang="g", role=Role.WORKER)
HOST_PORTS: Answers = {
    "different ports may share a node": case(["n0", "n0"],
        row(1, cpu="8"), of([ported(PS, 2222), ported(WORKER, 2223)])),
    "two pods on the same port may not": case(Reason.IMPOSSIBLE,
        row(1, cpu="8"), of([ported(PS, 2222), ported(WORKER, 2222)])),
    "nor one of two ports": case(Reason.IMPOSSIBLE,
        row(1, cpu="8"), of([ported(ported(PS, 2222), 2223), ported(WORKER, 2223)])),
    "ports on nodes that are gone hinder no gang": case(["n0"],
        row(1), of(on_port("g", 1)), host_ports={NodeName("gone"): WEB}),
    "further members want the port, too": case(["n0", "n1", "n2"], row(3, cpu="4"), of(on_port("g", 9), min_member=1)),
    "a port on one address is taken on all": case(["n1", "n2"], row(3, cpu="8"),
        of(on_port("g", 2)), host_ports={NodeName("n0"): frozenset({HostPort("TCP", "10.0.0.1", 80)})}),
}  # fmt: skip
COMMITMENTS: Answers = {  # docs/safety.md S4
    "members that came after the commitment go beside it": case(["b0", "b1", "b2"],
        zoned(a=3, b=3), gang("g", 3), commitments=held(g={"g-0": "b0", "g-1": "b1"})),
    "without room beside it they wait": case(["b0", "b1"],
        row(2, zone="b", prefix="b"), gang("g", 3), commitments=held(g={"g-0": "b0", "g-1": "b1"})),
    "a commitment to a node that is gone is not moved by the planner": case(["gone", "gone"],
        row(3), PAIR, commitments=held(g={"g-0": "gone", "g-1": "gone"})),
    "its members are bound, a further one is surplus": case((Reason.SURPLUS,
        "the minimum is under way; more start when there is room"),
        row(1), of(runs("n0", more=1), min_member=1), commitments=held(g={"g-0": "n0"})),
    "the commitment of a gang that is gone holds nothing": case(["n0", "n1"],
        row(2), PAIR, commitments=held(h={"h-0": "n0"})),
    "a committed member takes what is counted of its request": case(["n1", "n2"],
        row(3), gang("h", 1, gpu=1), PAIR, commitments=held(h={"h-0": "n0"})),
    "a gang of higher priority takes nothing back": case(["n0", "n1"],
        row(3), PAIR, gang("h", 2, priority=9), commitments=held(g={"g-0": "n0", "g-1": "n1"})),
}  # fmt: skip
SPREAD = gang("g", 2, options=PREFERRED)
WITH_D = [node("a0", zone="a", cpu="2", gpu=1), node("b0", zone="b", cpu="1"), node("c0", zone="c", cpu="1"),
          node("d0", zone="d", cpu="2")]  # fmt: skip
COMPETES = of([pod("g-0", gang="g", gpu=1), pod("g-1", gang="g", cpu="2"),
                              pod("g-2", gang="g", cpu="1")], options=PREFERRED)  # fmt: skip
PS_AND_FIVE = of([pod("ps", role=Role.PS, cpu="4", gang="g"),
                                 *(pod(f"w{i}", role=Role.WORKER, index=i, gang="g") for i in range(5))],
                   options=PREFERRED)  # fmt: skip
FIVE_AND_ONE = [*zoned(a=5), node("b0", zone="b", cpu="4"), node("c0", zone="c", cpu="0")]
HALF_RUNS = of(runs("b0", more=1), options=PREFERRED | {"near": "a"})
BY_DELAY = NetworkMatrix.from_measurements(
    [
        Measurement(EndpointId(f"{z}{i}"), EndpointId(f"{z}{1 - i}"), Metric.DELAY, ms, 0.0)
        for z, ms in (("a", 30.0), ("b", 1.0))
        for i in range(2)
    ],
    endpoint_of={metric: {n.name: EndpointId(n.name) for n in TWO_ZONES} for metric in METRICS},
    now_s=0.0,
)
ZONES: Answers = {
    "nodes without zone take no part": case(Reason.IMPOSSIBLE,
        [*row(1, zone="a", prefix="a"), *row(2, zone="", prefix="x")], PAIR),
    "nodes without zone take part when preferred": case(["x0", "x1"],
        [*row(1, zone="a", prefix="a"), *row(2, zone="", prefix="x")], SPREAD),
    "preferred waits for one zone first": case(Reason.SPILL_WAIT, ONE_EACH, SPREAD, now_s=10.0),
    "then it takes the fewest": case(["a0", "b0"], ONE_EACH, SPREAD, now_s=LATE_S),
    "a gang of which some run is completed beside them, wherever the users are": case(["b1"], TWO_ZONES, HALF_RUNS),
    "and elsewhere only without room there": case(["a0"], TWO_ZONES, HALF_RUNS, pods=[pod("x", node="b1")]),
    "a gang that runs in part goes before all, in its zone": case(["b1"],
        TWO_ZONES, of(runs("b0", more=1), created_s=9.0), gang("q", 2, priority=5)),
    "a spread gang is completed in its own zones first": case(["a0", "c1"],
        [*ONE_EACH, *row(2, zone="c", prefix="c")], of(runs("c0", more=2), options=PREFERRED), now_s=LATE_S),
    "a spread leaves out zones that hold no member, however well connected": case(["a0", "a1", "a2", "a3", "a4", "b0"],
        FIVE_AND_ONE, PS_AND_FIVE, now_s=LATE_S, network=mesh(FIVE_AND_ONE, bad={"b0": {"delay_ms": 39.0}})),
    "classes compete for a node in all zones": case(Reason.IMPOSSIBLE, WITH_D[:3], COMPETES, now_s=LATE_S),
    "the next set of zones is tried": case(["a0", "a0", "d0"], WITH_D, COMPETES, now_s=LATE_S),
    "and has no room now": case(Reason.NO_ROOM, WITH_D, COMPETES, now_s=LATE_S, pods=[pod("x", cpu="2", node="d0")]),
    "a spread that does not fit waits": case((Reason.NO_ROOM, "most room in zone b: 1 of 2 members"),
        ONE_EACH, SPREAD, now_s=LATE_S, pods=[pod("x", node="a0")]),
    "a spread behind a gang ahead": case(Reason.BEHIND, ONE_EACH, SPREAD, gang("h", 1, priority=1), now_s=LATE_S),
    "delay alone tells zones apart": case(["b0", "b1"], TWO_ZONES, PAIR, network=BY_DELAY),
    "also with a reference rate": case(["b0", "b1"],
        TWO_ZONES, PAIR, network=BY_DELAY, policy=replace(POLICY, score=replace(POLICY.score, reference_bps=1e9))),
    "a zone that cannot take all classes together is passed over": case(["b0", "b1"],
        [node("a0", zone="a", cpu="2"), node("b0", zone="b", cpu="1"), node("b1", zone="b", cpu="2")],
        of([pod("g-0", gang="g", cpu="2"), pod("g-1", gang="g", cpu="1")], options={"near": "a"})),
}  # fmt: skip
DELAYED_A = mesh(TWO_ZONES, bad={"a0": {"delay_ms": 20.0}, "a1": {"delay_ms": 20.0}})
SLOW_A = mesh(TWO_ZONES, bad={"a0": {"throughput_bps": 10e6}, "a1": {"throughput_bps": 10e6}})
ORDER: Answers = {
    "the zone with the best links": case(["b0", "b1"], TWO_ZONES, PAIR, network=DELAYED_A),
    "before it the zone nearest to the users": case(["a0", "a1"],
        TWO_ZONES, gang("g", 2, options={"near": "a"}), network=DELAYED_A),
    "before it the gang's own order": case(["a0", "a1"],
        TWO_ZONES, gang("g", 2, options={"zones": "a,b"}), network=DELAYED_A),
    "a slow zone is not compared with its own best link": case(["b0", "b1"], TWO_ZONES, PAIR, network=SLOW_A),
    "the gang of higher priority is planned first": case(["n0", "n1"],
        row(3), gang("a", 2, priority=1), gang("g", 2, priority=2, created_s=9.0)),
    "the older gang is planned first": case(["n0", "n1"],
        row(3), gang("a", 2, created_s=5.0), gang("g", 2, created_s=4.0)),
    "of gangs of one age the first by name": case(Reason.BEHIND, row(3), gang("a", 2), PAIR),
}  # fmt: skip
LOSSY = {"loss_ratio": 0.13}
BAD_A = mesh(TWO_ZONES, bad={"a0": LOSSY})
REFUSES, PACKED = {"bad-links": "refuse"}, {"bad-links": "refuse", "selection": "pack"}
CLOSE = NetworkMatrix.from_measurements(
    [
        Measurement(EndpointId(a), EndpointId(b), metric, value, 0.0)
        for a, b in permutations(("n0", "n1", "n2", "n3"), 2)
        for metric, value in ((Metric.LOSS, 0.13), (Metric.DELAY, 0.1), (Metric.THROUGHPUT, 1e9))
        if metric is not Metric.LOSS or {a, b} == {"n0", "n1"}
        for value in [25.0 if metric is Metric.DELAY and {a, b} != {"n0", "n1"} else value]
    ],
    endpoint_of=OWN_ENDS,
    now_s=0.0,
)
BAD_LINKS: Answers = {
    "as published the sum of points decides": case(["n0", "n1"], row(4), gang("g", 2, options={"selection": "paper"}),
        network=CLOSE),
    "a bad link is avoided although its points are the most": case(["n0", "n2"], row(4), PAIR, network=CLOSE),
    "the whole zone is taken with it": case(["n0", "n1", "n2", "n3"], row(4), gang("g", 4), network=CLOSE),
    "refused, it waits": case((Reason.BAD_LINKS, "13 % loss between n0 and n1"),
        row(4), gang("g", 4, options=REFUSES), network=CLOSE),
    "refused also of the published selection": case(Reason.BAD_LINKS,
        row(4), gang("g", 2, options=REFUSES | {"selection": "paper"}), network=CLOSE),
    "refused where packing takes fewest nodes, more are taken": case(["n0"] * 4 + ["n2"] * 2 + ["n3"] * 2,
        [*row(2, cpu="4"), *(node(f"n{i}", cpu="2") for i in (2, 3))], gang("g", 8, options=PACKED), network=CLOSE),
    "packed after a refused gang of as many, and of smaller members": case(["n0"] * 2 + ["n1"] * 2, row(2, cpu="4"),
        gang("h", 4, priority=9, cpu="1300m", options=PACKED), gang("g", 4, cpu="2", options={"selection": "pack"}),
        network=CLOSE),
    "refused beyond the minimum, which starts": case(["n0", "n2", "n3"],
        row(4), gang("g", 4, min_member=3, options=REFUSES), network=CLOSE),
    "it holds nobody": case(["n0", "n2"],
        row(4), gang("h", 4, priority=9, options=REFUSES), PAIR, network=CLOSE),
    "a zone without bad links goes first": case(["b0", "b1"], TWO_ZONES, PAIR, network=BAD_A),
    "refused in the nearest zone, the next is taken": case(["b0", "b1"],
        TWO_ZONES, gang("g", 2, options=REFUSES | {"near": "a"}), network=BAD_A),
    "a gang of which some run is completed": case(["n1"],
        row(2), of(runs("n0", more=1), options=REFUSES), network=CLOSE),
    "spread over zones with the fewest bad links": case(["a0", "c0"], THREE_ONES, SPREAD, now_s=LATE_S,
        network=mesh(THREE_ONES, bad={"b0": LOSSY})),
    "spread, refused": case(Reason.BAD_LINKS, ONE_EACH, gang("g", 2, options=REFUSES | PREFERRED), now_s=LATE_S,
        network=mesh(ONE_EACH, bad={"b0": LOSSY})),
}  # fmt: skip
ANSWERS = BAD_LINKS | ORDER | GATES | LOST_NODES | BEYOND_THE_MINIMUM | REASONS | HOST_PORTS | COMMITMENTS | ZONES


@pytest.mark.parametrize(("want", "make"), ANSWERS.values(), ids=ANSWERS)
def test_answer(want: object, make: Callable[[], Plan]) -> None:
    found = answer(make(), "g")
    assert want in (found, found[0])


def test_paper_test_case_one() -> None:
    """PAPERS N4: six of zone D's nine nodes, and the three impaired ones are not among them."""
    nodes = [node(f"node{i}", zone="ABCD"[(i - 1) // 9], cpu="16") for i in range(1, 37)]
    impaired = {"node33": {"delay_ms": 10.0}, "node34": {"loss_ratio": 0.1}, "node35": {"throughput_bps": 10e6}}
    for selection in Selection:
        wish = gang("case1", 6, cpu="10", options={"near": "D", "selection": selection})
        outcome = planned(nodes, wish, network=mesh(nodes, bad=impaired))
        assert answer(outcome, "case1") == ["node28", "node29", "node30", "node31", "node32", "node36"]
        assert outcome.admitted[wish.key].zones == ("D",)


def test_what_a_plan_says_of_gangs_that_run_in_part() -> None:
    """They are partial, gate or not; the zones of a commitment to a lost node, and of a spread, are those it has."""
    whole = planned(row(3), of(runs("n0", more=1, gates=(KUEUE,)), min_member=1))
    assert (dict(whole.admitted), dict(whole.waiting), whole.partial) == ({}, {}, frozenset())
    assert planned(row(3), of(runs("n0", more=1, gates=(KUEUE,)))).partial == {"default/g"}
    assert planned(TWO_ZONES, of(runs("gone", "b1", more=1), min_member=2)).partial == {"default/g"}
    lost = planned(row(3), PAIR, commitments=held(g={"g-0": "gone", "g-1": "gone"})).admitted[PAIR.key]
    assert (lost.zones, lost.committed) == ((), True)
    assert planned(ONE_EACH, SPREAD, now_s=LATE_S).admitted[PAIR.key].zones == ("a", "b")


def test_a_resumed_job_waits_again_before_it_is_spread() -> None:
    """The job is a day old, its pods are not: what counts is since when they could have started. docs/safety.md S14."""
    members = [pod(f"p{i}", gang="g", index=i, created_s=86_400.0) for i in range(2)]
    wanted = of(members, options=PREFERRED, created_s=0.0)
    assert answer(planned(ONE_EACH, wanted, now_s=86_410.0), "g")[0] is Reason.SPILL_WAIT
    assert answer(planned(ONE_EACH, wanted, now_s=86_400.0 + LATE_S), "g") == ["a0", "b0"]


def test_members_that_lost_their_former_places_wait_again() -> None:
    """Members whose place the last plan knew run by now; the one left over without room waits, it is not admitted."""
    first = planned(row(2), of(runs(more=3), min_member=2))
    assert answer(first, "g") == ["n0", "n1"]
    then = snapshot(row(2), [of(runs("n0", "n1", more=1), min_member=2)], version=2)
    assert answer(plan(then, POLICY, now_s=0.0, previous=first), "g")[0] is Reason.SURPLUS


def test_what_a_pod_learned_holds_for_its_successor_and_its_predecessor() -> None:
    """The terms that an admission adds make no difference to filters that are not modelled (docs/safety.md S27)."""
    term = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n0",)),))
    admitted = pod("p", affinity=(term,)).member_class
    assert admitted != CLASS == admitted.anywhere
    for cache in (PlannerCache(), shared := PlannerCache(), shared):
        others = [gang(f"h{i}", 2, created_s=1.0) for i in range(20)]
        state = snapshot(row(2), [PAIR, *others], exclusions={admitted: frozenset({NodeName("n0")})})
        made = plan(state, POLICY, now_s=0.0, cache=cache)
        assert {one.reason for one in made.waiting.values()} == {Reason.FILTERED}
        assert not made.admitted


def test_the_same_demand_is_refused_once_for_all() -> None:
    """Equal gangs behind a refused one get its answer; a gang that only waits for its spread is looked at itself."""
    young = gang("y", 2, options=PREFERRED, created_s=LATE_S)
    old = gang("z", 2, options=PREFERRED, created_s=0.0, priority=-1)
    outcome = planned(ONE_EACH, young, old, now_s=LATE_S)
    assert answer(outcome, "y")[0] is Reason.SPILL_WAIT
    assert answer(outcome, "z") == ["a0", "b0"]
    equal = planned(row(3), gang("a", 2), gang("b", 2), gang("c", 2))
    assert [answer(equal, name)[0] for name in "bc"] == [Reason.BEHIND, Reason.BEHIND]


def test_native_and_foreign_gangs_are_left_alone() -> None:
    """kube-scheduler starts native groups itself, and other schedulers' pods are load (docs/safety.md S1)."""
    native, foreign = replace(PAIR, source=GangSource.NATIVE), replace(gang("foreign", 2), own=False)
    outcome = planned(row(4), native, foreign)
    assert (dict(outcome.admitted), dict(outcome.waiting)) == ({}, {})


@pytest.mark.parametrize("selection", list(Selection))
@pytest.mark.parametrize("throughput_bps", [0.0, 1e6])
def test_a_network_on_which_every_throughput_test_failed(throughput_bps: float, selection: Selection) -> None:
    """0 bit/s everywhere is no rate to compare zones by: the gang starts all the same, in one zone."""
    nodes = zoned(a=4, b=4)
    policy = replace(POLICY, selection=selection)
    outcome = planned(nodes, gang("g", 3), policy=policy, network=mesh(nodes, throughput_bps=throughput_bps))
    assert len({str(place)[0] for place in answer(outcome, "g")}) == 1
