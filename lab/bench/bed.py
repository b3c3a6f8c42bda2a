"""The clusters that benchmarks plan on: big, regular, and made without chance.

Node names are those of `lab.bench.http`'s requests, so that the same cluster answers them.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from scoring import GangKey, Namespace, NodeName, PodName, PodUid, ZoneName
from scoring.model import Constraints, Gang, GangSource, GroupRef, MemberClass, Node, Phase, Pod, Role
from scoring.model.gang import gang_key
from scoring.model.pod import Resources
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix

GOOD = {Metric.LOSS: 0.0, Metric.DELAY: 0.3, Metric.THROUGHPUT: 10e9}


def node_name(number: int) -> NodeName:
    """Name of a node, as in the requests of `lab.bench.http`."""
    return NodeName(f"node-{number:05d}.zone-{number % 5}.example.com")


def nodes(count: int, *, zones: int, cpu: int = 8) -> list[Node]:
    """Equal nodes, dealt out over the zones one by one."""
    room = Resources.parse({"cpu": cpu, "memory": "512Gi", "pods": 110, "nvidia.com/gpu": 8})
    return [
        Node(
            name=node_name(number),
            zone=ZoneName(f"zone-{number % zones:02d}"),
            allocatable=room,
            labels=(("kubernetes.io/hostname", node_name(number)),),
        )
        for number in range(count)
    ]


def gang(
    name: str, size: int, *, cpu: int = 1, created_s: float = 0.0, options: Mapping[str, str] | None = None
) -> Gang:
    """A gang of equal workers that all wait."""
    member_class = _worker(cpu)
    key = gang_key("team-a", name)
    members = tuple(_member(name, key, index, member_class, size) for index in range(size))
    return Gang(
        key=key,
        source=GangSource.LABELS,
        min_member=size,
        members=members,
        priority=0,
        created_s=created_s,
        options=tuple(sorted((options or {}).items())),
    )


@lru_cache
def _worker(cpu: int) -> MemberClass:
    """One object for equal pods, as those that are read from the API have."""
    return MemberClass(Role.WORKER, Resources.parse({"cpu": cpu, "pods": 1}), Constraints())


def _member(name: str, key: GangKey, index: int, member_class: MemberClass, size: int) -> Pod:
    return Pod(
        uid=PodUid(f"{name}-{index}"),
        namespace=Namespace("team-a"),
        name=PodName(f"{name}-{index}"),
        member_class=member_class,
        scheduler_name="netgang",
        phase=Phase.PENDING,
        index=index,
        group=GroupRef(key, GangSource.LABELS, size),
    )


def mesh(listed: list[Node], *, measured_per_zone: int) -> NetworkMatrix:
    """A full mesh between the first nodes of each zone; node numbers decide the (small) differences between links."""
    by_zone: dict[ZoneName, list[int]] = {}
    for number, one in enumerate(listed):
        by_zone.setdefault(one.zone, []).append(number)
    measured = [number for numbers in by_zone.values() for number in numbers[:measured_per_zone]]
    ends = {node_name(number): node_name(number) for number in measured}
    found = _links(by_zone, measured_per_zone)
    return NetworkMatrix.from_measurements(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=0.0)  # type: ignore[arg-type]


def _links(by_zone: Mapping[ZoneName, list[int]], measured_per_zone: int) -> Iterator[Measurement]:
    for numbers in by_zone.values():
        ends = numbers[:measured_per_zone]
        for one in ends:
            for other in ends:
                if one != other:
                    worse = 1.0 + 1e-3 * ((one * 31 + other * 17) % 97) + 1e-5 * (one + other)
                    for metric, value in GOOD.items():
                        value = value / worse if metric is Metric.THROUGHPUT else value * worse
                        yield Measurement(node_name(one), node_name(other), metric, value, 0.0)  # type: ignore[arg-type]


def snapshot(listed: list[Node], gangs: list[Gang], network: NetworkMatrix) -> Snapshot:
    """A snapshot of an empty cluster in which these gangs wait."""
    table = NodeTable.from_nodes(listed)
    used = np.zeros_like(table.allocatable)
    return Snapshot(version=1, table=table, used=used, gangs={one.key: one for one in gangs}, network=network)
