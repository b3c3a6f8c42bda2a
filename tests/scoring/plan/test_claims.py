"""Room that others leave for a gang: no gang behind it is given it meanwhile, whatever it was freed by."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from scoring import GangKey, NodeName
from scoring.explain.gang import explain, why_it_waits
from scoring.explain.queue_report import report
from scoring.model import Gang
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Reservation, Snapshot
from scoring.plan import Plan, plan
from scoring.queue.states import JobState
from tests.builders import gang, node, pod, snapshot

NOW_S = 100.0
NODES = [node(f"n{i}", cpu="4") for i in range(2)]
BIG = gang("big", 2, cpu="4", priority=5)
PLACES = {BIG.members[0].uid: NodeName("n0"), BIG.members[1].uid: NodeName("n1")}
CLAIM = Reservation(BIG.key, PLACES, (GangKey("default/left"),))
SMALL = gang("small", 1, cpu="4")
LATE = pod("late", cpu="4", node="n1", priority=0)
"""A pod of one that leaves; it is still there."""


def state(*gangs: Gang, claim: Reservation | None = CLAIM, **fields: object) -> Snapshot:
    """BIG waits for n0 and n1; n1 is not free yet."""
    claims = {claim.gang: claim} if claim is not None else {}
    return snapshot(NODES, [BIG, *gangs], pods=[LATE], claims=claims, **fields)  # type: ignore[arg-type]


def planned(snapshot: Snapshot, policy: Policy = Policy(), previous: Plan | None = None) -> Plan:
    return plan(snapshot, policy, now_s=NOW_S, previous=previous)


def test_what_is_free_already_is_kept() -> None:
    """A small gang would fit n0; with the claim it is not admitted there, and its detail names the other gang."""
    assert SMALL.key in planned(state(SMALL, claim=None)).admitted
    made = planned(state(SMALL))
    waiting = made.waiting[SMALL.key]
    assert (waiting.reason, made.admitted) == (Reason.RESERVED, {})
    assert waiting.detail == "2 nodes of zone a are held for default/big, for which others leave"
    assert made.waiting[BIG.key].detail.endswith("default/left made room for it, or are about to")
    assert made.reservations[BIG.key].nodes == {"n0", "n1"}


def test_a_place_that_was_planned_for_a_gang_behind_is_taken_back() -> None:
    before = planned(state(SMALL, claim=None))
    assert SMALL.key in planned(state(SMALL), previous=before).waiting


def test_only_what_it_needs_is_kept() -> None:
    """The claim is for one CPU of each node; the rest of n0 is for all."""
    thin = gang("big", 2, cpu="1", priority=5)
    full = [pod("x", cpu="4", node="n1")]
    claim = replace(CLAIM, assignment={one.uid: NodeName(f"n{i}") for i, one in enumerate(thin.members)})
    low = pod("low", cpu="1", node="n0")
    small = [gang(f"small{i}", 1, cpu="1") for i in range(3)]
    keep = gang("keep", 1, cpu="3", created_s=1.0)
    apart = replace(thin, options=(("zones", "b"),))
    made = planned(snapshot(NODES, [apart, *small], pods=[*full, low], claims={thin.key: claim}))
    assert len(made.admitted) == 3  # it may not use the zone at all, so that nothing is kept for it there
    waits = replace(thin, members=(*thin.members, pod("big-2", gang="big", cpu="4")), min_member=3)
    made = planned(snapshot(NODES, [waits, keep, *small], pods=full, claims={thin.key: claim}))
    assert made.waiting[thin.key].reason is Reason.NO_ROOM
    assert {key.partition("/")[2] for key in made.admitted} == {"small0", "small1", "small2"}


def test_it_starts_as_soon_as_the_room_is_there() -> None:
    """Others have left: it is first, though a heavier, older one of its priority waits too."""
    older = gang("older", 2, cpu="4", priority=5, created_s=-1.0)
    free = snapshot(NODES, [BIG, older], claims={BIG.key: CLAIM})
    assert list(planned(free).admitted) == [BIG.key]
    assert list(planned(snapshot(NODES, [BIG, older])).admitted) == [older.key]


@pytest.mark.parametrize("queue", [QueuePolicy(order=order) for order in Order], ids=[str(order) for order in Order])
def test_it_is_first_within_its_priority_only(queue: QueuePolicy) -> None:
    """A gang of higher priority is planned before it and may take the room."""
    higher = gang("higher", 2, cpu="4", priority=6, created_s=5.0)
    older = gang("older", 2, cpu="4", priority=5, created_s=-5.0)
    made = planned(snapshot(NODES, [BIG, older, higher], claims={BIG.key: CLAIM}), Policy(queue=queue))
    ranks = {key.partition("/")[2]: made.waiting[key].rank for key in made.waiting}
    assert (list(made.admitted), ranks) == ([higher.key], {"big": 2, "older": 3})


def test_it_does_not_starve_for_that() -> None:
    """Being first is no state of its own: the queue still says WAITING, and which leave for it."""
    young = replace(BIG, members=tuple(replace(one, created_s=NOW_S - 1.0) for one in BIG.members))
    now = snapshot(NODES, [young], pods=[LATE], claims={BIG.key: CLAIM})
    [entry] = report(now, planned(now), Policy(), now_s=NOW_S).gangs
    assert (entry.state, entry.rank) == (JobState.WAITING, 1)
    assert entry.makes_room == ("default/left",)


def test_a_claim_of_one_that_cannot_start_keeps_nothing() -> None:
    now = snapshot(NODES, [replace(BIG, min_member=3), SMALL], pods=[LATE], claims={BIG.key: CLAIM})
    assert SMALL.key in planned(now).admitted


def test_the_event_names_those_that_leave() -> None:
    now = state()
    made = planned(now)
    said = why_it_waits(explain(now, made, BIG, Policy(), now_s=0.0), now)
    assert said.endswith("default/left leaves for it, and the room is reserved.")
    unnamed = state(claim=replace(CLAIM, givers=()))
    made = planned(unnamed)
    assert "leave" not in why_it_waits(explain(unnamed, made, BIG, Policy(), now_s=0.0), unnamed)


def test_a_claim_is_a_change_of_the_cluster() -> None:
    """Setting, replacing and clearing one makes a new snapshot; doing it twice does not."""
    cache = ClusterCache()
    versions = [cache.version]
    for claim in (CLAIM, CLAIM, replace(CLAIM, givers=()), None, None):
        if claim is not None:
            cache.set_claim(claim.gang, claim)
        else:
            cache.set_claim(CLAIM.gang, None)
        versions.append(cache.version)
    assert [after - before for before, after in pairwise(versions)] == [1, 0, 1, 1, 0]
    assert cache.snapshot().claims == {}
