"""Scale-out, demands and one whole pass: which jobs grow where, and for which gangs room is kept."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from scoring import NodeName
from scoring.model import Gang, NodeSelectorTerm, Requirement, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable, Reservation
from scoring.plan import PlannerCache, plan
from scoring.scaling.grow import adjust, scale_out
from scoring.scaling.job import ElasticCondition, ElasticJob, No, Options, Scaling
from tests.builders import mesh, node, pod, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, machines, waiting, workers

UNBOUNDED = Options(increment=None, cool_down_s=0.0, changes_per_hour=None, condition=ElasticCondition.LIGHTER)


def decide(
    nodes: str,
    gangs: Sequence[Gang],
    jobs: Sequence[ElasticJob],
    options: Options = UNBOUNDED,
    *,
    demands: Mapping[str, int] = {},
    policy: Policy = TRUSTING,
    now_s: float = 1000.0,
    **around: Any,
) -> Scaling:
    """The decision for this cluster, from its own plan; demands by the job's name."""
    cluster = snapshot(machines(nodes), gangs, **around)
    made = plan(cluster, policy, now_s=now_s)
    asked = {job.key: demands[job.key.name] for job in jobs if job.key.name in demands}
    return scale_out(cluster, made, jobs, policy, options, now_s=now_s, demands=asked, cache=PlannerCache())


def summary(found: Scaling) -> dict[str, Any]:
    """Job → workers before and after, or why it does not grow; nodes of the first that grows."""
    return {
        "sizes": {change.job.name: (change.before, change.after) for change in found.changes},
        "refused": {refusal.job.name: refusal.reason.name for refusal in found.refusals},
        "nodes": list(found.changes[0].nodes) if found.changes else [],
        "reason": found.reason.name if found.reason is not None else None,
    }


def going(one: Gang) -> Gang:
    return replace(one, members=tuple(replace(p, deleting=True) for p in one.members))


G, TWO, GS = workers("g", ["n1"]), workers("g", ["n1", "n1"]), workers("g", ["n1"], weight=9)
LIGHT, HEAVY = workers("l", ["n1"], weight=1), workers("h", ["n1"], weight=9)
A_B = workers("g", ["a1", "b1"])
SLOW_A2 = mesh(["a1", "a2", "b1"], bad={"a2": {"delay_ms": 35.0}})
SLOW_N2 = mesh(["n1", "n2", "n3"], bad={"n2": {"delay_ms": 35.0}})
STARVE = replace(TRUSTING, queue=replace(TRUSTING.queue, starve_limit_s=500.0, reserve_after_s=0.0))
PAIR = waiting("w", 2)
CLAIM = Reservation(PAIR.key, {PAIR.members[0].uid: NodeName("n1")})  # the other one's place is unknown
SEVERAL = [waiting(name, size) for name, size in (("v", 3), ("w", 3), ("x", 4), ("y", 4))]
BY_TWO = replace(UNBOUNDED, increment=2)

