"""What more room does to a plan, and, where it does not only help, the counter-example."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.plan import plan
from tests.builders import gang, node, snapshot
from tests.scoring.plan.planned import POLICY, equal_gangs


def admitted(
    cpus: Sequence[int], shapes: Sequence[tuple[int, int]], *, zones: str = "a", **fields: object
) -> list[bool]:
    """Whether each gang, in the queue's order, is admitted: members of one CPU each on nodes with these CPUs."""
    nodes = [node(f"n{i}", zone=zones[i % len(zones)], cpu=str(cpu)) for i, cpu in enumerate(cpus)]
    gangs = [gang(f"g{i}", size, min_member=least, created_s=float(i)) for i, (least, size) in enumerate(shapes)]
    outcome = plan(snapshot(nodes, gangs, **fields), POLICY, now_s=0.0)  # type: ignore[arg-type]
    gangs.sort(key=lambda g: (-g.min_member, g.created_s))  # members alike: more of them weigh more
    return [g.key in outcome.admitted for g in gangs]


@settings(deadline=None)
@given(equal_gangs(), st.data())
def test_more_room_never_unplaces_the_first_gang(
    case: tuple[list[int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    """One kind of members, several zones: with more CPU anywhere the gang that is first stays admitted."""
    cpus, shapes = case
    more = [cpu + data.draw(st.integers(0, 2)) for cpu in cpus]
    before, after = (admitted(some, shapes, zones="ab")[0] for some in (cpus, more))
    assert after >= before


@settings(deadline=None)
@given(equal_gangs(), st.data())
def test_more_room_only_helps_in_the_order_of_the_queue(
    case: tuple[list[int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    """Equal members, one zone: with more CPU a gang is lost only if one ahead of it is won."""
    cpus, shapes = case
    more = [cpu + data.draw(st.integers(0, 2)) for cpu in cpus]
    assert admitted(more, shapes) >= admitted(cpus, shapes)  # the first difference is a gain


COUNTER_EXAMPLES = {  # case: (CPUs of nodes before, after, (minimum, size) of gangs, admitted before, after)
    "a gang ahead fits now": ([3], [4], [(4, 4), (3, 3)], [False, True], [True, False]),
    "a gang ahead takes more than its minimum": (
        [3],
        [4],
        [(4, 4), (1, 3), (1, 1)],
        [False, True, False],
        [True, False, False],
    ),
}


@pytest.mark.parametrize(("before", "after", "shapes", "then", "now"), COUNTER_EXAMPLES.values(), ids=COUNTER_EXAMPLES)
def test_more_room_can_unplace_a_gang_behind(
    before: list[int], after: list[int], shapes: list[tuple[int, int]], then: list[bool], now: list[bool]
) -> None:
    """The counter-examples: room that a gang ahead in the queue can use is its own, whoever used it before."""
    assert admitted(before, shapes) == then
    assert admitted(after, shapes) == now
