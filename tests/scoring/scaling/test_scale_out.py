"""Scale-out, demands and one whole pass: who grows where, and for whom room is kept (docs/explanation/elastic.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scoring.ids import NodeName
from scoring.model import Gang, Node, NodeSelectorTerm, Requirement, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import Claim, NodeTable
from scoring.network.matrix import NetworkMatrix
from scoring.plan import plan
from scoring.scaling.adjust import Adjustment, adjust
from scoring.scaling.change import No, ScaleOut
from scoring.scaling.job import ElasticJob
from scoring.scaling.options import Options
from scoring.scaling.scale_out import scale_out
from tests.builders import mesh, node, pod, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers

UNBOUNDED = Options(increment=None, cool_down_s=0.0, changes_per_hour=None)


def decide(
    nodes: Sequence[Node],
    gangs: Sequence[Gang],
    jobs: Sequence[ElasticJob],
    options: Options = UNBOUNDED,
    *,
    wishes: Mapping[str, int] | None = None,
    network: NetworkMatrix | None = None,
    policy: Policy = TRUSTING,
    now_s: float = 1000.0,
    claims: Mapping[str, Claim] | None = None,
) -> ScaleOut:
    """The decision for this cluster, from its own plan; demands by the job's name."""
    cluster = snapshot(nodes, gangs, network=network, claims=claims or {})
    made = plan(cluster, policy, now_s=now_s)
    asked = {job.key: wishes[job.key.name] for job in jobs if wishes and job.key.name in wishes}
    return scale_out(cluster, made, jobs, policy, options, now_s=now_s, wishes=asked)


def sizes(found: ScaleOut) -> dict[str, tuple[int, int]]:
    """Job → workers before and after."""
    return {change.job.name: (change.before, change.after) for change in found.changes}


def refusals(found: ScaleOut) -> dict[str, No]:
    """Job → why it does not grow."""
    return {refusal.job.name: refusal.reason for refusal in found.refusals}


def test_a_job_grows_to_its_maximum_and_no_further() -> None:
    """Six have room, four are allowed altogether."""
    job = workers("g", ["n1", "n1"])
    assert sizes(decide([node("n1", cpu="8")], [job], [elastic(job, most=4)])) == {"g": (2, 4)}


def test_l_iw_bounds_what_a_job_gets_at_once() -> None:
    """With an increment of 2 it grows by two; what it gave up, or demands, comes at once."""
    job = workers("g", ["n1", "n1"])
    two, cluster = replace(UNBOUNDED, increment=2), ([node("n1", cpu="8")], [job])
    assert sizes(decide(*cluster, [elastic(job, most=8)], two)) == {"g": (2, 4)}
    assert sizes(decide(*cluster, [elastic(job, most=8)], two, wishes={"g": 7})) == {"g": (2, 7)}
    assert sizes(decide(*cluster, [elastic(job, most=8, grow_back_to=6)], two)) == {"g": (2, 8)}


def test_what_was_given_up_comes_back_first() -> None:
    """Two are free: the light job that gave two up gets them, not the heavy one that never had more."""
    light, heavy = workers("l", ["n1"], weight=1), workers("h", ["n1"], weight=9)
    jobs = [elastic(light, most=5, grow_back_to=3), elastic(heavy, most=5)]
    found = decide([node("n1", cpu="4")], [light, heavy], jobs)
    assert sizes(found) == {"l": (1, 3)}
    assert refusals(found) == {"h": No.NO_ROOM}


def test_then_the_heavier_grows_first() -> None:
    """Three are free, each may have two more: the heavier gets two, the lighter one."""
    light, heavy = workers("l", ["n1"], weight=1), workers("h", ["n1"], weight=9)
    jobs = [elastic(light, most=3), elastic(heavy, most=3)]
    assert sizes(decide([node("n1", cpu="5")], [light, heavy], jobs)) == {"h": (1, 3), "l": (1, 2)}


def test_growth_stays_in_the_zone() -> None:
    """Room in another zone is no room for a gang that must stay whole."""
    job = workers("g", ["a1"])
    found = decide([node("a1", cpu="1", zone="a"), node("b1", cpu="9", zone="b")], [job], [elastic(job, most=3)])
    assert refusals(found) == {"g": No.NO_ROOM}


def test_a_job_in_two_zones_grows_in_both() -> None:
    """Its workers are in both, so both are its own; of the room there the best connected is taken first."""
    job = workers("g", ["a1", "b1"])
    nodes = [node("a1", cpu="1", zone="a"), node("a2", cpu="1", zone="a"), node("b1", cpu="2", zone="b")]
    network = mesh(["a1", "a2", "b1"], bad={"a2": {"delay_ms": 35.0}})
    one, two = (decide(nodes, [job], [elastic(job, most=most)], network=network) for most in (3, 4))
    assert (one.changes[0].nodes, sorted(two.changes[0].nodes)) == (("b1",), ["a2", "b1"])


