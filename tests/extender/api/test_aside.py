"""The cache for suppositions that is kept from question to question: it says what a new one would say."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.what_if import runner
from extender.api.what_if.runner import Aside
from scoring.explain.unblock import unblock
from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.network.measurement import Metric
from scoring.plan import PlannerCache, plan
from scoring.what_if.changes import (
    AddCapacity,
    AddNodes,
    Change,
    ClockAdvances,
    RemoveNodes,
    SetLink,
    SetOption,
    SetShare,
)
from scoring.what_if.draft import Situation
from scoring.what_if.suppose import Supposed, what_if
from tests.builders import gang, mesh, node, snapshot
from tests.example_counts import RARE
from tests.scoring.plan.changing import world

POLICY = Policy(queue=QueuePolicy(starve_limit_s=300.0))


@pytest.mark.slow
@RARE
@given(st.integers(0, 2**32), st.booleans())
def test_suppositions_are_as_with_a_cache_of_their_own(seed: int, measured: bool) -> None:
    rng, aside, cache, before, links = random.Random(seed), Aside(), PlannerCache(), None, None
    for number, state in enumerate(world(rng)):
        if measured and number % 4 == 0:
            links = network(rng, state, number)
        at = replace(state, network=links) if links is not None else state
        base = Situation(at, POLICY, 1000.0 + number)
        before = made = plan(at, POLICY, now_s=base.now_s, previous=before, cache=cache)
        for changes in supposed(rng, at):
            found = answer(aside, cache, what_if, base, made, changes)
            assert said(found) == said(what_if(base, made, changes))
        for key in sorted(made.waiting)[:1]:
            ways = answer(aside, cache, unblock, base, made, at.gangs[key])
            assert ways == unblock(base, made, at.gangs[key])


def answer(aside: Aside, cache: PlannerCache, question: Callable[..., Any], *what: Any) -> Any:
    return aside.ask(cache.borrowed(), lambda kept: question(*what, cache=kept))


def network(rng: random.Random, state: Snapshot, number: int) -> NetworkMatrix:
    """Measurements between the nodes that there are, all alike but for one of them."""
    far = rng.choice(state.table.names)
    return replace(mesh(state.table.names, bad={far: {"delay_ms": 9.0}}), version=100 + number)


def supposed(rng: random.Random, state: Snapshot) -> list[Sequence[Change]]:
    """Two suppositions of each of two kinds: what differs between them must not be mistaken."""
    names, key = list(state.table.names), rng.choice(list(state.gangs))
    kinds: list[Any] = [
        lambda: AddCapacity(ZoneName("a"), ResourceName("cpu"), rng.randint(1, 30)),
        lambda: AddNodes(ZoneName(rng.choice("ab")), rng.randint(1, 3), like=NodeName(names[0])),
        lambda: RemoveNodes((NodeName(rng.choice(names)),)),
        lambda: ClockAdvances(1500.0 + rng.randint(0, 3000)),
        lambda: SetOption(GangKey(key), "zones", rng.choice("abc")),
        lambda: SetShare(Namespace("default"), rng.choice([0.1, 0.3, 0.7])),
    ]
    if Metric.DELAY in state.network.endpoint_of:
        one, other = (EndpointId(name) for name in rng.sample(names, 2))
        kinds.append(lambda: SetLink(one, other, Metric.DELAY, float(rng.randint(1, 40))))
    return [[make()] for make in rng.sample(kinds, 2) for _ in range(2)]


def said(found: Any) -> Any:
    if not isinstance(found, Supposed):
        return found
    return msgspec.structs.replace(found.plan, version=0, network_version=0), found.difference


def asked(state: Snapshot, aside: Aside, cache: PlannerCache) -> PlannerCache:
    base, made = Situation(state, POLICY, 0.0), plan(state, POLICY, now_s=0.0, cache=cache)

    def question(lent: PlannerCache) -> PlannerCache:
        what_if(base, made, [ClockAdvances(1.0)], cache=lent)
        return lent

    return aside.ask(cache.borrowed(), question)


def test_one_cache_answers_until_it_is_forgotten() -> None:
    nodes = [node(f"a{i}", zone="a", cpu="2") for i in range(3)]
    state = replace(snapshot(nodes, [gang("g", 2)]), network=mesh(["a0", "a1"]))
    aside, cache = Aside(), PlannerCache()
    plan(state, POLICY, now_s=0.0, cache=cache)
    first = asked(state, aside, cache)
    kept = dict(cache.scores)
    again = asked(state, aside, cache)
    assert again is first
    assert again is not cache
    assert kept
    assert all(again.scores[key] is links for key, links in kept.items())
    assert (cache.scores, cache.suppositions) == (kept, 0)
    aside.forget()
    assert asked(state, aside, cache) is not first


def test_a_cache_that_was_asked_often_makes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_MOST_SUPPOSITIONS", 3)
    state, aside = snapshot([node("a1", zone="a")], [gang("g", 2)]), Aside()
    caches = [asked(state, aside, PlannerCache()) for _ in range(7)]
    assert [len({id(one) for one in caches[:count]}) for count in (3, 6, 7)] == [1, 2, 3]


def test_a_cache_whose_question_failed_is_not_used_again() -> None:
    """It may have been left in the middle of a change."""
    state, aside = snapshot([node("a1", zone="a")], [gang("g", 2)]), Aside()
    first = asked(state, aside, PlannerCache())

    def fails(_: PlannerCache) -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError, match="a defect"):
        aside.ask(PlannerCache().borrowed(), fails)
    assert asked(state, aside, PlannerCache()) is not first


def test_nodes_that_were_only_supposed_are_forgotten() -> None:
    nodes = [node(f"a{i}", zone="a", cpu="2") for i in range(4)]
    state, cache = snapshot(nodes, [gang("g", 9)]), PlannerCache()
    base, made = Situation(state, POLICY, 0.0), plan(state, POLICY, now_s=0.0)
    for number in range(200):
        what_if(base, made, [RemoveNodes((NodeName(f"a{number % 4}"),))], cache=cache)
        assert len(cache.masks) <= 64
