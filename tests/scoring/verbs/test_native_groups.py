"""The zone in which one of Kubernetes' own groups is tried: the planner's, then all others in turn."""

from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import ZoneName
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import PlannerCache
from scoring.verbs.native_groups import FirstZone, first_zone
from tests.builders import gang, node, pod, snapshot


def tried(cluster: Snapshot, *failed: str) -> FirstZone:
    """The next try of group `g` after tries in these zones."""
    zones = [ZoneName(zone) for zone in failed]
    wish = next(one for key, one in cluster.gangs.items() if key == "default/g")
    return first_zone(wish, cluster, Policy(), failed=zones, cache=PlannerCache(), now_s=0.0)


def test_what_others_are_promised_is_taken() -> None:
    """Zone a is empty, and promised to another gang."""
    nodes = [node("a1", zone="a"), node("b1", zone="b")]
    gangs = [gang("g", 2, cpu="4"), gang("other", 1, cpu="8")]
    cluster = snapshot(nodes, gangs, commitments={"default/other": {"uid-default-other-0": "a1"}})
    assert tried(cluster).zone == "b"


def test_its_own_promise_is_not_in_its_way() -> None:
    """A pod may have changed from a gang of ours into a group of Kubernetes'."""
    nodes = [node("a1", zone="a"), node("b1", zone="b", cpu="1")]
    cluster = snapshot(
        nodes, [gang("g", 2, cpu="4")], commitments={"default/g": {f"uid-default-g-{i}": "a1" for i in range(2)}}
    )
    assert tried(cluster).zone == "a"


def test_an_allowed_list_is_kept() -> None:
    """Annotation zones: no other zone is ever tried; with an unknown one there is nothing to name."""
    nodes = [node("a1", zone="a"), node("b1", zone="b")]
    assert tried(snapshot(nodes, [gang("g", 2, options={"zones": "b"})]), "b").zone == "b"
    assert tried(snapshot(nodes, [gang("g", 2, options={"zones": "x"})])).zone is None


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