def test_growth_prefers_the_best_network_to_the_ps() -> None:
    """Two nodes have room, one of them far from the ps: the worker goes to the other."""
    job = workers("g", ["n1"], ps="n1")
    nodes = [node("n1", cpu="2"), node("n2", cpu="1"), node("n3", cpu="1")]
    network = mesh(["n1", "n2", "n3"], bad={"n2": {"delay_ms": 35.0}})
    found = decide(nodes, [job], [elastic(job, most=2)], network=network)
    assert found.changes[0].nodes == ("n3",)


def test_room_that_the_plan_gives_to_a_gang_is_not_grown_into() -> None:
    """A gang that starts now has its places; growth gets what is left beside it."""
    job, starts = workers("g", ["n1"]), waiting("w", 2)
    found = decide([node("n1", cpu="4")], [job, starts], [elastic(job, most=9)])
    assert sizes(found) == {"g": (1, 2)}


def test_room_that_a_waiting_gang_cannot_use_is_grown_into() -> None:
    """Three wait for room together and two are free: they are of no use to them now."""
    job, large = workers("g", ["n1"], weight=9), waiting("w", 3)
    assert sizes(decide([node("n1", cpu="3")], [job, large], [elastic(job, most=9)])) == {"g": (1, 3)}


def test_room_that_is_being_freed_for_a_gang_is_not_grown_into() -> None:
    """Two are free and a third pod is being removed: then the gang of three fits, so its two are kept."""
    job, large = workers("g", ["n1"], weight=9), waiting("w", 3)
    ends = workers("ends", ["n1"])
    ends = replace(ends, members=tuple(replace(p, deleting=True) for p in ends.members))
    found = decide([node("n1", cpu="4")], [job, large, ends], [elastic(job, most=9)])
    assert refusals(found) == {"g": No.ROOM_IS_WANTED}


def test_claimed_room_is_not_grown_into() -> None:
    """Others leave for a gang: what is free of its future places by now stays free."""
    job, large = workers("g", ["n1"], weight=9), waiting("w", 2)
    stays = pod("stays", node="n1")
    claim = Claim(large.key, {large.members[0].uid: NodeName("n1")})  # the other one's place nobody knows
    cluster = snapshot([node("n1", cpu="3")], [job, large], pods=[stays], claims={large.key: claim})
    made = plan(cluster, TRUSTING, now_s=0.0)
    found = scale_out(cluster, made, [elastic(job, most=9)], TRUSTING, UNBOUNDED, now_s=0.0)
    assert refusals(found) == {"g": No.ROOM_IS_WANTED}


def test_room_held_for_a_starving_gang_is_not_grown_into() -> None:
    """From STARVELIMIT on a zone is reserved; before, growth may use what the gang cannot."""
    job, large = workers("g", ["n1"], weight=9), waiting("w", 3)
    nodes = [node("n1", cpu="3")]
    policy = replace(TRUSTING, queue=replace(TRUSTING.queue, starve_limit_s=500.0, starving_share=1.0))
    early = decide(nodes, [job, large], [elastic(job, most=9)], policy=policy, now_s=499.0)
    late = decide(nodes, [job, large], [elastic(job, most=9)], policy=policy, now_s=501.0)
    assert sizes(early) == {"g": (1, 3)}
    assert refusals(late) == {"g": No.ROOM_IS_WANTED}


def test_a_namespace_share_bounds_growth() -> None:
    """Half of four CPUs is allowed to the namespace: of three that have room one may be added."""
    job = workers("g", ["n1"])
    policy = replace(TRUSTING, queue=replace(TRUSTING.queue, share_cap=0.5))
    assert sizes(decide([node("n1", cpu="4")], [job], [elastic(job, most=4)], policy=policy)) == {"g": (1, 2)}
    full = workers("g", ["n1", "n1"])
    found = decide([node("n1", cpu="4")], [full], [elastic(full, most=4)], policy=policy)
    assert refusals(found) == {"g": No.OVER_SHARE}


