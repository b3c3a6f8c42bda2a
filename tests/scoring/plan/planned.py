"""What tests of plans share: builders and answers in short, small clusters and gangs drawn by hypothesis."""

from collections.abc import Iterable

from hypothesis import strategies as st
from msgspec.structs import replace

from scoring.model import Gang, HostPort, Node, Pod, Role, Taint, Toleration
from scoring.model.policy import Policy, Selection
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, begin_run, plan
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from tests.builders import bound, gang, mesh, node, pod, snapshot

POLICY = Policy()
LATE_S = POLICY.spill_wait_s
TAINT = Taint("k", "v", "NoSchedule")


def dressed(member: Pod, **constraints: object) -> Pod:
    changed = replace(member.member_class.constraints, **constraints)
    return replace(member, member_class=replace(member.member_class, constraints=changed))


def ported(member: Pod, port: int, ip: str = "0.0.0.0") -> Pod:
    return dressed(member, host_ports=(*member.member_class.constraints.host_ports, HostPort("TCP", ip, port)))


def row(count: int, *, zone: str = "a", cpu: str = "1", prefix: str = "n") -> list[Node]:
    return [node(f"{prefix}{i}", zone=zone, cpu=cpu) for i in range(count)]


def zoned(*, cpu: str = "1", **counts: int) -> list[Node]:
    """Zone → so many equal nodes, named by their zone."""
    return [one for zone, count in counts.items() for one in row(count, zone=zone, prefix=zone, cpu=cpu)]


def planned(nodes: Iterable[Node], *gangs: Gang, now_s: float = 0.0, policy: Policy = POLICY, **fields: object) -> Plan:
    return plan(snapshot(nodes, gangs, **fields), policy, now_s=now_s)  # type: ignore[arg-type]


def answer(outcome: Plan, name: str) -> tuple[Reason, str] | list[str]:
    """Reason and detail of a gang that waits, or the nodes of one that is admitted, sorted."""
    key = f"default/{name}"
    if key in outcome.waiting:
        return outcome.waiting[key].reason, outcome.waiting[key].detail  # type: ignore[index]
    return sorted(outcome.admitted[key].members.values())  # type: ignore[index]


CONSTRAINTS: tuple[dict[str, object], ...] = (
    {},
    {},
    {},
    {"tolerations": (Toleration("k", "Exists"),)},
    {"node_selector": (("disk", "ssd"),)},
    {"host_ports": (HostPort("TCP", "0.0.0.0", 80),)},
    {"host_ports": (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "0.0.0.0", 81))},
)


@st.composite
def clusters(draw: st.DrawFn, *, zones: str = "ab", most_nodes: int = 6, most_gangs: int = 4) -> Snapshot:
    """Clusters with taints, labels, ports, gates, refusals, commitments, and gangs of several shapes."""
    nodes = [
        node(
            f"n{i}",
            zone=draw(st.sampled_from(zones)),
            cpu=str(draw(st.integers(1, 4))),
            gpu=draw(st.integers(0, 2)),
            labels={"disk": "ssd"} if draw(st.booleans()) else {},
            taints=[TAINT] if draw(st.integers(0, 4)) == 0 else [],
            ready=draw(st.integers(0, 9)) > 0,
        )
        for i in range(draw(st.integers(1, most_nodes)))
    ]
    gangs = [_gang(draw, f"g{i}", nodes) for i in range(draw(st.integers(1, most_gangs)))]
    names = st.sampled_from([n.name for n in nodes])
    committed = {
        str(g.key): {str(m.uid): str(draw(names)) for m in g.pending if draw(st.booleans())}
        for g in gangs
        if draw(st.integers(0, 4)) == 0
    }
    excluded = {
        m.member_class: frozenset({draw(names)}) for g in gangs for m in g.members[:1] if draw(st.integers(0, 3)) == 0
    }
    taken = {draw(names): frozenset({HostPort("TCP", "10.0.0.2", 80)})} if draw(st.booleans()) else {}
    network = mesh(nodes, bad={nodes[0].name: {"delay_ms": 20.0}}) if draw(st.booleans()) else None
    return snapshot(nodes, gangs, network=network, commitments=committed, exclusions=excluded, host_ports=taken)


def _gang(draw: st.DrawFn, name: str, nodes: list[Node]) -> Gang:
    size = draw(st.integers(1, 4))
    roles = [Role.PS, *[Role.WORKER] * (size - 1)] if draw(st.booleans()) else [Role.OTHER] * size
    kinds = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from(CONSTRAINTS)), min_size=2, max_size=2)
    )
    members: list[Pod] = []
    for i, role in enumerate(roles):
        cpu, gpu, constraints = kinds[min(i, 1)]
        gates = ("example.com/gate",) if draw(st.integers(0, 9)) == 0 else ()
        member = pod(f"{name}-{i}", gang=name, role=role, index=i, cpu=str(cpu), gpu=gpu, gates=gates)
        if draw(st.integers(0, 6)) == 0 and not gpu:
            members.append(bound(dressed(replace(member, gates=()), **constraints), draw(st.sampled_from(nodes)).name))
        else:
            members.append(dressed(member, **constraints))
    options = {
        "zone-policy": draw(st.sampled_from(["required", "preferred"])),
        "selection": draw(st.sampled_from(list(Selection))),
    }
    if draw(st.integers(0, 3)) == 0:
        options["zones"] = draw(st.sampled_from(["a", "b", "b,a"]))
    return gang(
        name,
        members=members,
        min_member=draw(st.integers(1, size)),
        priority=draw(st.integers(0, 1)),
        created_s=float(draw(st.integers(0, 3))),
        options=options,
    )


def equal_gangs() -> st.SearchStrategy[tuple[list[int], list[tuple[int, int]]]]:
    """CPUs of nodes, and (minimum, size) of gangs whose members all ask for one CPU."""
    shape = st.integers(1, 5).flatmap(lambda size: st.tuples(st.integers(1, size), st.just(size)))
    return st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(shape, min_size=1, max_size=4))


def in_order(state: Snapshot) -> list[GangDemand]:
    run = begin_run(state, POLICY, PlannerCache())
    return sorted(map(run.view.demand, state.gangs.values()), key=QueueOrder(run, now_s=0.0).key)
