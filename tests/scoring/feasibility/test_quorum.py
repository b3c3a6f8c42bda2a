"""Quorum and the minimum set: who must be on nodes for a gang to run (docs/safety.md S8, S9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, PodUid
from scoring.feasibility.quorum import NO_MEMBERS, Quorum, Quorums, minimum_members, quorum_of
from scoring.model import Gang, Phase, Pod, Role
from tests.builders import bound, gang, pod


def ps(name: str = "ps-0", **fields: object) -> Pod:
    return pod(name, role=Role.PS, index=0, **fields)  # type: ignore[arg-type]


def worker(index: int | None, **fields: object) -> Pod:
    return pod(f"w-{index}", role=Role.WORKER, index=index, **fields)  # type: ignore[arg-type]


def uids(*pods: Pod) -> frozenset[PodUid]:
    return frozenset(p.uid for p in pods)


CHIEF = pod("chief-0", role=Role.CHIEF, index=0)
EVALUATOR = pod("evaluator-0", created_s=-1.0)
W = [worker(i) for i in range(12)]

MINIMUM = {  # case: (names expected, min_member, members)
    "workers by ascending index": (["w-0", "w-1"], 2, [W[3], W[1], W[0]]),
    "index is a number, not a text": (["w-2", "w-10"], 2, [W[11], W[10], W[2]]),
    "ps and chief before any worker": (["chief-0", "ps-0", "w-0"], 3, [W[1], W[0], ps(), CHIEF]),
    "every ps, even beyond min": (["ps-0", "ps-1"], 1, [W[0], ps(), ps("ps-1")]),
    "others only after all workers": (["w-0", "w-1", "evaluator-0"], 3, [EVALUATOR, W[0], W[1]]),
    "a worker without index is last of its kind": (["w-4", "w-None"], 2, [worker(None), W[4]]),
    "no roles: oldest first": (["b", "c"], 2, [pod("a", created_s=3), pod("b", created_s=1), pod("c", created_s=2)]),
    "no roles: equal age by name, not by index": (["a", "b"], 2, [pod("b", index=0), pod("a", index=1)]),
    "no roles: placed ones count already": (["z", "a"], 2, [pod("a"), pod("b"), pod("z", node="n1")]),
    "roles: a placed worker beyond does not stand in": (["w-0", "w-1"], 2, [W[0], W[1], worker(2, node="n1")]),
    "roles: a succeeded worker counts for ever": (["w-2", "w-0"], 2, [W[0], W[1], worker(2, phase=Phase.SUCCEEDED)]),
    "failed ones cannot be waited for": (["w-1", "w-2"], 2, [worker(0, phase=Phase.FAILED), W[1], W[2]]),
    "deleting ones cannot be waited for": (["w-1", "w-2"], 2, [worker(0, deleting=True), W[1], W[2]]),
    "fewer than min: all there are": (["w-0"], 3, [W[0]]),
    "nobody": ([], 3, []),
}


@pytest.mark.parametrize(("want", "min_member", "members"), MINIMUM.values(), ids=MINIMUM)
def test_minimum_set(want: list[str], min_member: int, members: list[Pod]) -> None:
    """The minimum set holds every ps and chief, then workers by index, then others by age (docs/safety.md S9)."""
    assert want == [p.name for p in minimum_members(gang("g", members=members, min_member=min_member))]


COUNTS = {  # case: (live, placed, finished) of a gang of this one pod with min_member 1
    "pending": (True, False, False, pod("p")),
    "bound, not running yet": (True, True, False, pod("p", node="n1", phase=Phase.PENDING)),
    "running": (True, True, False, pod("p", node="n1")),
    "succeeded": (True, True, True, pod("p", node="n1", phase=Phase.SUCCEEDED)),
    "succeeded and being deleted": (True, True, True, pod("p", node="n1", phase=Phase.SUCCEEDED, deleting=True)),
    "succeeded on a lost node": (True, True, True, pod("p", node="lost", phase=Phase.SUCCEEDED)),
    "failed on its node": (False, False, False, pod("p", node="n1", phase=Phase.FAILED)),
    "failed before it had one": (False, False, False, pod("p", phase=Phase.FAILED)),
    "running, being deleted": (False, False, False, pod("p", node="n1", deleting=True)),
    "pending, being deleted": (False, False, False, pod("p", deleting=True)),
    "on a lost node": (False, False, False, pod("p", node="lost")),
    "its kubelet is silent": (True, True, False, pod("p", node="n1", phase=Phase.UNKNOWN)),
}


@pytest.mark.parametrize(("live", "placed", "finished", "member"), COUNTS.values(), ids=COUNTS)
def test_who_counts(live: bool, placed: bool, finished: bool, member: Pod) -> None:
    """Succeeded counts without end; Failed, deleting and on a lost node does not (docs/safety.md S8)."""
    lost = frozenset({NodeName("lost")})
    one = gang("g", members=[member])
    quorum = quorum_of(one, lost_nodes=lost)
    me = frozenset({member.uid})
    assert (live, placed, finished) == (me == quorum.live, me == quorum.placed, me == quorum.finished)
    assert (not live) == quorum.incomplete
    assert ({} if member.node is None else {member.uid: member.node}) == quorum.bound_to


DEAD = {"node": "n1", "phase": Phase.FAILED}
LOOKS_STARTED = {  # case: members of a gang of two that was never whole, with what once was taken for a proof
    "a pod younger than the first Binding": [bound(pod("a", scheduled_s=5.0), "n1"), pod("b", created_s=9.0)],
    "a dead pod in the place of its successor": [
        bound(W[0], "n1"), worker(1, **DEAD), replace(W[1], uid=PodUid("next"))],
    "two pods that had a node, one after the other": [pod("a", **DEAD), pod("b", node="n1"), pod("c")],  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("members", LOOKS_STARTED.values(), ids=LOOKS_STARTED)
def test_nothing_but_our_own_evidence_says_that_a_gang_started(members: list[Pod]) -> None:
    """Creation times and remains are no evidence: only what the gang's record says counts (docs/safety.md S23)."""
    one = gang("g", members=members, min_member=2)
    assert not quorum_of(one).started
    assert quorum_of(replace(one, started=True)).started


