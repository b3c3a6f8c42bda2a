"""Why a gang waits, in words: what is missing, where, behind whom."""

from collections.abc import Iterable

import pytest

from scoring.explain.gang import explain
from scoring.explain.waiting import why_it_waits
from scoring.model import Gang, Node, Pod
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from tests.builders import gang, node, pod, snapshot


def said(wanted: Gang, nodes: Iterable[Node], *others: Gang, pods: Iterable[Pod] = (), **fields: object) -> str:
    """What is said of `wanted` in such a cluster, at time 0."""
    state: Snapshot = snapshot(nodes, [wanted, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, Policy(), now_s=0.0)
    return why_it_waits(explain(state, made, wanted, Policy(), now_s=0.0), wanted, made, state)


A, B = node("a1", zone="a", cpu="3"), node("b1", zone="b", cpu="2")
FULL = [pod("other", node="a1", cpu="2", scheduler_name="x")]


def test_how_much_is_missing_and_where() -> None:
    """Of the zone with most room; what one member asks for."""
    assert said(gang("g", 3), [A, B], pods=FULL) == (
        "The gang needs room for 3 pods at once in one zone (cpu 1 each); zone b has room for 2, 1 too few (short "
        "of 1 cpu) and the other 1 zone no more."
    )


def test_different_members_are_not_lumped_together() -> None:
    """A ps and a worker ask for different things: only their number is said."""
    two = gang("g", members=[pod("g-0", gang="g", cpu="3"), pod("g-1", gang="g", cpu="2")])
    larger = [node("a1", zone="a", cpu="5")]
    busy = [pod("other", node="a1", cpu="1", scheduler_name="x")]
    assert said(two, larger, pods=busy).startswith("The gang needs room for 2 pods at once in one zone; zone a has")


def test_those_that_wait_ahead_are_counted() -> None:
    """The queue's order is the plan's."""
    crowd = [gang(name, 3, created_s=float(i), priority=1) for i, name in enumerate(("f1", "f2"))]
    late = gang("g", 3, created_s=9.0)
    assert said(late, [A], *crowd, pods=FULL).endswith(" 2 gangs wait ahead of it.")


def test_behind_whom() -> None:
    """Room that was there went to gangs ahead in its zones: two are named, the rest is counted."""
    ahead = [gang(f"f{i}", 1, created_s=float(i), priority=1) for i in range(3)]
    assert said(gang("g", 2, created_s=9.0), [A], *ahead) == (
        "The gang needs room for 2 pods at once in one zone (cpu 1 each); zone a has enough that is neither used nor "
        "reserved. Planned ahead of it: default/f0, default/f1 and 1 more."
    )


def test_too_few_pods() -> None:
    """How many there are."""
    assert said(gang("g", 2, min_member=3), [A]) == "The gang waits for pods: 2 of 3 pods exist."


def test_what_can_never_be() -> None:
    """What even the empty cluster has, and what would help."""
    assert said(gang("g", 4), [A, B], pods=FULL) == (
        "The gang cannot start: it needs room for 4 pods at once in one zone (cpu 1 each); even empty, zone a takes at "
        "most 3 of them. More or larger nodes, smaller requests or a lower minimum would help."
    )


def test_no_zone() -> None:
    """Its own annotation names zones that are not there."""
    text = said(gang("g", 1, options={"zones": "x"}), [A])
    assert text == "The gang may use no zone: netgang.io/zones names x; the cluster has a."


def test_a_wait_for_one_zone() -> None:
    """With zone policy `preferred`: how long it will not be spread."""
    text = said(gang("g", 4, options={"zone-policy": "preferred"}), [A, B])
    assert text.endswith("It waits for one zone; it may be spread over zones in 300 s.")


def test_a_back_off() -> None:
    """How long yet."""
    text = said(gang("g", 1), [A], backing_off_until_s={"default/g": 20.0})
    assert text == "The gang was admitted and did not come to start; it waits before the next try, for another 20 s."


@pytest.mark.parametrize("free", [[A], [A, B]])
def test_a_gang_that_does_not_wait_is_not_spoken_of(free: list[Node]) -> None:
    """An empty text."""
    assert said(gang("g", 2), free) == ""


def test_filters_that_are_not_modelled_are_not_a_lack_of_room() -> None:
    """Who waits for them is sent to kube-scheduler's words, and is not told that room is short (docs/safety.md S27)."""
    wanted = gang("g", 3)
    refused = {wanted.members[0].member_class: frozenset({A.name})}
    assert said(wanted, [A], exclusions=refused) == (
        "The gang needs room for 3 pods at once in one zone (cpu 1 each), and there is room, but filters of "
        "kube-scheduler that netgang does not know (volumes, affinity between pods, spreading, plugins) refuse nodes "
        "that it needs: the Event FailedScheduling of its pods says which."
    )
    cards = gang("g", 1, gpu=1)
    refused = {cards.members[0].member_class: frozenset({A.name})}
    assert "devices of Dynamic Resource Allocation" in said(
        cards, [A], exclusions=refused, uncounted=["nvidia.com/gpu"]
    )
