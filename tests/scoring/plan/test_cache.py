"""The planner's cache: it saves time and nothing else, and it stays bounded."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring.ids import NodeName, ZoneName
from scoring.model import Gang, HostPort, Node
from scoring.model.policy import Policy, QueuePolicy, Ratios, ScorePolicy, Selection, ZonePolicy
from scoring.model.snapshot import NodeTable, Reservation, Snapshot
from scoring.plan import PlannerCache, plan
from scoring.plan.cache import remember
from scoring.plan.node_search import warmed
from scoring.score.pairs import Links, among
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.example_counts import FEW
from tests.scoring.plan.planned import POLICY, dressed

NODE_COUNT = 12
ZONES = 3


def world(rng: random.Random) -> Iterator[Snapshot]:
    """A small busy cluster, changed a little each time: room, nodes, gangs, refusals, promises."""
    nodes = [node(f"n{i:02}", zone="abc"[i % ZONES], cpu="4", memory="16Gi") for i in range(NODE_COUNT)]
    gangs = [_gang(rng, number) for number in range(14)]
    used = {one.name: rng.randint(0, 4) for one in nodes}
    excluded: dict[int, str] = {}
    promised: str | None = None
    away: list[Node] = []
    for version in range(1, 15):
        match rng.randrange(9):
            case 0 | 1 | 2:
                used[rng.choice(nodes).name] = rng.randint(0, 4)
            case 3:
                gangs[rng.randrange(len(gangs))] = _gang(rng, 100 + version)
            case 4:
                excluded = {rng.randrange(len(gangs)): rng.choice(nodes).name} if rng.random() < 0.5 else {}
            case 5:
                chosen = rng.randrange(len(nodes))
                nodes[chosen] = _touched(rng, nodes[chosen])
            case 6 if len(nodes) > NODE_COUNT // 2:
                away.append(nodes.pop(rng.randrange(len(nodes))))
            case 6 | 7 if away:
                nodes = sorted([*nodes, _returned(rng, away.pop())], key=lambda one: one.name)
            case 7:
                new = node(f"n{rng.randrange(99):02}x{version}", zone=rng.choice("abcd"), cpu="4", memory="16Gi")
                nodes = sorted([*nodes, new], key=lambda one: one.name)
            case _:
                promised = rng.choice(gangs).key if promised is None else None
        yield _snapshot(nodes, gangs, used, excluded, promised, version)


def _gang(rng: random.Random, number: int) -> Gang:
    """Of one kind of members, or of two; some have members on nodes."""
    cpu, memory, size = str(rng.randint(1, 4)), f"{rng.randint(0, 5)}Gi", rng.randint(1, 5)
    options = rng.choice([{}, {}, {"zones": "b,a"}, {"zone-policy": "preferred"}])
    one = gang(f"g{number:03}", size, created_s=float(rng.randint(0, 2000)), options=options, cpu=cpu, memory=memory)
    if rng.random() < 0.3:
        ps = pod(f"g{number:03}-ps", gang=f"g{number:03}", cpu=str(rng.randint(1, 3)), min_available=size + 1)
        one = replace(one, members=(ps, *one.members), min_member=size + 1)
    if rng.random() < 0.2:
        one = replace(one, members=(bound(one.members[0], f"n{rng.randrange(NODE_COUNT):02}"), *one.members[1:]))
    return one


def _returned(rng: random.Random, one: Node) -> Node:
    """A node that was away, perhaps in another zone now."""
    return one if rng.random() < 0.6 else node(one.name, zone=rng.choice("abcd"), cpu="5", memory="16Gi")


def _touched(rng: random.Random, one: Node) -> Node:
    """Cordoned or not, or of another size."""
    if rng.random() < 0.5:
        return replace(one, unschedulable=not one.unschedulable)
    return node(one.name, zone=one.zone, cpu=str(rng.randint(2, 6)), memory="16Gi")


def _snapshot(
    nodes: list[Node],
    gangs: list[Gang],
    used: dict[NodeName, int],
    excluded: dict[int, str],
    promised: str | None,
    version: int,
) -> Snapshot:
    there = {one.name for one in nodes}
    others = [pod(f"x-{name}", cpu=str(cpu), node=name) for name, cpu in used.items() if cpu and name in there]
    made = snapshot(nodes, gangs, pods=others, version=version)
    assignment = {
        one.uid: NodeName(f"n{i:02}")
        for listed in gangs
        if listed.key == promised
        for i, one in enumerate(listed.pending)
    }
    return replace(
        made,
        table=replace(made.table, version=version),
        exclusions={
            gangs[i].members[0].member_class: frozenset({NodeName(name)})
            for i, name in excluded.items()
            if i < len(gangs)
        },
        commitments={one.key: Reservation(one.key, assignment) for one in gangs if one.key == promised and assignment},
    )


WEB = HostPort("TCP", "0.0.0.0", 80)


def at(state: Snapshot, version: int) -> Snapshot:
    """The snapshot with its own table version, as the cache would give it."""
    return replace(state, version=version, table=replace(state.table, version=version))


# -- every input shows in a key --------------------------------------------------------------------------------

NODES = [node(f"a{i}", zone="a", cpu="2") for i in range(3)] + [node(f"b{i}", zone="b", cpu="2") for i in range(3)]
NET = mesh(NODES, bad={"a0": {"delay_ms": 20.0}, "b2": {"loss_ratio": 0.01}})
OTHER_NET = replace(mesh(NODES, bad={"b1": {"delay_ms": 30.0}}), version=2)
WANTED = gang("g", 3, created_s=-1000.0)
PART_LOST = gang("g", members=[replace(WANTED.members[0], node=NodeName("b0")), *WANTED.members[1:]], min_member=2)
PORTED = gang("g", members=[dressed(one, host_ports=(WEB,)) for one in WANTED.members])
CLASS = WANTED.members[0].member_class


def state(wanted: Gang = WANTED, **fields: object) -> Snapshot:
    """Two zones and one gang."""
    return snapshot(NODES, [wanted], network=NET, **fields)  # type: ignore[arg-type]


def excluding(*names: str) -> dict[str, Any]:
    """Learned refusals of these nodes."""
    return {"exclusions": {CLASS: frozenset(NodeName(n) for n in names)}}


CHANGES: dict[str, tuple[Snapshot, Policy]] = {  # what differs from (state(), POLICY)
    "one node refused": (state(**excluding("b0")), POLICY),
    "all nodes of a zone refused": (state(**excluding("b0", "b1", "b2")), POLICY),
    "all nodes refused": (state(**excluding(*(n.name for n in NODES))), POLICY),
    "host ports taken": (
        state(PORTED, host_ports=dict.fromkeys((NodeName("b0"), NodeName("b1")), frozenset({WEB}))),
        POLICY,
    ),
    "host ports free": (state(PORTED), POLICY),
    "room taken": (state(pods=[pod("x", cpu="2", node="b1")]), POLICY),
    "other network data": (replace(state(), network=OTHER_NET), POLICY),
    "the same demand with other ratios": (state(replace(WANTED, options=(("ratios", "1:0:0"),))), POLICY),
    "the operator's ratios": (state(), Policy(score=ScorePolicy(ratios=Ratios(0.0, 1.0, 0.0)))),
    "another selection": (state(), Policy(selection=Selection.PACK)),
    "near": (state(replace(WANTED, options=(("near", "a"),))), POLICY),
    "near a configured place": (
        state(replace(WANTED, options=(("near", "office"),))),
        Policy(zone_distance_ms={ZoneName("office"): {ZoneName("a"): 1.0}}),
    ),
    "near the same place, configured otherwise": (
        state(replace(WANTED, options=(("near", "office"),))),
        Policy(zone_distance_ms={ZoneName("office"): {ZoneName("b"): 1.0}}),
    ),
    "allowed zones": (state(replace(WANTED, options=(("zones", "a"),))), POLICY),
    "only one zone exists": (at(snapshot(NODES[:3], [WANTED], network=NET), 2), POLICY),
    "more members": (state(gang("g", 5, created_s=-1000.0)), POLICY),
    "too many for one zone": (state(gang("g", 7, created_s=-1000.0)), POLICY),
    "too many for one zone, may be spread": (
        state(gang("g", 7, created_s=-1000.0)),
        Policy(zone_policy=ZonePolicy.PREFERRED),
    ),
    "exact search switched off": (state(), Policy(exact_zone_size=0)),
    "a member's node is gone": (at(snapshot(NODES[:3], [PART_LOST], network=NET), 3), POLICY),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_between_two_runs(change: tuple[Snapshot, Policy]) -> None:
    """Two runs that differ in any one input plan with a shared cache as they do alone."""
    cache, before = PlannerCache(), (state(), POLICY)
    for now in (before, change, before):
        assert plan(*now, now_s=0.0, cache=cache) == plan(*now, now_s=0.0)


def test_whatever_changes_run_after_run() -> None:
    cache = PlannerCache()
    for name, now in [*CHANGES.items(), *reversed(CHANGES.items())]:
        assert plan(*now, now_s=0.0, cache=cache) == plan(*now, now_s=0.0), name


@pytest.mark.slow
@FEW
@given(st.integers(0, 2**32), st.sampled_from([1e9, 300.0]))
def test_a_changing_cluster_is_planned_as_without_a_cache(seed: int, starve_limit_s: float) -> None:
    """Plan after plan: the same places, reasons and words."""
    policy = Policy(queue=QueuePolicy(starve_limit_s=starve_limit_s))
    cache, before = PlannerCache(), None
    for number, now in enumerate(world(random.Random(seed))):
        now_s = 1000.0 + number
        made = plan(now, policy, now_s=now_s, previous=before, cache=cache)
        assert made == plan(now, policy, now_s=now_s, previous=before)
        before = made


def test_a_second_run_scores_nothing_again() -> None:
    """The same snapshot again finds the pair scores in the cache."""
    cache = PlannerCache()
    first = plan(state(), POLICY, now_s=0.0, cache=cache)
    scores = dict(cache.scores)
    assert plan(state(), POLICY, now_s=0.0, cache=cache) == first
    assert cache.scores.keys() == scores.keys()
    assert all(cache.scores[key] is value for key, value in scores.items())


# -- bounds ----------------------------------------------------------------------------------------------------


def test_equal_classes_are_one_key() -> None:
    """Objects differ, content is what counts, also of a copy with a part replaced."""
    one, equal, other = pod("a").member_class, pod("b").member_class, pod("c", cpu="2").member_class
    assert one is not equal
    assert {one: 1, other: 2}[equal] == 1
    assert replace(other, requests=one.requests) in {one}
    assert replace(one, constraints=replace(one.constraints, claims=("c",))) not in {one}


def test_tables_are_emptied_at_their_limit() -> None:
    """A table holds at most `limit` values, and forgets all at once."""
    table: dict[int, int] = {}
    for i in range(5):
        assert remember(table, i, lambda i=i: i * i, limit=3) == i * i  # type: ignore[misc]
    assert table == {3: 9, 4: 16}
    assert remember(table, 4, lambda: -1, limit=3) == 16


def test_scores_count_by_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are kept until their pairs exceed the bound; one larger block is kept alone."""
    monkeypatch.setattr("scoring.plan.cache.MOST_PAIRS", 20)
    cache = PlannerCache()

    def links(size: int) -> Links:
        """Scores of a block of size × size pairs, kept under its size."""
        nodes = [node(f"n{i}") for i in range(size)]
        return cache.links(size, lambda: among(mesh(nodes), [one.name for one in nodes], POLICY.score))

    links(2), links(4)
    assert (set(cache.scores), cache.pairs) == ({2, 4}, 20)
    assert links(4) is links(4)
    links(1)
    assert (set(cache.scores), cache.pairs) == ({1}, 1)
    links(9)
    assert (set(cache.scores), cache.pairs) == ({9}, 81)