REACHED = {  # case: (expected, min_member, the members that are there; of ps-0, w-0, w-1, w-2)
    "minimum set": (True, 3, [ps(), W[0], W[1]]),
    "all": (True, 3, [ps(), W[0], W[1], W[2]]),
    "enough, but not the ps": (False, 3, [W[0], W[1], W[2]]),
    "enough, but not worker 0": (False, 3, [ps(), W[1], W[2]]),
    "too few": (False, 3, [ps(), W[0]]),
    "a stranger does not count": (False, 3, [ps(), W[0], W[7]]),
    "every ps is needed beyond min": (False, 1, [W[0], W[1]]),
}


@pytest.mark.parametrize(("want", "min_member", "there"), REACHED.values(), ids=REACHED)
def test_quorum_with_roles_is_a_set(want: bool, min_member: int, there: list[Pod]) -> None:
    """Quorum means the minimum set, not a count, where roles are known (docs/safety.md S9)."""
    quorum = quorum_of(gang("g", members=[ps(), *W[:3]], min_member=min_member))
    assert want == quorum.reached_by(uids(*there))


def test_a_member_that_has_gone_counts_nowhere() -> None:
    with_roles = quorum_of(gang("g", members=[bound(ps(), "n1"), W[0]]))
    gone = with_roles.without(ps().uid)
    assert gone.required == gone.live == uids(W[0])
    assert gone.placed == frozenset()
    assert quorum_of(gang("g", 2)).without(PodUid("uid-default-g-0")).required is None


def test_no_members_never_reach_quorum() -> None:
    assert NO_MEMBERS.incomplete
    assert not NO_MEMBERS.reached_by({PodUid("anybody")})


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    members = [
        pod(
            f"p-{i}",
            role=draw(st.sampled_from(Role)),
            index=draw(st.none() | st.integers(0, 3)),
            created_s=draw(st.sampled_from([0.0, 1.0])),
            node=draw(st.sampled_from([None, "n1", "lost"])),
            phase=draw(st.sampled_from(Phase)),
            deleting=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 6)))
    ]
    return gang("g", members=members, min_member=draw(st.integers(1, 7)))


@given(gangs(), st.randoms(use_true_random=False), st.sampled_from([frozenset(), frozenset({NodeName("lost")})]))
def test_quorum_properties(some: Gang, chance: object, lost: frozenset[NodeName]) -> None:
    """The minimum set suffices; what is required and placed is live; the order of the input is irrelevant."""
    quorum = quorum_of(some, lost_nodes=lost)
    minimum = uids(*minimum_members(some, lost_nodes=lost))
    shuffled = list(some.members)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert quorum == quorum_of(replace(some, members=tuple(shuffled)), lost_nodes=lost)
    assert (quorum.required or frozenset()) <= quorum.live
    assert quorum.finished <= quorum.placed <= quorum.live
    assert quorum.reached_by(minimum) == (not quorum.incomplete) == quorum.reached_by(quorum.live)


@given(gangs(), st.data())
def test_more_members_never_unreach_a_quorum(some: Gang, data: st.DataObject) -> None:
    quorum: Quorum = quorum_of(some)
    there = data.draw(st.sets(st.sampled_from(sorted(quorum.live)))) if quorum.live else set()
    more = there | (data.draw(st.sets(st.sampled_from(sorted(quorum.live)))) if quorum.live else set())
    assert quorum.reached_by(more) >= quorum.reached_by(there)


def test_gangs_that_are_gone_are_forgotten() -> None:
    """What is kept follows those that exist, and a few more; who stays is answered by the same value as before."""
    quorums, stays = Quorums(), gang("stays", 2)
    before = quorums.of_gang(stays)
    for number in range(1000):
        quorums.of_gang(gang(f"g{number}", 1))
        quorums.keep_only(lambda key: key == stays.key)
        assert len(quorums._known) <= 1 + 64
    assert quorums.of_gang(stays) is before
