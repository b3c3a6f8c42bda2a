"""The loads: which pods arrive on which nodes, and when.

Why fixed: a figure can be repeated by others only if the load has a name. Rule: a load is the same for every way, down
to the names of its pods; what a way adds is a label, a gate or a scheduler's name. A way without gangs binds the same
pods without anything that holds them together, so partial gangs are counted for every way alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lab.bench.peers.ways import COSCHEDULING, VOLCANO, VOLCANO_SAMPLED, Way
from lab.testbed.api import Object
from lab.testbed.objects import gang_pods, pod, zone_nodes

NAMESPACE = "bench"
_MEMBER = "-worker-"
_MEMORY = "256Gi"


@dataclass(frozen=True, slots=True)
class Workload:
    """Nodes and pods, and which ways are measured by default; the first one is the reference."""

    name: str
    words: str
    nodes: int
    zones: int
    node_cpu: int
    gangs: int
    size: int
    ways: tuple[str, ...]
    peers: tuple[str, ...] = ()
    """Other schedulers that take part by themselves where they are built."""
    live: bool = False
    """All pods are created at once beside what runs and waits: how long does a user wait? Else they exist before
    anything schedules: how fast is a full queue emptied?"""

    @property
    def pods(self) -> int:
        """Of all gangs."""
        return self.gangs * self.size

    @property
    def half_s(self) -> float:
        """How long one way takes once, seconds: an estimate for two cores."""
        return 4.0 + self.pods * (0.005 if self.nodes < 1000 else 0.011)

    def node_objects(self) -> list[Object]:
        """Equal nodes, the same number in each zone."""
        zones = {f"zone-{number:02d}": self.nodes // self.zones for number in range(self.zones)}
        return zone_nodes(zones, cpu=str(self.node_cpu), memory=_MEMORY)

    def backlog(self, way: Way) -> list[Object]:
        """The objects of all gangs, gang after gang: groups where they are needed, and pods."""
        return [one for number in range(self.gangs) for one in self._gang(f"g{number:04d}", way)]

    def _gang(self, name: str, way: Way) -> list[Object]:
        annotations = way.annotations(name)
        if self.size == 1:
            alone = pod(f"{name}{_MEMBER}0", namespace=NAMESPACE, cpu="1", scheduler=way.scheduler_name,
                        annotations=annotations)  # fmt: skip
            return [*(way.groups(name, 1, NAMESPACE) if way.volcano else []), alone]
        members = gang_pods(
            name,
            self.size,
            min_available=self.size,
            dialect=way.dialect,
            namespace=NAMESPACE,
            cpu="1",
            annotations=annotations,
            scheduler=way.scheduler_name,
            gates=way.gates,
        )
        return way.gang(name, members)


def gang_of(pod_name: str) -> str:
    """The gang that a pod's name says it is of.

    >>> gang_of("g0007-worker-3")
    'g0007'
    """
    return pod_name.rpartition(_MEMBER)[0]


_ALL = ("none", "second", "second-gated", "default", "native", "native-alone")

WORKLOADS: Mapping[str, Workload] = {
    one.name: one
    for one in (
        Workload("plain", "1,500 plain pods on 500 nodes", 500, 4, 8, 1500, 1, ("none", "second", "default")),
        Workload("gangs", "100 gangs of 10 on 100 nodes", 100, 4, 12, 100, 10, (*_ALL, "beside", "idle-second"),
                 (COSCHEDULING, VOLCANO)),
        Workload("trios", "300 gangs of 3 on 500 nodes", 500, 4, 8, 300, 3, _ALL, (COSCHEDULING, VOLCANO)),
        Workload("burst", "a burst of 40 pods in 4 gangs on 100 nodes", 100, 4, 12, 4, 10, _ALL,
                 (COSCHEDULING, VOLCANO), live=True),
        Workload("wide", "100 gangs of 4 on 5,000 nodes", 5000, 40, 8, 100, 4, ("none", "none-sampled", "second-gated"),
                 (VOLCANO, VOLCANO_SAMPLED)),
    )
}  # fmt: skip
"""name → load"""

QUICK: Mapping[str, Workload] = {
    "gangs": replace(WORKLOADS["gangs"], words="20 gangs of 10 on 100 nodes", gangs=20, ways=_ALL[:3]),
    "burst": replace(WORKLOADS["burst"], ways=_ALL[:4]),
}
"""The same in small, to see in two minutes that everything runs; too little for a rate to mean anything."""