REFUSED = {  # case: (nodes of the workers, job's fields, options, reason)
    "unsafe": (["n1"], {"refusal": "an HPA scales it"}, {}, No.UNSAFE),
    "cool-down": (["n1"], {"changed_s": 990.0}, {"cool_down_s": 30.0}, No.COOL_DOWN),
    "budget": (["n1"], {"changes_s": (999.0,)}, {"changes_per_hour": 1}, No.OVER_BUDGET),
    "at its maximum": (["n1"], {"most": 1}, {}, No.AT_MAXIMUM),
    "a worker without a node": (["n1", "n1", "n1", "n1", None], {}, {}, No.STILL_STARTING),
    "a worker that does not exist yet": (["n1"], {"wanted": 2}, {}, No.STILL_STARTING),
    "nobody runs": ([None, None, None, None, None], {}, {}, No.NOT_RUNNING),
    "full": (["n1"] * 4, {}, {}, No.NO_ROOM),
}


@pytest.mark.parametrize(("where", "fields", "options", "reason"), REFUSED.values(), ids=REFUSED)
def test_who_does_not_grow(
    where: list[str | None], fields: dict[str, Any], options: dict[str, Any], reason: No
) -> None:
    """Nothing is changed, and the reason is a constant of the closed set."""
    job = workers("g", where)
    found = decide([node("n1", cpu="4")], [job], [elastic(job, **{"most": 9} | fields)], replace(UNBOUNDED, **options))
    assert (sizes(found), refusals(found)) == ({}, {"g": reason})


def test_a_worker_that_no_node_could_hold_finds_no_room() -> None:
    """The node with the job's extended resource is gone from the cluster: the job runs on, and cannot grow."""
    job = workers("g", ["n1"])
    gpu = pod("g-worker-0", gang="g", role=Role.WORKER, index=0, gpu=1)
    alone = snapshot([node("n1", gpu=1)], [job])
    asks = replace(job, members=(replace(job.members[0], member_class=gpu.member_class),))
    cluster = replace(alone, table=NodeTable.of([node("n1")]), used=alone.used[:, :3], gangs={job.key: asks})
    found = scale_out(
        cluster, plan(cluster, TRUSTING, now_s=0.0), [elastic(asks, most=3)], TRUSTING, UNBOUNDED, now_s=0
    )
    assert refusals(found) == {"g": No.NO_ROOM}


def test_several_gangs_that_wait_for_room_that_is_coming() -> None:
    """Two alike wait, the room that comes is enough for one: its places are kept, the rest is given to growth."""
    job, gangs = (
        workers("g", ["n1"], weight=9),
        [waiting("v", 3), waiting("w", 3), waiting("x", 4), waiting("y", 4), waiting("z", 1, cpu="64")],
    )
    ends = workers("ends", ["n1", "n1"])
    ends = replace(ends, members=tuple(replace(p, deleting=True) for p in ends.members))
    found = decide([node("n1", cpu="4"), node("n2", cpu="1")], [job, *gangs, ends], [elastic(job, most=9)])
    assert sizes(found) == {"g": (1, 2)}


def test_switched_off() -> None:
    """`enabled: false` looks at nothing."""
    job = workers("g", ["n1"])
    cluster = snapshot([node("n1")], [job])
    off = adjust(
        cluster, plan(cluster, TRUSTING, now_s=0.0), [elastic(job)], {}, TRUSTING, Options(enabled=False), now_s=0
    )
    assert (off.changes, off.scale_out.reason) == ((), No.DISABLED)
    found = decide([node("n1")], [job], [elastic(job, most=9)], replace(UNBOUNDED, enabled=False))
    assert (found.changes, found.reason) == ((), No.DISABLED)


def test_growth_is_not_bound_to_the_nodes_that_admission_named() -> None:
    """A worker let through to n1 alone stands for pods that have no such list yet."""
    pinned = (NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)
    job = workers("g", ["n1"])
    constraints = replace(job.members[0].member_class.constraints, affinity=pinned)
    member = replace(
        job.members[0],
        member_class=replace(job.members[0].member_class, constraints=constraints),
        admitted_to=NodeName("n1"),
    )
    job = replace(job, members=(member,))
    found = decide([node("n1", cpu="1"), node("n2", cpu="1")], [job], [elastic(job, most=3)])
    assert [change.nodes for change in found.changes] == [("n2",)]


def test_growth_keeps_what_the_owner_asked_for() -> None:
    """Of terms that admission narrowed, the owner's own lines still count; a zone that admission added does not."""
    ssd, zone = Requirement("ssd", "Exists"), Requirement("topology.kubernetes.io/zone", "In", ("a",))
    nodes = [node("n1", cpu="1"), node("n2", cpu="1"), node("n3", cpu="1", labels={"ssd": "yes"})]
    for lines, where in (((ssd, zone), "n3"), ((zone,), "n2"), ((ssd,), "n3")):
        terms = (NodeSelectorTerm(lines),)
        job = workers("g", ["n1"])
        own = job.members[0].member_class
        narrowed = replace(own, constraints=replace(own.constraints, affinity=terms))
        job = replace(job, members=(replace(job.members[0], member_class=narrowed, admitted_to=NodeName("n1")),))
        found = decide(nodes, [job], [elastic(job, most=2)])
        assert [change.nodes for change in found.changes] == [(where,)]


