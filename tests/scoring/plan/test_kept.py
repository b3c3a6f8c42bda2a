"""Places that are kept from one plan to the next: who loses nothing to them, and who can."""

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scoring.model import Gang
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.plan.demand import demand_of
from tests.builders import gang, node, snapshot
from tests.scoring.plan.planned import LATE_S, POLICY, clusters, in_order


def with_gang(state: Snapshot, heavy: Gang) -> Snapshot:
    """The same cluster a moment later, with one more gang."""
    return replace(state, version=2, gangs={**state.gangs, heavy.key: heavy})


HEAVY = st.builds(
    lambda size, least, cpu: gang("heavy", size, min_member=min(size, least), cpu=str(cpu), priority=9),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2),
)


@settings(deadline=None)
@given(clusters(), HEAVY)
def test_a_heavier_gang_loses_nothing_to_places_kept(state: Snapshot, heavy: Gang) -> None:
    """Places of the former plan never stand in the way of a heavier gang: it is admitted to the very same nodes."""
    assume(not any(demand_of(g, POLICY).partial for g in state.gangs.values()))  # those go before everybody
    before = plan(state, POLICY, now_s=LATE_S)
    after = with_gang(state, heavy)
    kept, fresh = plan(after, POLICY, now_s=LATE_S, previous=before), plan(after, POLICY, now_s=LATE_S)
    assert kept.admitted.get(heavy.key) == fresh.admitted.get(heavy.key)
    assert kept.waiting.get(heavy.key) == fresh.waiting.get(heavy.key)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_equal_members_lose_nothing_to_places_kept(cpus: list[int], gangs: list[tuple[int, int]], size: int) -> None:
    """Members that all ask for one CPU, one zone: the same gangs are admitted with former places as without."""
    nodes = [node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(cpus)]
    waiting = [gang(f"g{i}", n, priority=p, created_s=float(i)) for i, (n, p) in enumerate(gangs)]
    state = snapshot(nodes, waiting)
    after = with_gang(state, gang("heavy", size, priority=1, created_s=-1.0))
    before = plan(state, POLICY, now_s=0.0)
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    assert kept.admitted.keys() == fresh.admitted.keys()


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Snapshot, Gang]:
    """Few nodes, many gangs of unequal members, and a heavy gang that comes later: places are fought for."""
    nodes = [
        node(f"n{i}", zone=draw(st.sampled_from("ab")), cpu=str(draw(st.integers(1, 4))))
        for i in range(draw(st.integers(2, 4)))
    ]
    shape = st.tuples(st.integers(1, 3), st.integers(1, 3))
    shapes = draw(st.lists(shape, min_size=2, max_size=4))
    waiting = [gang(f"g{i}", size, cpu=str(cpu), created_s=float(i)) for i, (size, cpu) in enumerate(shapes)]
    size, cpu = draw(shape)
    return snapshot(nodes, waiting), gang("heavy", size, cpu=str(cpu), priority=9)


@settings(deadline=None)
@given(crowded())
def test_no_gang_loses_to_places_kept_behind_it(case: tuple[Snapshot, Gang]) -> None:
    """As long as all gangs ahead are placed as in a fresh plan, who is admitted there is admitted with places kept."""
    state, heavy = case
    before, after = plan(state, POLICY, now_s=0.0), with_gang(state, heavy)
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    for ask in in_order(after):
        one, other = kept.admitted.get(ask.gang.key), fresh.admitted.get(ask.gang.key)
        assert one is not None or other is None
        if one is None or other is None or one.members != other.members:
            break


def test_a_gang_can_lose_to_a_place_kept_ahead_of_it() -> None:
    """The counter-example to more: g0 keeps the node in b that it was given before the heavy gang came.

    From scratch it would fill up a node in a and leave b to g1. So room is lost only to gangs ahead, and until these
    are bound.
    """
    nodes = [node("b0", zone="b", cpu="3"), node("a0", zone="a", cpu="3"), node("a1", zone="a", cpu="3")]
    waiting = [gang("g0", 1, cpu="1", created_s=0.0), gang("g1", 1, cpu="3", created_s=1.0)]
    state, after = snapshot(nodes, waiting), snapshot(nodes, [*waiting, gang("heavy", 2, cpu="2", priority=9)])
    before = plan(state, POLICY, now_s=0.0)
    assert dict(before.node_of) == {"uid-default-g0-0": "b0", "uid-default-g1-0": "a0"}
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    assert sorted(kept.admitted) == ["default/g0", "default/heavy"]
    assert sorted(fresh.admitted) == ["default/g0", "default/g1", "default/heavy"]