def test_older_network_data_is_dropped() -> None:
    """With a new network version everything computed from the former one goes: it can never be asked for again."""
    cache = PlannerCache()
    plan(state(), POLICY, now_s=0.0, cache=cache)
    assert cache.scores
    plan(replace(state(), network=replace(NET, version=9)), POLICY, now_s=0.0, cache=cache)
    assert {key[0] for key in cache.scores} == {9}  # type: ignore[index]
    assert cache.pairs == sum(links.held for links in cache.scores.values())


def test_what_is_kept_of_gangs_goes_with_them() -> None:
    """Gangs that are gone do not stay."""
    cache = PlannerCache()
    filler: dict[Any, Any] = {f"default/{i}": None for i in range(100)}
    cache.demands.known, cache.urgencies = dict(filler), dict(filler)
    first = plan(state(), POLICY, now_s=0.0, cache=cache)
    plan(state(), POLICY, now_s=0.0, cache=cache, previous=first)
    assert set(cache.demands.known) == set(cache.urgencies) == {WANTED.key}


def test_a_demand_is_derived_again_only_when_it_can_differ() -> None:
    """The same gang under the same policy has the same demand, also when other nodes came and went."""
    cache = PlannerCache()
    index, fewer = state().table.index, snapshot(NODES[:3]).table.index
    known = cache.demands.of(WANTED, POLICY, index)
    assert cache.demands.of(WANTED, POLICY, fewer) is known
    assert cache.demands.of(WANTED, Policy(), fewer) is not known
    runs = gang("g", members=[replace(WANTED.members[0], node=NodeName("b0")), WANTED.members[1]])
    there = cache.demands.of(runs, POLICY, index)
    assert cache.demands.of(runs, POLICY, fewer).lost == {"b0"}
    assert cache.demands.of(runs, POLICY, index) == there