def test_a_job_whose_workers_nobody_knows_does_not_grow() -> None:
    """Only a ps is there and no worker is wanted: what a worker would request nobody tells."""
    job = workers("g", [], ps="n1", least=1)
    found = decide([node("n1")], [job], [elastic(job, least=0, most=2)])
    assert found.changes == ()


def test_a_wish_bounds_growth_and_an_old_debt_is_paid_first() -> None:
    """A job that demands 3 of 8 grows to 3; one whose demand is fewer than it gave up gets what it demands."""
    job = workers("g", ["n1"])
    cluster = [node("n1", cpu="9")], [job]
    assert sizes(decide(*cluster, [elastic(job, most=8)], wishes={"g": 3})) == {"g": (1, 3)}
    assert sizes(decide(*cluster, [elastic(job, most=8, grow_back_to=6)], wishes={"g": 4})) == {"g": (1, 4)}
    assert refusals(decide(*cluster, [elastic(job, most=8)], wishes={"g": 1})) == {"g": No.AT_MAXIMUM}


def test_the_queue_arbitrates_wishes_when_room_is_short() -> None:
    """Both demand three more and four are free: the heavier gets its three, the lighter one of them."""
    light, heavy = workers("l", ["n1"], weight=1), workers("h", ["n1"], weight=9)
    jobs = [elastic(light, most=9), elastic(heavy, most=9)]
    found = decide([node("n1", cpu="6")], [light, heavy], jobs, wishes={"l": 4, "h": 4})
    assert sizes(found) == {"h": (1, 4), "l": (1, 2)}


def one_pass(
    nodes: Sequence[Node], gangs: Sequence[Gang], jobs: Sequence[ElasticJob], wishes: Mapping[str, int]
) -> Adjustment:
    """One whole pass."""
    cluster = snapshot(nodes, gangs)
    asked = {job.key: wishes[job.key.name] for job in jobs if job.key.name in wishes}
    made = plan(cluster, TRUSTING, now_s=0.0)
    return adjust(cluster, made, jobs, asked, TRUSTING, replace(UNBOUNDED, decrement=None), now_s=0.0)


def test_a_pass_that_frees_room_does_nothing_else() -> None:
    """While workers go for a gang nobody grows, although there is a CPU free for it."""
    light, other = workers("l", ["n1", "n1"]), workers("o", ["n2"], weight=5)
    gangs = [light, other, waiting("h", 1, cpu="2", weight=9)]
    nodes = [node("n1", cpu="3", zone="a"), node("n2", cpu="2", zone="b")]
    found = one_pass(nodes, gangs, [elastic(light), elastic(other, most=2)], {})
    assert [(c.job.name, c.after) for c in found.changes] == [("l", 1)]


def test_a_pass_grants_wishes_for_fewer_at_once_and_grows_the_others() -> None:
    """One wants fewer, the other more: both happen, the latter in the room that is there already."""
    fewer, more = workers("f", ["n1"] * 4), workers("m", ["n1"])
    found = one_pass([node("n1", cpu="6")], [fewer, more], [elastic(fewer), elastic(more, most=9)], {"f": 2, "m": 3})
    assert [(c.job.name, c.before, c.after) for c in found.changes] == [("f", 4, 2), ("m", 1, 2)]
    assert found.fewer[0].leaving == ("uid-default-f-worker-3", "uid-default-f-worker-2")


def test_a_wish_for_fewer_ends_at_the_minimum_and_waits_for_the_cool_down() -> None:
    """Bounds and cool-down hold for demands as for everything else."""
    job = workers("f", ["n1"] * 4)
    found = one_pass([node("n1", cpu="6")], [job], [elastic(job, least=3)], {"f": 1})
    assert [(c.before, c.after) for c in found.changes] == [(4, 3)]
    cluster = snapshot([node("n1", cpu="6")], [job])
    recent, options = elastic(job, changed_s=0.0), Options(cool_down_s=60.0)
    made = plan(cluster, TRUSTING, now_s=10.0)
    kept = adjust(cluster, made, [recent], {recent.key: 2}, TRUSTING, options, now_s=10.0)
    assert [(r.job.name, r.reason) for r in kept.fewer_refused] == [("f", No.COOL_DOWN)]
    assert kept.changes == ()
