"""The room that plain pods must leave: beside commitments, in saved-up zones, never more (docs/safety.md S13)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid
from scoring.model import HostPort, Pod
from scoring.model.pod import CPU
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.snapshot import Reservation, Snapshot
from scoring.plan import Plan
from scoring.queue.states import HOLD_S
from scoring.verbs.plain_pods import ReservedRoom
from tests.builders import gang, node, pod, snapshot
from tests.scoring.plan.planned import dressed
from tests.scoring.plan.virtual import Job, World

ALL = ("n1", "n2", "n3")
QUEUE = QueuePolicy(starve_limit_s=0.0)


def committed(*places: str, cpu: str = "4", running: Any = (), **fields: Any) -> Snapshot:
    """Three nodes of 8 CPUs and a gang whose members are to start on `places`."""
    assignment = {f"uid-default-g-{i}": where for i, where in enumerate(places)}
    nodes = [node(name, **fields) for name in ALL]
    return snapshot(nodes, [gang("g", len(places), cpu=cpu)], pods=running, commitments={"default/g": assignment})


def reserved(*nodes: str) -> dict[GangKey, Reservation]:
    key = GangKey("default/g")
    return {key: Reservation(key, nodes=frozenset(NodeName(name) for name in nodes))}


def closed(cluster: Snapshot, plain: Pod, reservations: dict[GangKey, Reservation] | None = None) -> list[str]:
    return sorted(room_of(cluster, Plan(1, reservations=reservations or {})).closed_to(plain.member_class))


def room_of(now: Snapshot, plan: Plan = Plan(1), policy: QueuePolicy = QUEUE, *, now_s: float = 0.0) -> ReservedRoom:
    return ReservedRoom(now, plan, plan.promise_due(now_s=now_s), policy, now_s=now_s)


PORT = HostPort("TCP", "0.0.0.0", 80)


def bound_in_part() -> Snapshot:
    cluster = committed("n1", "n1")
    waiting = cluster.gangs[GangKey("default/g")]
    there = replace(waiting.members[0], node=NodeName("n1"))
    used = cluster.used.copy()
    used[0] += cluster.table.vector(there.requests)
    return replace(cluster, used=used, gangs={waiting.key: replace(waiting, members=(there, waiting.members[1]))})


def with_promised_port() -> Snapshot:
    cluster = committed("n1", cpu="1")
    waiting = cluster.gangs[GangKey("default/g")]
    ported = replace(waiting, members=tuple(dressed(one, host_ports=(PORT,)) for one in waiting.members))
    return replace(cluster, gangs={waiting.key: ported})


PROMISED, IN_USE = committed("n1"), committed("n1", running=[pod("x", cpu="3", node="n1")])
BESIDE: dict[str, tuple[list[str], Snapshot, Pod]] = {  # case: (nodes closed to it, promised 4 of 8 CPUs, plain pod)
    "what is left to the last millicore": ([], PROMISED, pod("p", cpu="4")),
    "a millicore more": (["n1"], PROMISED, pod("p", cpu="4001m")),
    "only what the gang does not ask for": ([], PROMISED, pod("p", cpu="0", memory="32Gi")),
    "more than the node has": (["n1"], PROMISED, pod("p", cpu="9")),
    "3 CPUs are in use, one is left": ([], IN_USE, pod("p", cpu="1")),
    "3 CPUs are in use, two are not left": (["n1"], IN_USE, pod("p", cpu="2")),
    "bound members are promised nothing more": (["n1"], bound_in_part(), pod("p", cpu="1")),
    "one place for a pod is left, and it is promised": (["n1"], committed("n1", pods=1), pod("p", cpu="0")),
    "a promised host port": (["n1"], with_promised_port(), dressed(pod("p"), host_ports=(PORT,))),
    "another host port": ([], with_promised_port(), dressed(pod("p"), host_ports=(replace(PORT, port=81),))),
}


@pytest.mark.parametrize(("want", "cluster", "plain"), BESIDE.values(), ids=BESIDE)
def test_a_plain_pod_may_have_what_is_left_beside_a_commitment(want: list[str], cluster: Snapshot, plain: Pod) -> None:
    """The promised members count in full until they are bound, whatever else there is elsewhere."""
    assert want == closed(cluster, plain)


GPUS = snapshot([node(name, gpu=2) for name in ALL], [gang("g", 2, cpu="8", gpu=1)])
THREE, FOUR = (snapshot([node("n1", pods=3)], [gang("g", size)]) for size in (2, 3))
NEEDS_6 = gang("g", 1, cpu="6")
CLAIM = Reservation(NEEDS_6.key, {PodUid("uid-default-g-0"): NodeName("n1")})
CLAIMED = snapshot([node(name) for name in ALL], [NEEDS_6], claims={CLAIM.gang: CLAIM})
SAVED: dict[str, tuple[list[str], Snapshot, Pod, list[str]]] = {  # case: (closed nodes, cluster, plain pod, reserved)
    "a millicore of what the gang asks for": (["n1", "n2"], GPUS, pod("p", cpu="1m"), ["n1", "n2"]),
    "a GPU": (["n1", "n2"], GPUS, pod("p", cpu="0", gpu=1), ["n1", "n2"]),
    "memory, which the gang does not ask for": ([], GPUS, pod("p", cpu="0", memory="1Gi"), ["n1", "n2"]),
    "nothing": ([], GPUS, pod("p", cpu="0"), ["n1", "n2"]),
    "of three places for pods the gang needs two": ([], THREE, pod("p", cpu="0"), ["n1"]),
    "of three places for pods the gang needs three": (["n1"], FOUR, pod("p", cpu="0"), ["n1"]),
    "beside a claim, what is left": ([], CLAIMED, pod("p", cpu="2"), ["n1"]),
    "beside a claim, what it needs": (["n1"], CLAIMED, pod("p", cpu="3"), ["n1"]),
    "the gang is gone: the next plan has no such reservation": ([], snapshot([node("n1")]), pod("p"), ["n1"]),
}


@pytest.mark.parametrize(("want", "cluster", "plain", "nodes"), SAVED.values(), ids=SAVED)
def test_what_is_saved_up(want: list[str], cluster: Snapshot, plain: Pod, nodes: list[str]) -> None:
    """Closed for all that the gang asks for, however much is free there: it is to add up until the gang fits."""
    assert want == closed(cluster, plain, reserved(*nodes))


def test_a_promised_start_keeps_what_must_be_there() -> None:
    """Within two hours. Of each node 5 of 8 CPUs are in use for six days; then a gang is to have 6."""
    days_s, policy = 6 * 86_400.0, Policy(queue=QueuePolicy(order=Order.FIFO))
    jobs = [Job(f"r{number}", 0.0, cpu=5, length_s=days_s, says_s=days_s) for number in range(4)]
    cluster = World([node(f"a{number}") for number in range(4)], [*jobs, Job("large", 1.0, 4, 6)], policy)
    cluster.run(until_s=days_s - 7200.0)
    cases = [(-1.0, "3", 0), (0.0, "2", 0), (0.0, "2001m", 4)]  # (seconds from then, CPUs of a pod, nodes closed to it)
    for sooner in (False, True):
        for after_s, cpu, shut in cases:
            room = room_of(cluster.snapshot(), cluster.plan, policy.queue, now_s=cluster.now_s + after_s)
            assert (len(room.closed_to(pod("p", cpu=cpu).member_class)), sooner) == (shut, sooner)
        cluster.gangs.pop(GangKey("default/r1"), None)  # sooner, and this plan does not know: it needs no less


PHASES = {  # case: (seconds since the gang became STARVING, whether its reservation is kept from plain pods)
    "not yet": (-1.0, False),
    "the reservation begins": (0.0, True),
    "its last moment": (HOLD_S - 1.0, True),
    "it has run out": (HOLD_S, False),
    "it begins again": (2.0 * HOLD_S, True),
}


@pytest.mark.parametrize(("since_s", "kept"), PHASES.values(), ids=PHASES)
def test_holds_are_kept_from_plain_pods_in_turns(since_s: float, kept: bool) -> None:
    """As long as open as closed: services that were there before come back in the end."""
    policy = QueuePolicy(starve_limit_s=60.0, reserve_after_s=0.0)
    cluster = snapshot([node("n1")], [gang("g", 1)])
    room = room_of(cluster, Plan(1, reservations=reserved("n1")), policy, now_s=60.0 + since_s)
    assert bool(room.closed_to(pod("p").member_class)) is kept


def test_two_plain_pods_that_fit_one_by_one() -> None:
    """4 CPUs are left beside the promise: the second of two pods of 3 CPUs would take a member's."""
    room = room_of(committed("n1"))
    first, second = pod("p", cpu="3"), pod("q", cpu="3")
    assert room.leaves(first, NodeName("n1"))
    assert not room.leaves(second, NodeName("n1"), [first])
    assert room.leaves(second, NodeName("n2"), [first])
    assert room.leaves(pod("r", cpu="0"), NodeName("n1"), [first, second])


