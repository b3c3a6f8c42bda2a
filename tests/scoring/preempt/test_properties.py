"""What holds for every decision of who leaves for whom, compared with all subsets on small clusters."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring.model import Gang
from scoring.model.policy import Policy, Preempting, Selection
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.preempt import Preemption, SearchLimits, preemption
from tests.builders import gang, node, pod, snapshot

NOW_S = 100.0
ON = Policy(preemption=Preempting.GANGS, selection=Selection.SUBSET)
NODES = tuple(node(f"n{i}", cpu="4", zone="ab"[i % 2]) for i in range(4))


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Four nodes in two zones, up to five gangs that run there, one or two that wait, some of the room free."""
    free = {one.name: 4 for one in NODES}
    gangs: list[Gang] = []
    for number in range(draw(st.integers(1, 5))):
        cpu, priority = draw(st.integers(1, 3)), draw(st.integers(0, 3))
        name, members = f"g{number}", []
        for index in range(draw(st.integers(1, 3))):
            where = draw(st.sampled_from(NODES)).name
            if free[where] >= cpu:
                free[where] -= cpu
                at_s, deleting = float(draw(st.integers(0, 2))), draw(st.integers(0, 9)) == 0
                one = pod(f"{name}-{index}", gang=name, cpu=str(cpu), node=where, priority=priority, scheduled_s=at_s)
                members.append(replace(one, deleting=deleting))
        if members:
            options = {"preemptible": "false"} if draw(st.integers(0, 9)) == 0 else {}
            gangs.append(gang(name, members=members, priority=priority, options=options))
    for number in range(draw(st.integers(1, 2))):
        size, cpu = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        gangs.append(gang(f"w{number}", size, cpu=str(cpu), priority=draw(st.integers(0, 4))))
    return snapshot(NODES, gangs)


def decided(state: Snapshot, limits: SearchLimits = SearchLimits()) -> Preemption | None:
    return preemption(state, plan(state, ON, now_s=NOW_S), ON, now_s=NOW_S, limits=limits)


def without(state: Snapshot, gone: tuple[str, ...], waits: Gang) -> bool:
    """Whether the gang that waits starts in a cluster in which these gangs, and pods on their way out, never were."""
    left = [
        replace(one, members=tuple(pod for pod in one.members if not pod.deleting))
        for key, one in state.gangs.items()
        if key not in gone and (key == waits.key or not one.pending)
    ]
    admitted = plan(state, ON, now_s=NOW_S).admitted.values()
    held = [
        replace(pod, node=where, group=None)
        for one in admitted
        for pod in state.gangs[one.gang].pending
        if (where := one.members.get(pod.uid)) is not None
    ]
    return waits.key in plan(snapshot(NODES, left, pods=held), ON, now_s=NOW_S).admitted


def able(state: Snapshot, waits: Gang) -> list[Gang]:
    return [
        one
        for one in state.gangs.values()
        if one.priority < waits.priority
        and any(pod.node for pod in one.members)
        and not any(pod.deleting for pod in one.members)
        and not one.options
    ]


def key_of(gangs: tuple[Gang, ...]) -> tuple[object, ...]:
    """Which set one would rather see go, as docs/how-to/preemption-and-suspension.md says it."""
    return (
        len(gangs),
        sorted((one.priority for one in gangs), reverse=True),
        sum(len(one.members) for one in gangs),
        sorted(-max(pod.scheduled_s or 0.0 for pod in one.members) for one in gangs),
        sorted(one.key for one in gangs),
    )


@pytest.mark.slow
@given(clusters())
def test_it_is_the_smallest_of_all_sufficient_sets(state: Snapshot) -> None:
    """For the first in the queue for whom any set suffices, the best of all subsets; for none when none does."""
    waiting = sorted(plan(state, ON, now_s=NOW_S).waiting.values(), key=lambda one: one.rank)
    expected = None
    for one in waiting:
        waits = state.gangs[one.gang]
        if not waits.pending or without(state, (), waits):
            continue
        others = able(state, waits)
        sufficient = [
            some
            for size in range(1, len(others) + 1)
            for some in combinations(others, size)
            if without(state, tuple(gang.key for gang in some), waits)
        ]
        if sufficient:
            best = min(sufficient, key=key_of)
            expected = (waits.key, sorted(gang.key for gang in best))
            break
    found = decided(state)
    assert expected == (None if found is None else (found.gang, list(found.victims)))


@given(clusters(), st.sampled_from([SearchLimits(), SearchLimits(sets=0), SearchLimits(sets=4, placed=2)]))
def test_whole_gangs_of_lower_priority_and_none_too_many(state: Snapshot, limits: SearchLimits) -> None:
    """Whatever is spent on it: never a part of a gang, never an equal, always enough; twice the same."""
    found = decided(state, limits)
    assert found == decided(state, limits)
    if found is None:
        return
    waits = state.gangs[found.gang]
    leaving = [state.gangs[key] for key in found.victims]
    assert {pod.uid for one in leaving for pod in one.members if pod.node} == found.pods
    assert all(one.priority < waits.priority for one in leaving)
    assert without(state, found.victims, waits)
    assert found.assignment.keys() == {pod.uid for pod in waits.pending}
    assert not without(state, (), waits)