# -- layouts -----------------------------------------------------------------------------------------------------


def test_a_layout_stands_for_nodes_and_zones_whatever_else_changes() -> None:
    """A node table of another version with the same names and zones has the same layout; the last few are known."""
    cache = PlannerCache()
    table = state().table
    layout = cache.layout(table)
    assert cache.layout(replace(table, version=9)) == layout
    others = [cache.layout(snapshot([node(f"n{i}")]).table) for i in range(4)]
    assert len({layout, *others}) == 5
    assert cache.layout(table) not in {layout, *others}


def test_what_was_found_between_zones_is_taken_over() -> None:
    """With the pair scores of new data comes what leads from zone to zone, under the layout's number here."""
    cache = PlannerCache()
    cache.layout(snapshot([node("x")]).table)
    ready = warmed(state(), NET, POLICY)
    cache.take_over(ready)
    layout = cache.layout(ready_table(ready))
    assert list(cache.crossings) == [(NET.version, layout)]


def ready_table(ready: PlannerCache) -> NodeTable:
    """A node table with the names and zones that the cache was made ready for."""
    [(names, zones)] = ready.layouts.values()
    return replace(state().table, names=names, zones=zones)


def test_warmed_scores_are_those_of_the_plan() -> None:
    """A cache warmed with new network data gives the same plan as none, and the plan computes no pair score itself."""
    cache = PlannerCache()
    cache.take_over(warmed(state(), OTHER_NET, POLICY))
    scores = dict(cache.scores)
    after = replace(state(), network=OTHER_NET)
    assert plan(after, POLICY, now_s=0.0, cache=cache) == plan(after, POLICY, now_s=0.0)
    assert cache.scores == scores