case = partial(partial, decide)
GROWTH: dict[str, tuple[dict[str, Any], partial[Scaling]]] = {  # sentence: (what is decided, nodes, gangs, jobs)
    "what it demands comes at once": ({"sizes": {"g": (2, 7)}},
        case("n1:8", [TWO], [elastic(TWO, most=8)], BY_TWO, demands={"g": 7})),
    "and what it gave up": ({"sizes": {"g": (2, 8)}},
        case("n1:8", [TWO], [elastic(TWO, most=8, grow_back_to=6)], BY_TWO)),
    "what was given up comes back first, also to the lighter": ({"sizes": {"l": (1, 3)}, "refused": {"h": "NO_ROOM"}},
        case("n1:4", [LIGHT, HEAVY], [elastic(LIGHT, most=5, grow_back_to=3), elastic(HEAVY, most=5)])),
    "then the heavier grows first": ({"sizes": {"h": (1, 3), "l": (1, 2)}},
        case("n1:5", [LIGHT, HEAVY], [elastic(LIGHT, most=3), elastic(HEAVY, most=3)])),
    "a job in two zones grows in both, where it is best connected first": ({"nodes": ["b1"]},
        case("a1:1 a2:1 b1:2", [A_B], [elastic(A_B, most=3)], network=SLOW_A2)),
    "and then in the other": ({"sizes": {"g": (2, 4)}},
        case("a1:1 a2:1 b1:2", [A_B], [elastic(A_B, most=4)], network=SLOW_A2)),
    "the best network to the ps": ({"nodes": ["n3"]},
        case("n1:2 n2:1 n3:1", [workers("g", ["n1"], ps="n1")], [elastic(workers("g", ["n1"], ps="n1"), most=2)],
             network=SLOW_N2)),
    "beside what the plan gives to a gang": ({"sizes": {"g": (1, 2)}},
        case("n1:4", [G, PAIR], [elastic(G, most=9)])),
    "room that a waiting gang cannot use now is used": ({"sizes": {"g": (1, 3)}},
        case("n1:3", [GS, waiting("w", 3)], [elastic(GS, most=9)])),
    "room is kept that suffices for a gang with what is being freed": ({"refused": {"g": "ROOM_IS_WANTED"}},
        case("n1:4", [GS, waiting("w", 3), going(workers("ends", ["n1"]))], [elastic(GS, most=9)])),
    "claimed room is kept": ({"refused": {"g": "ROOM_IS_WANTED"}},
        case("n1:3", [GS, PAIR], [elastic(GS, most=9)], pods=[pod("stays", node="n1")], claims={CLAIM.gang: CLAIM})),
    "before STARVELIMIT growth may use what the gang cannot": ({"sizes": {"g": (1, 3)}},
        case("n1:3", [GS, waiting("w", 3)], [elastic(GS, most=9)], policy=STARVE, now_s=499.0)),
    "from then on a zone is reserved": ({"refused": {"g": "ROOM_IS_WANTED"}},
        case("n1:3", [GS, waiting("w", 3)], [elastic(GS, most=9)], policy=STARVE, now_s=501.0)),
    "a start that is promised within two hours keeps what it lacks": ({"refused": {"g": "ROOM_IS_WANTED"}},
        case("n1:4", [G, replace(workers("r", ["n1"]), length_s=7200.0), waiting("w", 3)], [elastic(G, most=9)])),
    "and a later one nothing": ({"sizes": {"g": (1, 3)}},
        case("n1:4", [G, replace(workers("r", ["n1"]), length_s=7201.0), waiting("w", 3)], [elastic(G, most=9)])),
    "of several that wait, the room that comes is kept for the one it suffices for": ({"sizes": {"g": (1, 2)}},
        case("n1:4 n2:1", [GS, *SEVERAL, waiting("z", 1, cpu="64"), going(workers("ends", ["n1", "n1"]))],
             [elastic(GS, most=9)])),
    "what a worker would request is unknown where only a ps is there": ({"sizes": {}},
        case("n1:8", [workers("g", [], ps="n1", least=1)],
             [elastic(workers("g", [], ps="n1", least=1), least=0, most=2)])),
    "a demand bounds growth": ({"sizes": {"g": (1, 3)}},
        case("n1:9", [G], [elastic(G, most=8)], demands={"g": 3})),
    "a demand for less than it gave up": ({"sizes": {"g": (1, 4)}},
        case("n1:9", [G], [elastic(G, most=8, grow_back_to=6)], demands={"g": 4})),
    "a demand for what it has": ({"refused": {"g": "AT_MAXIMUM"}},
        case("n1:9", [G], [elastic(G, most=8)], demands={"g": 1})),
    "the queue's order decides between demands when room is short": ({"sizes": {"h": (1, 4), "l": (1, 2)}},
        case("n1:6", [LIGHT, HEAVY], [elastic(LIGHT, most=9), elastic(HEAVY, most=9)], demands={"l": 4, "h": 4})),
}  # fmt: skip


@pytest.mark.parametrize(("want", "decision"), GROWTH.values(), ids=GROWTH)
def test_scale_out(want: dict[str, Any], decision: partial[Scaling]) -> None:
    found = summary(decision())
    assert {name: found[name] for name in want} == want


REFUSED: dict[str, tuple[list[str | None], dict[str, Any]]] = {  # reason: (nodes of the workers, job's fields)
    "UNSAFE": (["n1"], {"refusal": "an HPA scales it"}),
    "AT_MAXIMUM": (["n1"], {"most": 1}),
    "STILL_STARTING": (["n1", "n1", "n1", "n1", None], {}),
    "STILL_STARTING: a worker that does not exist yet": (["n1"], {"wanted": 2}),
    "NOT_RUNNING": ([None, None, None, None, None], {}),
    "NO_ROOM": (["n1"] * 4, {}),
    "NO_ROOM: in no zone, its node is gone": (["gone"], {}),
}


@pytest.mark.parametrize(("case", "where", "fields"), [(name, *one) for name, one in REFUSED.items()])
def test_jobs_that_do_not_grow(case: str, where: list[str | None], fields: dict[str, Any]) -> None:
    job = workers("g", where)
    found = summary(decide("n1:4", [job], [elastic(job, **{"most": 9} | fields)], UNBOUNDED))
    assert (found["sizes"], found["refused"]) == ({}, {"g": case.partition(":")[0]})


