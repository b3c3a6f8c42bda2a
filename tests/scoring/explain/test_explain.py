"""What people are told about one gang."""

from dataclasses import replace

import pytest

from scoring.explain.around import Topic
from scoring.explain.gang import Explanation, explain
from scoring.explain.zones import ZoneVerdict
from scoring.model import Gang, Phase, Pod, Role, RunRef
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from tests.builders import bound, gang, mesh, node, pod, snapshot

POLICY = Policy()
TWO_ZONES = [node("a0", zone="a", cpu="2"), node("a1", zone="a", cpu="2"), node("b0", zone="b", cpu="4")]


def explained(state: Snapshot, wish: Gang, policy: Policy = POLICY) -> Explanation:
    """The explanation of a gang from a fresh plan of the snapshot."""
    return explain(state, plan(state, policy, now_s=0.0), wish, policy, now_s=0.0)


def test_an_admitted_gang() -> None:
    """Where its members go, what each zone has for it, and nothing to complain about."""
    wish = gang("g", 3)
    told = explained(snapshot(TWO_ZONES, [wish], network=mesh(TWO_ZONES)), wish)
    assert (told.gang, told.min_member, told.problems, told.waiting) == ("default/g", 3, (), None)
    assert told.admission is not None
    assert [(m.state, m.node) for m in told.members] == [
        ("planned", n) for _, n in sorted(told.admission.members.items())
    ]
    assert told.zones == (
        ZoneVerdict("a", True, 2, 3, 3, 3, 100e6, score=pytest.approx(99.0, abs=1.0)),  # type: ignore[arg-type]
        ZoneVerdict("b", True, 1, 3, 3, 3, None, score=pytest.approx(100.0)),  # type: ignore[arg-type]
    )


def test_a_gang_that_waits() -> None:
    """How much of it fits where, now and if nothing ran there, counted as if it were next in the queue."""
    wish = gang("g", 4, options={"zones": "b"})
    state = snapshot(TWO_ZONES, [wish, gang("first", 2, priority=9)], pods=[pod("x", cpu="3", node="b0")])
    told = explained(state, wish)
    assert told.waiting is not None
    assert told.waiting.reason is Reason.NO_ROOM
    assert [(z.zone, z.allowed, z.room, z.room_when_empty, z.wanted) for z in told.zones] == [
        ("a", False, 4, 4, 4),
        ("b", True, 1, 4, 4),
    ]


def test_other_runs_under_its_name() -> None:
    """Which run the gang is and which waits; and that finished pods of an earlier one are not what is missing."""
    one, other = (RunRef(name, "Job.batch", name) for name in ("night-1", "night-2"))
    member = replace(pod("a", gang="g"), run=one)
    wish = replace(gang("g", members=[member], min_member=2), later=(replace(pod("b", gang="g"), run=other),))
    [note] = [note for note in explained(snapshot(TWO_ZONES, [wish]), wish).notes if note.topic is Topic.RUN]
    assert note.text.startswith("Gang default/g is run by night-1; the pods of night-2 wait until its pods have ended.")
    wish = replace(wish, later=(), earlier=(pod("done", gang="g", phase=Phase.SUCCEEDED, node="a0"),))
    [note] = [note for note in explained(snapshot(TWO_ZONES, [wish]), wish).notes if note.topic is Topic.RUN]
    assert note.text == "finished pods of an earlier run do not count: 1"


def test_each_kind_counts_for_itself() -> None:
    """Members that fit are counted by kind: a zone without any room for a ps still has some for workers."""
    members = [
        pod("ps", role=Role.PS, gang="g", cpu="4"),
        *(pod(f"w{i}", role=Role.WORKER, gang="g") for i in range(5)),
    ]
    wish = gang("g", members=members)
    told = explained(snapshot(TWO_ZONES, [wish]), wish)
    assert [(z.zone, z.room, z.wanted) for z in told.zones] == [("a", 4, 6), ("b", 5, 6)]


def test_room_that_is_committed_is_not_free() -> None:
    """What other gangs are committed to is gone for this one; its own commitment is its own."""
    wish, other = gang("g", 4), gang("h", 2, created_s=1.0)
    held: dict[str, dict[str, str]] = {
        "default/h": {str(m.uid): "b0" for m in other.members},
        "default/g": {str(m.uid): f"a{i // 2}" for i, m in enumerate(wish.members)},
    }
    state = snapshot(TWO_ZONES, [wish, other], commitments=held)
    assert [(z.zone, z.room) for z in explained(state, wish).zones] == [("a", 4), ("b", 2)]
    assert [(z.zone, z.room) for z in explained(state, gang("i", 4)).zones] == [("a", 0), ("b", 2)]


RUNS = bound(pod("g-0", gang="g"), "a0")
STATES: dict[str, tuple[str, Pod]] = {  # state: (node told, member)
    "running": ("a0", RUNS),
    "bound": ("a0", replace(RUNS, phase=Phase.PENDING)),
    "deleting": ("a0", replace(RUNS, deleting=True)),
    "succeeded": ("a0", replace(RUNS, phase=Phase.SUCCEEDED)),
    "failed": ("a0", replace(RUNS, phase=Phase.FAILED)),
}


@pytest.mark.parametrize("state", STATES)
def test_states_of_members(state: str) -> None:
    """Each member is said to be what it is, with the node it is on."""
    where, member = STATES[state]
    wish = gang("g", members=[member])
    told = explained(snapshot(TWO_ZONES, [wish]), wish)
    assert [(m.pod, m.state, m.node) for m in told.members] == [("g-0", state, where)]


def test_a_member_without_a_place_is_pending() -> None:
    """Neither bound nor planned."""
    wish = gang("g", 2, cpu="4")
    assert [m.state for m in explained(snapshot(TWO_ZONES, [wish]), wish).members] == ["pending", "pending"]


def test_a_gang_that_wants_nothing_more() -> None:
    """All members run: the zones are shown, nothing is wanted of them."""
    wish = gang("g", members=[RUNS])
    told = explained(snapshot(TWO_ZONES, [wish]), wish)
    assert [(z.room, z.wanted) for z in told.zones] == [(0, 0), (0, 0)]
    assert (told.admission, told.waiting) == (None, None)


NEAR = {  # case: (problems, near, configured distances)
    "a zone": (0, "a", ()),
    "a measured endpoint": (0, "a0", ()),
    "a configured place": (0, "office", ((("office", "b"), 3.0),)),
    "a place nobody knows": (1, "office", ()),
}


@pytest.mark.parametrize(("want", "near", "configured"), NEAR.values(), ids=NEAR)
def test_near_that_decides_nothing_is_said(want: int, near: str, configured: tuple) -> None:
    """`near` names a zone, an endpoint or a configured place; another name is told, never ignored in silence."""
    wish = gang("g", 2, options={"near": near, "selection": "pack"})
    state = snapshot(TWO_ZONES, [wish], network=mesh(TWO_ZONES))
    problems = explained(state, wish, replace(POLICY, zone_distance_ms=configured)).problems
    assert want == len(problems)
    assert all("netgang.io/near: 'office' is no zone" in problem for problem in problems)


def test_annotations_that_were_not_understood() -> None:
    """Problems with annotations are part of the explanation."""
    wish = gang("g", 1, options={"selection": "best"})
    assert ["netgang.io/selection" in problem for problem in explained(snapshot(TWO_ZONES, [wish]), wish).problems] == [
        True
    ]
