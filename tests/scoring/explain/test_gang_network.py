"""What people are told about the network of a gang: where it is or goes, its score, and its worst link."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import pytest

from scoring.explain.gang_network import GangNetwork, gang_network
from scoring.ids import EndpointId, NodeName
from scoring.model import Gang, Role
from scoring.model.policy import Policy, ScorePolicy, Ttl
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix
from scoring.plan import Plan, PlannerCache, begin_run, plan
from tests.builders import bound, gang, mesh, node, pod, snapshot

NOW_S = 1000.0
POLICY = Policy(score=ScorePolicy(soft_ttl_s=Ttl.same(100.0), hard_ttl_s=Ttl.same(200.0)))
NAMES = [f"n{i}" for i in range(4)]
NODES = [node(name, cpu="1") for name in NAMES]
Link = tuple[str, str, Metric, float, float]
"""From, to, metric, value, age."""


def merged(sources: Mapping[str, list[Link]]) -> NetworkMatrix:
    """A matrix of named sources."""
    tables = {
        name: MeasurementTable.of(
            Measurement(EndpointId(a), EndpointId(b), metric, value, NOW_S - age_s)
            for a, b, metric, value, age_s in found
        )
        for name, found in sources.items()
    }
    ends = {NodeName(name): EndpointId(name) for name in NAMES}
    return NetworkMatrix.merged(tables, endpoint_of=dict.fromkeys(METRICS, ends), now_s=NOW_S)


def placed(*names: str, roles: str = "") -> Gang:
    """A gang with a member on each node; `roles`: a letter for each, `p` a ps, `w` a worker."""
    role = {"p": Role.PS, "w": Role.WORKER}
    members = [
        bound(pod(f"g-{i}", gang="g", **({"role": role[roles[i]]} if roles else {})), name)  # type: ignore[arg-type]
        for i, name in enumerate(names)
    ]
    return gang("g", members=members)


def network_of(state: Snapshot, wanted: Gang, made: Plan | None = None) -> GangNetwork | None:
    return gang_network(begin_run(state, POLICY, PlannerCache()), made or Plan(version=0), wanted)


PAIRS = {  # case: (ends of the worst link, nodes of the members, their roles)
    "all-reduce: every pair": (("n1", "n2"), ("n0", "n1", "n2"), ""),
    "a ps: only its pairs": (("n0", "n1"), ("n0", "n1", "n2"), "pww"),
    "all on one node": (None, ("n0", "n0"), ""),
    "a member on a node that is gone": (("n0", "n1"), ("n0", "n1", "gone"), ""),
}


@pytest.mark.parametrize(("want", "names", "roles"), PAIRS.values(), ids=PAIRS)
def test_only_links_over_which_members_exchange_data(
    want: tuple[str, str] | None, names: tuple[str, ...], roles: str
) -> None:
    """The one from n1 to n2 is the worst of all."""
    wanted, nodes = placed(*names, roles=roles), [node(name, cpu="8") for name in NAMES]
    delays = [(a, b, Metric.DELAY, 9.0 if {a, b} == {"n1", "n2"} else 1.0, 5.0) for a, b in permutations(NAMES, 2)]
    found = network_of(snapshot(nodes, [wanted], network=merged({"x": delays})), wanted)
    assert found is not None
    assert (found.worst and (found.worst.source, found.worst.target)) == want


def test_a_planned_gang_and_one_without_nodes() -> None:
    """Planned places count as real ones; a gang without places has no network."""
    wanted, other = gang("g", 2, cpu="1"), gang("h", 9, cpu="1")
    state = snapshot(NODES, [wanted, other], network=mesh(NODES, bad={"n0": {"delay_ms": 30.0}}))
    found = network_of(state, wanted, made := plan(state, POLICY, now_s=NOW_S))
    assert found is not None
    assert found.nodes == ("n1", "n2")
    assert network_of(state, other, made) is None


def test_a_very_large_gang_is_looked_at_in_part() -> None:
    nodes = [node(f"n{i:03}", cpu="1") for i in range(130)]
    wanted = placed(*(one.name for one in nodes))
    found = network_of(snapshot(nodes, [wanted]), wanted)
    assert found is not None
    assert (len(found.nodes), found.of_nodes) == (64, 130)


def test_points_are_those_of_the_zone() -> None:
    """The best rate of the zone is what rates are compared with, also where no member uses that link."""
    wanted = placed("n0", "n1")
    fast = mesh(NODES, throughput_bps=1e9, bad={name: {"throughput_bps": 1e8} for name in ("n0", "n1")})
    found = network_of(snapshot(NODES, [wanted], network=replace(fast, evaluated_at_s=0.0)), wanted)
    assert found is not None
    assert found.worst is not None
    assert found.worst.points == pytest.approx(20.0 + 39.0 + 4.0)


def test_the_network_that_a_gang_has() -> None:
    bad = [("n0", "n2", Metric.DELAY, 9.0, 50.0), ("n2", "n0", Metric.DELAY, 8.0, 10.0)]
    good = [(a, b, Metric.DELAY, 1.0, 5.0) for a, b in (("n0", "n1"), ("n1", "n0"), ("n1", "n2"), ("n2", "n1"))]
    state = snapshot(NODES, gangs=[wanted := placed("n0", "n1", "n2")], network=merged({"owamp": [*bad, *good]}))
    found = network_of(state, wanted)
    assert found is not None
    assert (found.nodes, found.of_nodes, found.zones) == (("n0", "n1", "n2"), 3, ("a",))
    assert found.worst is not None
    assert (found.worst.source, found.worst.target) == ("n0", "n2")
    assert (found.worst.delay_ms, found.worst.oldest_s, found.worst.throughput_bps) == (9.0, 50.0, None)
    assert found.score is not None
    assert found.worst.points < found.score < 100.0


def test_the_score_is_that_of_the_plan() -> None:
    """Members on one node are pairs, too, as in `Admission.score`."""
    roomy = [node(name, cpu="2") for name in NAMES[:2]]
    state = snapshot(roomy, gangs=[waits := gang("g", 3)], network=mesh(NAMES[:2]))
    score = plan(state, POLICY, now_s=NOW_S).admitted[waits.key].score
    runs = placed("n0", "n0", "n1")
    found = network_of(snapshot(roomy, gangs=[runs], network=state.network), runs)
    assert found is not None
    assert score is not None
    assert found.score == pytest.approx(score, abs=0.001)


def test_members_on_one_node_have_no_worst_link() -> None:
    state = snapshot(NODES, gangs=[wanted := placed("n0")])
    found = network_of(state, wanted)
    assert found is not None
    assert (found.score, found.worst) == (None, None)
    assert network_of(state, gang("w", 2)) is None
