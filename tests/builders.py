"""One line per object, in Kubernetes quantities; defaults are the dullest possible object."""

from collections.abc import Iterable, Mapping
from itertools import permutations, product
from typing import Any

import numpy as np
from msgspec.structs import replace

from scoring import GangKey, JobKey, Namespace, NodeName, PodName, PodUid, ZoneName
from scoring.model import (
    Constraints,
    Gang,
    GangSource,
    GroupRef,
    MemberClass,
    Node,
    NodeSelectorTerm,
    Phase,
    Pod,
    Role,
    Taint,
    Toleration,
)
from scoring.model.gang import gang_key
from scoring.model.pod import Resources
from scoring.model.snapshot import NodeTable, Reservation, Snapshot
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix


def node(
    name: str,
    *,
    zone: str = "a",
    cpu: str = "8",
    memory: str = "32Gi",
    pods: int = 110,
    gpu: int = 0,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    **fields: object,
) -> Node:
    base = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return Node(
        name=NodeName(name),
        zone=ZoneName(zone),
        allocatable=Resources.parse({"cpu": cpu, "memory": memory, "pods": pods, "nvidia.com/gpu": gpu}),
        labels=tuple(sorted((base | dict(labels or {})).items())),
        taints=tuple(taints),
        **fields,  # type: ignore[arg-type]
    )


def pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str = "1",
    memory: str = "0",
    gpu: int = 0,
    role: Role = Role.OTHER,
    gang: str | None = None,
    min_available: int | None = None,
    node: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: tuple[NodeSelectorTerm, ...] | None = None,
    tolerations: Iterable[Toleration] = (),
    job: str | None = None,
    **fields: object,
) -> Pod:
    """A pending pod of scheduler `netgang`; with `node` it is bound and Running."""
    requests = Resources.parse({"cpu": cpu, "memory": memory, "pods": 1, "nvidia.com/gpu": gpu})
    selector = tuple(sorted((node_selector or {}).items()))
    constraints = Constraints(node_selector=selector, affinity=affinity, tolerations=tuple(tolerations))
    phase = Phase.PENDING if node is None else Phase.RUNNING
    defaults: dict[str, object] = {"scheduler_name": "netgang", "phase": phase}
    group = None if gang is None else GroupRef(gang_key(namespace, gang), GangSource.LABELS, min_available)
    return Pod(
        uid=PodUid(f"uid-{namespace}-{name}"),
        namespace=Namespace(namespace),
        name=PodName(name),
        member_class=MemberClass(role, requests, constraints),
        node=NodeName(node) if node is not None else None,
        group=group,
        job=JobKey(f"{namespace}/{job}") if job is not None else None,
        **(defaults | fields),  # type: ignore[arg-type]
    )


def gang(
    name: str,
    size: int | None = None,
    *,
    members: Iterable[Pod] | None = None,
    min_member: int | None = None,
    namespace: str = "default",
    options: Mapping[str, str] | None = None,
    created_s: float = 0.0,
    priority: int = 0,
    **pod_fields: object,
) -> Gang:
    """A gang of `size` equal pending members `NAME-0…`, or of the given `members`."""
    if members is None:
        fields: Any = {"namespace": namespace, "gang": name, **pod_fields}
        members = [pod(f"{name}-{i}", index=i, **fields) for i in range(size or 0)]
    listed = tuple(members)
    return Gang(
        key=gang_key(namespace, name),
        source=GangSource.LABELS,
        min_member=len(listed) if min_member is None else min_member,
        members=listed,
        priority=priority,
        created_s=created_s,
        options=tuple(sorted((options or {}).items())),
    )


def snapshot(
    nodes: Iterable[Node],
    gangs: Iterable[Gang] = (),
    *,
    pods: Iterable[Pod] = (),
    network: NetworkMatrix | None = None,
    commitments: Mapping[str, Mapping[str, str]] | None = None,
    version: int = 1,
    exclusions: Mapping[MemberClass, frozenset[NodeName]] | None = None,
    **fields: object,
) -> Snapshot:
    """A snapshot in which `pods` and bound gang members use their nodes' room; `exclusions` as learned of any class."""
    table = NodeTable.from_nodes(nodes)
    refused: dict[MemberClass, frozenset[NodeName]] = {}
    for one, where in (exclusions or {}).items():
        refused[one.anywhere] = refused.get(one.anywhere, frozenset()) | where
    used, listed = np.zeros_like(table.allocatable), tuple(gangs)
    for each in [*pods, *(m for g in listed for m in g.members)]:
        if each.node is not None and not each.terminal and each.node in table.index:
            assert not table.uncounted(each.requests), f"no node has what {each.name} requests"
            used[table.index[each.node]] += table.vector(each.requests)
    return Snapshot(
        version=version,
        table=table,
        used=used,
        gangs={g.key: g for g in listed},
        commitments={
            GangKey(key): Reservation(GangKey(key), {PodUid(uid): NodeName(where) for uid, where in assignment.items()})
            for key, assignment in (commitments or {}).items()
        },
        network=network or NetworkMatrix(),
        exclusions=refused,
        **fields,  # type: ignore[arg-type]
    )


def mesh(
    nodes: Iterable[Node | str],
    *,
    loss_ratio: float = 0.0,
    delay_ms: float = 1.0,
    throughput_bps: float = 100e6,
    bad: Mapping[str, Mapping[str, float]] | None = None,
    now_s: float = 0.0,
    measured_at_s: float = 0.0,
) -> NetworkMatrix:
    """A full mesh of equal links; `bad`: nodes whose every link has other values, e.g. {"n3": {"delay_ms": 10}}."""
    names = [n if isinstance(n, str) else str(n.name) for n in nodes]
    values = {Metric.LOSS: loss_ratio, Metric.DELAY: delay_ms, Metric.THROUGHPUT: throughput_bps}
    key = {Metric.LOSS: "loss_ratio", Metric.DELAY: "delay_ms", Metric.THROUGHPUT: "throughput_bps"}
    found: list[Measurement] = []
    for (one, other), metric in product(permutations(names, 2), METRICS):
        of_one = (bad or {}).get(one, {}).get(key[metric], values[metric])
        value = (bad or {}).get(other, {}).get(key[metric], of_one)
        found.append(Measurement(one, other, metric, value, measured_at_s))  # type: ignore[arg-type]
    ends = {NodeName(n): n for n in names}
    return NetworkMatrix.from_measurements(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=now_s)  # type: ignore[arg-type]


def bound(member: Pod, where: str) -> Pod:
    return replace(member, node=NodeName(where), phase=Phase.RUNNING)
