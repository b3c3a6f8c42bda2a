"""Sort keys of a long queue: equal loads share one, however often plans of different clusters take turns."""

from scoring.model import Gang
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable
from scoring.plan import Memo, plan
from scoring.plan.ask import Ask, ask_of
from scoring.plan.standings import Standings
from tests.builders import gang, node, snapshot

POLICY = Policy()
WITH = NodeTable.of([node(f"n{i}") for i in range(3)])
WITHOUT = NodeTable.of([node(f"n{i}") for i in range(2)])


def asks(*gangs: Gang) -> list[Ask]:
    """What they ask for."""
    return [ask_of(one, POLICY, lost=frozenset()) for one in gangs]


def test_equal_loads_share_a_key_when_the_cluster_changes_to_and_fro() -> None:
    """A sort compares shared parts of keys by identity; another object of the same weight is compared by fractions."""
    memo, standings = Memo(), Standings()
    first, second = asks(gang("a", 2, cpu="3")), asks(gang("b", 2, cpu="3"))
    standings.renew(WITH, POLICY, memo.number)
    [one] = standings.keys(first, 0.0)
    standings.renew(WITHOUT, POLICY, memo.number)
    [between] = standings.keys(second, 0.0)
    standings.renew(WITH, POLICY, memo.number)
    [two] = standings.keys(second, 0.0)
    assert one is not None
    assert two is not None
    assert between is not None
    shared = [(a, b) for a, b in zip(one, two, strict=True) if a is b]
    assert one[-3] is two[-3], "the exact weight"
    assert len(shared) == len(one) - 1, "all but the name"
    assert between[-3] is not two[-3]


def test_totals_of_long_ago_are_forgotten() -> None:
    """A cluster whose nodes come and go all day is remembered as it was a few times."""
    memo, standings = Memo(), Standings()
    for number in range(1, 30):
        table = NodeTable.of([node(f"n{i}") for i in range(number)])
        standings.renew(table, POLICY, memo.number)
        standings.keys(asks(gang("a", 2)), 0.0)
    assert len(standings._scales) <= 4


def test_the_order_follows_the_totals_of_now() -> None:
    """Which of two gangs is heavier depends on what the cluster has most of; back and forth it is always right."""
    cpu_rich = [node(f"n{i}", cpu="64", memory="1Gi") for i in range(2)]
    memory_rich = [node(f"n{i}", cpu="2", memory="512Gi") for i in range(2)]
    waits = [gang("cpu", 1, cpu="2", memory="1Mi"), gang("memory", 1, cpu="1m", memory="1Gi")]
    memo = Memo()
    for round_ in range(3):
        for nodes in (cpu_rich, memory_rich):
            state = snapshot(nodes, waits, version=round_ + 1)
            found = plan(state, POLICY, now_s=0.0, memo=memo)
            assert found == plan(state, POLICY, now_s=0.0)
            first = min(found.admitted.values(), key=lambda one: one.rank).gang
            assert first == ("default/cpu" if nodes is cpu_rich else "default/memory")
