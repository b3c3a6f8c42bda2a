"""Successors of lost members: first in line, in the same zone, best linked to the others (docs/safety.md S8)."""

import pytest
from msgspec.structs import replace

from scoring.ids import NodeName, PodUid
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.policy import Policy, Repair, RepairPolicy
from scoring.model.reasons import Reason
from scoring.plan import Plan, plan
from tests.builders import gang, mesh, node, pod, snapshot

HOME = [node(f"a{i}", zone="a", cpu="1") for i in range(4)]
AWAY = [node(f"b{i}", zone="b", cpu="1") for i in range(9)]
NODES = [*HOME, *AWAY]


def member(index: int, where: str | None = None, *, created_s: float = 0.0, **fields: object) -> Pod:
    """A worker of one CPU; with `where` it runs there since the first second."""
    made = pod(f"w{index}", role=Role.WORKER, index=index, cpu="1", created_s=created_s)
    if where is not None:
        made = replace(made, node=NodeName(where), phase=Phase.RUNNING, scheduled_s=1.0)
    return replace(made, **fields)


def broken(*besides: Pod, **fields: object) -> Gang:
    """A gang of three that started in zone a; worker 1 has a successor that waits."""
    members = [member(0, "a0"), member(1, created_s=50.0), member(2, "a2"), *besides]
    return replace(gang("g", members=members, min_member=3, **fields), started=True)  # type: ignore[arg-type]


def placed(made: Plan) -> NodeName | None:
    return made.node_of.get(PodUid("uid-default-w1"))


RIVALS = {  # case: fields of a gang that wants the only place left in zone a
    "a heavier one": {"cpu": "100m"},
    "an older one": {"created_s": -1e6},
    "one of higher priority": {"priority": 1000},
}


@pytest.mark.parametrize("rival", RIVALS.values(), ids=RIVALS)
def test_successors_come_first(rival: dict[str, object]) -> None:
    """Whoever else waits for the last place of the zone gets none."""
    other = gang("rival", 1, options={"zones": "a"}, **{"cpu": "1", **rival})  # type: ignore[arg-type]
    taken = [pod("busy", node="a3", cpu="1")]
    made = plan(snapshot(NODES, [broken(), other], pods=taken), Policy(), now_s=100.0)
    assert placed(made) == "a1"
    assert "default/rival" not in made.admitted


def test_with_none_they_wait_their_turn() -> None:
    """`repair: none`: the gang of higher priority goes first; a gang that had not started is completed all the same."""
    other = gang("rival", 1, options={"zones": "a"}, cpu="1", priority=1000)
    taken = [pod("busy", node="a3", cpu="1")]
    policy = Policy(repair=RepairPolicy(Repair.NONE))
    made = plan(snapshot(NODES, [broken(), other], pods=taken), policy, now_s=100.0)
    assert placed(made) is None
    assert "default/rival" in made.admitted
    half = gang("g", members=[member(0, "a0"), member(1), member(2, "a2")], min_member=3)
    assert placed(plan(snapshot(NODES, [half, other], pods=taken), policy, now_s=100.0)) == "a1"


DEAD = {  # case: what is left of the lost member
    "nothing": (),
    "a failed pod": (member(1, "a1", phase=Phase.FAILED, uid=PodUid("old")),),
    "one that never leaves": (member(1, "a1", deleting=True, uid=PodUid("old")),),
    "one on a node that is gone": (member(1, "gone", uid=PodUid("old")),),
}


@pytest.mark.parametrize("besides", DEAD.values(), ids=DEAD)
def test_the_zone_is_kept(besides: tuple[Pod, ...]) -> None:
    """However much better the other zone looks; the gang is completed and nobody of it moves."""
    links = mesh(NODES, bad={f"a{i}": {"delay_ms": 30.0} for i in range(4)})
    made = plan(snapshot(NODES, [broken(*besides)], network=links), Policy(), now_s=100.0)
    assert placed(made) in {"a1", "a3"}
    assert len(made.node_of) == 1


def test_room_in_its_zone() -> None:
    """Without any it waits, the other zone would tear the gang apart; a node that is not ready is no place."""
    taken = [pod("busy1", node="a1", cpu="1"), pod("busy3", node="a3", cpu="1")]
    made = plan(snapshot(NODES, [broken()], pods=taken), Policy(), now_s=100.0)
    assert (placed(made), made.waiting[broken().key].reason) == (None, Reason.NO_ROOM)
    silent = [replace(one, ready=False) if one.name == "a1" else one for one in NODES]
    assert placed(plan(snapshot(silent, [broken()]), Policy(), now_s=100.0)) == "a3"


@pytest.mark.parametrize("bad", ["a1", "a3"])
def test_the_best_linked_place_is_taken(bad: str) -> None:
    made = plan(snapshot(NODES, [broken()], network=mesh(NODES, bad={bad: {"delay_ms": 30.0}})), Policy(), now_s=100.0)
    assert placed(made) == ({"a1", "a3"} - {bad}).pop()
