"""The zone in which one of Kubernetes' own groups is tried: the planner's, then all others in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import ZoneName
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import PlannerCache
from scoring.verbs.places import FirstZone, first_zone
from tests.builders import gang, node, pod, snapshot


def tried(cluster: Snapshot, *failed: str) -> FirstZone:
    zones = [ZoneName(zone) for zone in failed]
    wish = next(one for key, one in cluster.gangs.items() if key == "default/g")
    return first_zone(wish, cluster, Policy(), failed=zones, cache=PlannerCache(), now_s=0.0)


A, B, SMALL = node("a1", zone="a"), node("b1", zone="b"), node("b1", zone="b", cpu="1")
PAIR, PROMISED = gang("g", 2, cpu="4"), {"default/other": {"uid-default-other-0": "a1"}}
OWN = {"default/g": {f"uid-default-g-{i}": "a1" for i in range(2)}}
TRIES: dict[str, tuple[str | None, Snapshot, str]] = {  # case: (zone, cluster, zones of earlier tries)
    "zone a is promised to another gang": (
        "b", snapshot([A, B], [PAIR, gang("other", 1, cpu="8")], commitments=PROMISED), ""),
    "its own promise, from before it was a native group": ("a", snapshot([A, SMALL], [PAIR], commitments=OWN), ""),
    "no zone that it may not use": ("b", snapshot([A, B], [gang("g", 2, options={"zones": "b"})]), "b"),
    "an unknown zone": (None, snapshot([A, B], [gang("g", 2, options={"zones": "x"})]), ""),
}  # fmt: skip


@pytest.mark.parametrize(("zone", "cluster", "failed"), TRIES.values(), ids=TRIES)
def test_first_zone(zone: str | None, cluster: Snapshot, failed: str) -> None:
    """The planner's zone beside what is committed."""
    assert tried(cluster, *failed).zone == zone


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 8)), min_size=1, max_size=8))
def test_no_zone_is_tried_twice_before_all_were(machines: list[tuple[str, int]]) -> None:
    """Whatever room there is: a group that never fits is tried in each zone once, and then from the beginning."""
    nodes = [node(f"n{i}", zone=zone) for i, (zone, _) in enumerate(machines)]
    busy = [pod(f"x{i}", cpu=str(used), node=f"n{i}") for i, (_, used) in enumerate(machines)]
    cluster = snapshot(nodes, [gang("g", 3, cpu="3")], pods=busy)
    zones = {zone for zone, _ in machines}
    order: list[str] = []
    for _ in zones:
        found = tried(cluster, *order)
        assert found.zone is not None
        assert sorted(found.failed) == sorted(order)
        order.append(found.zone)
    assert sorted(order) == sorted(zones)
    again = tried(cluster, *order)
    assert (again.zone, again.failed) == (order[0], frozenset())
