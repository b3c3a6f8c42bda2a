"""Places of the previous plan: kept all together, and one by one only where something speaks against it."""

from dataclasses import replace

import pytest

from scoring.ids import NodeName
from scoring.model.policy import Policy
from scoring.model.snapshot import Commitment, Snapshot
from scoring.plan import PlannerCache, plan
from tests.builders import gang, node, pod, snapshot

POLICY = Policy()
NODES = [node(f"{zone}{i}", zone=zone, cpu="4") for zone in "ab" for i in range(3)]
GANGS = [gang(f"g{i}", 3, cpu="1", created_s=float(i)) for i in range(6)]
STATE = snapshot(NODES, GANGS)


def used(state: Snapshot, **cpu: int) -> Snapshot:
    """The snapshot with foreign pods of so many CPUs on these nodes."""
    table = state.table
    taken = state.used.copy()
    for name, number in cpu.items():
        taken[table.index[NodeName(name)], table.axis.index(next(r for r in table.axis if r == "cpu"))] += number * 1000
    return replace(state, version=state.version + 1, used=taken)


def test_what_nothing_speaks_against_is_the_same_object() -> None:
    """Nothing changed: every admission of the new plan is the former one itself."""
    first = plan(STATE, POLICY, now_s=0.0)
    again = plan(STATE, POLICY, now_s=0.0, previous=first)
    assert again == first
    assert all(again.admitted[key] is first.admitted[key] for key in first.admitted)


def test_only_the_rank_changes_when_a_gang_ahead_goes() -> None:
    """Places stay, ranks move up."""
    first = plan(STATE, POLICY, now_s=0.0)
    fewer = replace(STATE, version=2, gangs={g.key: g for g in GANGS[1:]})
    then = plan(fewer, POLICY, now_s=0.0, previous=first)
    for key, admission in then.admitted.items():
        assert admission == replace(first.admitted[key], rank=first.admitted[key].rank - 1)


def test_a_place_that_was_committed_is_not_any_more() -> None:
    """After a lapse the gang is planned where it was, and told so without the commitment."""
    first = plan(STATE, POLICY, now_s=0.0)
    key = GANGS[2].key
    held = replace(STATE, commitments={key: Commitment(key, first.admitted[key].members)})
    during = plan(held, POLICY, now_s=0.0, previous=first)
    after = plan(STATE, POLICY, now_s=0.0, previous=during)
    assert during.admitted[key].committed
    assert not after.admitted[key].committed
    assert after.admitted[key].members == first.admitted[key].members


@pytest.mark.parametrize("name", [str(one.name) for one in NODES])
def test_a_full_node_moves_those_on_it_and_nobody_else(name: str) -> None:
    """A foreign pod fills a node: gangs with a member there move or wait, all others keep what they had."""
    cache = PlannerCache()
    few = replace(STATE, gangs={g.key: g for g in GANGS[:4]})
    first = plan(few, POLICY, now_s=0.0, cache=cache)
    then = plan(used(few, **{name: 4}), POLICY, now_s=0.0, cache=cache, previous=first)
    assert then == plan(used(few, **{name: 4}), POLICY, now_s=0.0, previous=first)
    for key, admission in first.admitted.items():
        assert name in admission.members.values() or then.admitted[key] is admission
    assert name not in then.node_of.values()


def test_a_newcomer_ahead_takes_a_kept_place() -> None:
    """All places fit together, yet the gang that comes first is given the room of one that was there: it must move."""
    nodes = [node("a0", zone="a", cpu="3"), node("b0", zone="b", cpu="3")]
    state = snapshot(nodes, [gang("g0", 3, cpu="1", created_s=1.0)])
    first = plan(state, POLICY, now_s=0.0)
    urgent = gang("urgent", 3, cpu="1", created_s=2.0, priority=5)
    both = replace(state, version=2, gangs={**state.gangs, urgent.key: urgent})
    then = plan(both, POLICY, now_s=0.0, previous=first)
    assert len(then.admitted) == 2
    assert len(set(then.node_of.values())) == 2


def test_a_refusal_takes_the_place() -> None:
    """A node that in-tree filters refused to the gang's class since is not kept, though there is room."""
    one = gang("g", members=[pod("g-0", gang="g", cpu="1")])
    state = snapshot(NODES, [one])
    first = plan(state, POLICY, now_s=0.0)
    at = first.node_of[one.members[0].uid]
    refused = replace(state, version=2, exclusions={one.members[0].member_class: frozenset({at})})
    assert plan(refused, POLICY, now_s=0.0, previous=first).node_of[one.members[0].uid] != at
