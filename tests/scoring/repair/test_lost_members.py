"""Who is lost, whether that breaks a gang, what is said and done, and where successors go (docs/safety.md S8)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, PodUid
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.policy import Policy, Repair, RepairPolicy
from scoring.model.reasons import Reason
from scoring.plan import Plan
from scoring.repair import Crew, due_s, not_before_s, observe, words_of
from tests.builders import gang, mesh, node, pod
from tests.scoring.plan.planned import planned

NODES = tuple(f"n{i}" for i in range(9))
LIMITS = RepairPolicy(settle_s=10.0)


def worker(index: int, where: str | None = None, *, take: int = 0, at_s: float = 0.0, **fields: object) -> Pod:
    made = pod(f"w{index}", role=Role.WORKER, index=index, created_s=at_s)
    made = replace(made, uid=PodUid(f"w{index}-{take}"))
    if where is not None:
        made = replace(made, node=NodeName(where), phase=Phase.RUNNING, scheduled_s=at_s + 1.0)
    return replace(made, **fields)


def of(*members: Pod, least: int = 3) -> Gang:
    return gang("g", members=list(members), min_member=least)


def look(
    before: Crew | None, seen: Gang, *, lost: tuple[str, ...] = (), gone: tuple[str, ...] = (), **how: Any
) -> Crew | None:
    """The crew after a look; `gone` nodes are lost and not in the cluster, `lost` ones only do not answer."""
    nowhere = frozenset(NodeName(name) for name in (*lost, *gone))
    there = {NodeName(name) for name in NODES if name not in gone}
    return observe(before, seen, quorum_of(seen, lost_nodes=nowhere), nodes=there, **({"now_s": 100.0} | how))


def crew_of(before: Gang | Crew, seen: Gang, **how: Any) -> Crew:
    """The crew of a gang, which there must be, after a look at what became of it."""
    crew = look(look(None, before) if isinstance(before, Gang) else before, seen, **how)
    assert crew is not None
    return crew


WHOLE = of(*(worker(i, f"n{i}") for i in range(3)))
LEFT = (worker(0, "n0"), worker(1, "n1"))

COMES, BACK = "Waiting for its owner to create 1 new pod.", "waiting for node n2 to be removed or to come back"
TAKES = "Pod w2 takes its place"
N2 = ("n2",)
REMOVED, FAILED = "it was removed", "it failed on node n2"
GONE, SILENT = "its node n2 is gone", "its node n2 does not answer"
LOSSES = {  # case: (the gang after it, how its nodes are, cause, whether its pod stays, what is said)
    "removed": (of(*LEFT), {}, REMOVED, False, COMES),
    "removed, its successor waits": (of(*LEFT, worker(2, take=1, at_s=50.0)), {}, REMOVED, False, TAKES),
    "removed, its successor runs": (of(*LEFT, worker(2, "n4", take=1, at_s=50.0)), {}, REMOVED, False, ""),
    "being deleted": (of(*LEFT, worker(2, "n2", deleting=True)), {}, REMOVED, True, "Pod w2 on node n2 still ends."),
    "being deleted on a silent node": (of(*LEFT, worker(2, "n2", deleting=True)), {"lost": N2}, REMOVED, True, BACK),
    "rejected by the kubelet": (of(*LEFT, worker(2, "n2", phase=Phase.FAILED)), {}, FAILED, False, COMES),
    "its node is deleted": (WHOLE, {"gone": N2}, GONE, False, COMES),
    "its node and its pod are gone": (of(*LEFT), {"gone": N2}, GONE, False, COMES),
    "its node is silent": (WHOLE, {"lost": N2}, SILENT, True, BACK),
}


@pytest.mark.parametrize(("seen", "nodes", "cause", "stays", "said"), LOSSES.values(), ids=LOSSES)
def test_a_lost_member_breaks_a_gang(seen: Gang, nodes: Any, cause: str, stays: bool, said: str) -> None:
    crew = crew_of(WHOLE, seen, now_s=200.0, **nodes)
    assert crew.broken_since_s == 200.0
    assert [(loss.name, loss.cause, loss.stays) for loss in crew.losses] == [("w2", cause, stays)]
    assert said in words_of(crew)
    assert (BACK in words_of(crew)) is (said is BACK)


UNHARMED = {  # case: (the gang before, the gang after)
    "nothing happened": (WHOLE, WHOLE),
    "it ended well": (WHOLE, of(*LEFT, worker(2, "n2", phase=Phase.SUCCEEDED))),
    "one beyond the minimum": (of(*WHOLE.members, least=2), of(*LEFT, least=2)),
    "one that came": (WHOLE, of(*WHOLE.members, worker(3))),
    "the minimum grew with the job": (WHOLE, of(*WHOLE.members, worker(3), worker(4), least=5)),
}


@pytest.mark.parametrize(("before", "after"), UNHARMED.values(), ids=UNHARMED)
def test_what_breaks_nothing(before: Gang, after: Gang) -> None:
    crew = crew_of(before, after)
    assert (crew.broken, crew.losses, words_of(crew)) == (False, (), "")


def test_a_gang_that_was_never_whole_has_no_crew() -> None:
    """Half bound after its first attempt: that is the permit machine's business (docs/safety.md S8)."""
    assert look(None, of(worker(0, "n0"), worker(1, "n1"), worker(2))) is None