def test_a_worker_that_no_node_could_hold_finds_no_room() -> None:
    """The node with the job's extended resource is gone from the cluster: the job runs on, and cannot grow."""
    gpu = pod("g-worker-0", gang="g", role=Role.WORKER, index=0, gpu=1)
    alone = snapshot([node("n1", gpu=1)], [G])
    asks = replace(G, members=(replace(G.members[0], member_class=gpu.member_class),))
    cluster = replace(alone, table=NodeTable.from_nodes([node("n1")]), used=alone.used[:, :3], gangs={G.key: asks})
    made = plan(cluster, TRUSTING, now_s=0.0)
    found = scale_out(cluster, made, [elastic(asks, most=3)], TRUSTING, UNBOUNDED, now_s=0, cache=PlannerCache())
    assert summary(found)["refused"] == {"g": "NO_ROOM"}


SSD, ZONE = Requirement("ssd", "Exists"), Requirement("topology.kubernetes.io/zone", "In", ("a",))
NARROWED = {  # case: (node of the new worker, terms of the present one, which was admitted to n1)
    "the nodes that admission named": ("n2", NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),))),
    "the owner's own line and admission's zone": ("n3", NodeSelectorTerm((SSD, ZONE))),
    "admission's zone alone": ("n2", NodeSelectorTerm((ZONE,))),
    "the owner's own line alone": ("n3", NodeSelectorTerm((SSD,))),
}


@pytest.mark.parametrize(("where", "term"), NARROWED.values(), ids=NARROWED)
def test_new_workers_have_what_the_owner_asked_for(where: str, term: NodeSelectorTerm) -> None:
    """What admission added to the affinity of the present workers does not bind those that do not exist yet."""
    own = G.members[0].member_class
    narrowed = replace(own, constraints=replace(own.constraints, affinity=(term,)))
    job = replace(G, members=(replace(G.members[0], member_class=narrowed, admitted_to=NodeName("n1")),))
    nodes = [*machines("n1:1 n2:1"), node("n3", cpu="1", labels={"ssd": "yes"})]
    cluster = snapshot(nodes, [job])
    made = plan(cluster, TRUSTING, now_s=0.0)
    found = scale_out(cluster, made, [elastic(job, most=2)], TRUSTING, UNBOUNDED, now_s=0.0, cache=PlannerCache())
    assert summary(found)["nodes"] == [where]


def one_pass(
    nodes: str, gangs: Sequence[Gang], jobs: Sequence[ElasticJob], demands: Mapping[str, int] = {}, **options: Any
) -> tuple[Scaling, Scaling]:
    cluster = snapshot(machines(nodes), gangs)
    asked = {job.key: demands[job.key.name] for job in jobs if job.key.name in demands}
    made, chosen = plan(cluster, TRUSTING, now_s=10.0), replace(UNBOUNDED, decrement=None, **options)
    return adjust(cluster, made, jobs, asked, TRUSTING, chosen, now_s=10.0, cache=PlannerCache())


def test_a_pass_that_frees_room_does_nothing_else() -> None:
    """While workers go for a gang no job grows, although there is a CPU free for it."""
    light, other = workers("l", ["n1", "n1"]), workers("o", ["b2"], weight=5)
    gangs = [light, other, waiting("h", 1, cpu="2", weight=9)]
    given, grown = one_pass("n1:3 b2:2", gangs, [elastic(light), elastic(other, most=2)])
    assert ([(c.job.name, c.after) for c in given.changes], grown.changes) == ([("l", 1)], ())


def test_a_pass_grants_demands_for_fewer_at_once_and_grows_the_others() -> None:
    fewer, more = workers("f", ["n1"] * 4), workers("m", ["n1"])
    found = one_pass("n1:6", [fewer, more], [elastic(fewer), elastic(more, most=9)], {"f": 2, "m": 3})
    assert [(c.job.name, c.before, c.after) for c in found[1].changes] == [("f", 4, 2), ("m", 1, 2)]


def test_a_demand_for_fewer_ends_at_the_minimum_and_waits_for_the_cool_down() -> None:
    job = workers("f", ["n1"] * 4)
    found = one_pass("n1:6", [job], [elastic(job, least=3)], {"f": 1})
    assert [(c.before, c.after) for c in found[1].changes] == [(4, 3)]
    _, kept = one_pass("n1:6", [job], [elastic(job, changed_s=0.0)], {"f": 2}, cool_down_s=60.0)
    assert [(r.job.name, r.reason, kept.changes) for r in kept.refusals] == [("f", No.COOL_DOWN, ())]