def test_room_for_a_parked_pod() -> None:
    room = room_of(snapshot([node("n1"), node("n2", zone="b")], pods=[pod("x", cpu="8", node="n1")]))
    names = [NodeName("n1"), NodeName("n2")]
    assert room.has_room(pod("p").member_class, names)
    assert not room.has_room(pod("p").member_class, names[:1])
    in_a = pod("p", node_selector={"topology.kubernetes.io/zone": "a"})
    assert not room.has_room(in_a.member_class, names)
    assert not room.has_room(pod("p").member_class, [NodeName("gone")])


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(ALL)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(ALL)), max_size=12),
)
def test_no_order_of_plain_pods_takes_kept_room(members: list[tuple[int, str]], plain: list[tuple[int, str]]) -> None:
    """Plain pods that are bound one by one where it is open leave each committed member its room, where it had any."""
    promised = [(pod(f"g-{i}", gang="g", index=i, cpu=str(cpu)), where) for i, (cpu, where) in enumerate(members)]
    whole = gang("g", members=[one for one, _ in promised])
    places = {str(one.uid): where for one, where in promised}
    cluster = snapshot([node(name) for name in ALL], [whole], commitments={"default/g": places})
    column = cluster.table.axis.index(CPU)
    need = np.zeros(len(ALL), np.int64)
    for one, where in promised:
        need[cluster.table.index[NodeName(where)]] += one.requests.get(CPU)
    had = cluster.table.allocatable[:, column] >= need
    for i, (cpu, where) in enumerate(plain):
        one = pod(f"p{i}", cpu=str(cpu))
        row = cluster.table.index[NodeName(where)]
        fits = bool(cluster.table.allocatable[row, column] - cluster.used[row, column] >= one.requests.get(CPU))
        if fits and where not in room_of(cluster).closed_to(one.member_class):
            used = cluster.used.copy()
            used[row] += cluster.table.vector(one.requests)
            cluster = replace(cluster, used=used)
    free = cluster.table.allocatable[:, column] - cluster.used[:, column]
    assert (free >= need)[had].all()