def test_another_start_is_another_crew() -> None:
    """All pods are new ones: nobody of this gang is lost, also while they are on their way, also beside old remains."""
    crew = look(None, WHOLE)
    remains = worker(2, "n2", phase=Phase.FAILED)
    coming = [worker(i, take=1, at_s=50.0) for i in range(3)]
    assert look(crew, of(*coming, remains)) is None
    half = [worker(0, "n0", take=1, at_s=50.0), *coming[1:]]
    assert look(None, of(*half, remains)) is None
    whole = [worker(i, f"n{i}", take=1, at_s=50.0) for i in range(3)]
    found = look(None, of(*whole, remains))
    assert (found and found.broken) is False


TRACES = {  # case: (what is found at start, nodes gone, whether it is broken)
    "a dead pod": (of(*LEFT, worker(2, "n2", phase=Phase.FAILED), worker(2, take=1, at_s=50.0)), (), True),
    "on a dead node": (WHOLE, ("n2",), True),
    "a successor in the middle": (of(worker(0, "n0"), worker(1, take=1, at_s=50.0), worker(2, "n2")), (), True),
    "perhaps just one more": (of(*LEFT, worker(2, at_s=50.0)), (), False),
    "whole again": (of(*LEFT, worker(2, "n2", take=1, at_s=50.0)), (), False),
}


@pytest.mark.parametrize(("seen", "gone", "broken"), TRACES.values(), ids=TRACES)
def test_what_a_restarted_process_can_tell(seen: Gang, gone: tuple[str, ...], broken: bool) -> None:
    """From remains, and from successors that wait; in doubt nobody is lost, and in a gang that never started nobody."""
    crew = look(None, replace(seen, started=True), gone=gone)
    assert (crew is not None and crew.broken) == broken
    never = look(None, seen, gone=gone)
    assert never is None or not never.broken


def test_time_counts_from_the_first_loss() -> None:
    """A second one does not begin it again; a node that comes back ends it."""
    crew = crew_of(crew_of(WHOLE, WHOLE, now_s=200.0, lost=("n2",)), WHOLE, now_s=205.0, lost=("n1", "n2"))
    assert (crew.broken_since_s, len(crew.losses)) == (200.0, 2)
    assert due_s(crew, WHOLE, LIMITS) == 210.0
    assert due_s(crew_of(crew, WHOLE, now_s=209.0), WHOLE, LIMITS) is None


def test_a_finishing_gang_is_never_due() -> None:
    """A member succeeded: what is lost besides is replaced, and nobody starts from the beginning. docs/safety.md S8."""
    seen = of(worker(0, "n0", phase=Phase.SUCCEEDED), worker(1, "n1"))
    crew = crew_of(WHOLE, seen)
    assert (crew.broken, due_s(crew, seen, LIMITS)) == (True, None)


def test_successors_mend_a_gang() -> None:
    seen = of(*LEFT, worker(2, "n4", take=1, at_s=50.0))
    assert crew_of(WHOLE, seen).broken
    again = crew_of(crew_of(WHOLE, seen, mends=True), of(*LEFT), mends=True)
    assert [loss.node for loss in again.losses] == ["n4"]


@given(st.lists(st.floats(0.0, 3600.0), max_size=8).map(sorted), st.integers(1, 5), st.floats(1.0, 300.0))
def test_restarts_become_rarer(moments: list[float], most: int, backoff_s: float) -> None:
    """Never sooner with one more in the hour, and never more than so many in any hour."""
    limits = RepairPolicy(most_per_hour=most, backoff_s=backoff_s)
    history = tuple(moments)
    at_s = not_before_s(history, limits)
    assert not history or at_s > history[-1]
    if len(history) >= most:
        assert at_s >= history[-most] + 3600.0


FATES = st.sampled_from(["runs", "gone", "failed", "succeeded", "silent", "replaced", "bound anew"])


@given(st.lists(FATES, min_size=1, max_size=6), st.integers(1, 6))
def test_broken_is_what_its_own_members_cannot_make_good(fates: list[str], least: int) -> None:
    """A gang is broken exactly when somebody is lost and those left of the crew are no quorum; looking twice agrees."""
    before = of(*(worker(i, f"n{i}") for i in range(len(fates))), least=min(least, len(fates)))
    members: list[Pod] = []
    for index, (fate, old) in enumerate(zip(fates, before.members, strict=True)):
        left_over = {
            **{"runs": old, "silent": old, "replaced": worker(index, take=1, at_s=50.0)},
            **{"failed": replace(old, phase=Phase.FAILED), "succeeded": replace(old, phase=Phase.SUCCEEDED)},
            "bound anew": worker(index, f"n{index}", take=1, at_s=50.0),
        }
        members += [left_over[fate]] if fate in left_over else []
    if not members:
        return
    after = of(*members, least=before.min_member)
    silent = tuple(f"n{i}" for i, fate in enumerate(fates) if fate == "silent")
    crew = look(look(None, before), after, lost=silent)
    left = sum(fate in ("runs", "succeeded") for fate in fates)
    if crew is None or not left + fates.count("silent"):
        assert left < before.min_member or not left
        return
    quorum = quorum_of(after, lost_nodes=frozenset(NodeName(name) for name in silent))
    own = {pod.uid for pod in before.members} & quorum.placed
    assert crew.broken == (left < len(fates) and not quorum.reached_by(own))
    assert look(crew, after, lost=silent) == crew


# -- successors: first in line, in the same zone, best linked to the others -------------------------------------------

HOME = [node(f"a{i}", zone="a", cpu="1") for i in range(4)]
AWAY = [node(f"b{i}", zone="b", cpu="1") for i in range(9)]
BOTH_ZONES = [*HOME, *AWAY]
TAKEN = [pod("busy", node="a3", cpu="1")]


def broken(*besides: Pod, **fields: object) -> Gang:
    """A gang of three that started in zone a; worker 1 has a successor that waits."""
    members = [worker(0, "a0"), worker(1, at_s=50.0), worker(2, "a2"), *besides]
    return replace(gang("g", members=members, min_member=3, **fields), started=True)  # type: ignore[arg-type]


def placed(made: Plan) -> NodeName | None:
    return made.node_of.get(PodUid("w1-0"))


@pytest.mark.parametrize("rival", [{"cpu": "100m"}, {"created_s": -1e6}, {"priority": 1000}], ids=str)
def test_successors_come_first(rival: dict[str, object]) -> None:
    """Before gangs that are lighter, older or of a higher priority, and want the only place left in zone a."""
    other = gang("rival", 1, options={"zones": "a"}, **{"cpu": "1", **rival})  # type: ignore[arg-type]
    made = planned(BOTH_ZONES, broken(), other, pods=TAKEN, now_s=100.0)
    assert placed(made) == "a1"
    assert "default/rival" not in made.admitted


def test_with_none_they_wait_their_turn() -> None:
    """`repair: none`: the gang of higher priority goes first; a gang that had not started is completed all the same."""
    other = gang("rival", 1, options={"zones": "a"}, cpu="1", priority=1000)
    policy = Policy(repair=RepairPolicy(Repair.NONE))
    made = planned(BOTH_ZONES, broken(), other, pods=TAKEN, policy=policy, now_s=100.0)
    assert placed(made) is None
    assert "default/rival" in made.admitted
    half = gang("g", members=[worker(0, "a0"), worker(1), worker(2, "a2")], min_member=3)
    assert placed(planned(BOTH_ZONES, half, other, pods=TAKEN, policy=policy, now_s=100.0)) == "a1"


def test_the_zone_is_kept() -> None:
    """However much better the other zone looks, whatever is left of the lost member; nobody of the gang moves."""
    failed, leaves_never = worker(1, "a1", phase=Phase.FAILED, take=9), worker(1, "a1", deleting=True, take=9)
    links = mesh(BOTH_ZONES, bad={f"a{i}": {"delay_ms": 30.0} for i in range(4)})
    for besides in ((), (failed,), (leaves_never,), (worker(1, "gone", take=9),)):
        made = planned(BOTH_ZONES, broken(*besides), network=links, now_s=100.0)
        assert placed(made) in {"a1", "a3"}
        assert len(made.node_of) == 1


def test_room_in_its_zone() -> None:
    taken = [pod("busy1", node="a1", cpu="1"), pod("busy3", node="a3", cpu="1")]
    made = planned(BOTH_ZONES, broken(), pods=taken, now_s=100.0)
    assert (placed(made), made.waiting[broken().key].reason) == (None, Reason.NO_ROOM)
    silent = [replace(one, ready=False) if one.name == "a1" else one for one in BOTH_ZONES]
    assert placed(planned(silent, broken(), now_s=100.0)) == "a3"


@pytest.mark.parametrize("bad", ["a1", "a3"])
def test_the_best_linked_place_is_taken(bad: str) -> None:
    made = planned(BOTH_ZONES, broken(), network=mesh(BOTH_ZONES, bad={bad: {"delay_ms": 30.0}}), now_s=100.0)
    assert placed(made) == ({"a1", "a3"} - {bad}).pop()
