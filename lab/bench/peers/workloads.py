"""The loads: which pods arrive on which nodes, and when.

Why fixed: a figure can be repeated by others only if the load has a name. All pods exist before anything schedules: how
fast is a full queue emptied? Rule: a load is the same for every way, down
to the names of its pods; what a way adds is a label, a gate or a scheduler's name. A way without gangs binds the same
pods without anything that holds them together, so partial gangs are counted for every way alike.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from lab.bench.peers.ways import COSCHEDULING, VOLCANO, Way
from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes

NAMESPACE = "bench"


class Workload(msgspec.Struct, frozen=True):
    """Nodes and pods, and which ways are measured by default; the first one is the reference."""

    name: str
    words: str
    nodes: int
    zones: int
    node_cpu: int
    gangs: int
    size: int
    ways: tuple[str, ...]
    """Those of other schedulers take part where they are built."""

    @property
    def pods(self) -> int:
        """Of all gangs."""
        return self.gangs * self.size

    def node_objects(self) -> list[Object]:
        """Equal nodes, the same number in each zone."""
        zones = {f"zone-{number:02d}": self.nodes // self.zones for number in range(self.zones)}
        return zone_nodes(zones, cpu=str(self.node_cpu), memory="256Gi")

    def backlog(self, way: Way) -> list[Object]:
        """The objects of all gangs, gang after gang: groups where they are needed, and pods."""
        names = [f"g{number:04d}" for number in range(self.gangs)]
        gangs = (way.gang(name, way.members(name, self.size, NAMESPACE, cpu="1")) for name in names)
        return [one for gang in gangs for one in gang]


def gang_of(pod_name: str) -> str:
    """The gang that a pod's name says it is of.

    >>> gang_of("g0007-worker-3")
    'g0007'
    """
    return pod_name.rpartition("-worker-")[0]


WORKLOADS: Mapping[str, Workload] = {
    one.name: one
    for one in (
        Workload(
            "gangs", "100 gangs of 10 on 100 nodes", 100, 4, 12, 100, 10,
            (
                *("none", "second", "second-gated", "default", "native", "native-alone", "beside", "idle-second"),
                *(COSCHEDULING, VOLCANO),
            ),
        ),
        Workload("wide", "100 gangs of 4 on 5,000 nodes", 5000, 40, 8, 100, 4,
                 ("none", "none-sampled", "second-gated", VOLCANO)),
    )
}  # fmt: skip
"""name → load"""

QUICK: Mapping[str, Workload] = {
    "gangs": replace(
        WORKLOADS["gangs"],
        words="20 gangs of 10 on 100 nodes",
        gangs=20,
        ways=("none", "second", "second-gated", "default"),
    )
}
"""The same in small, to see in two minutes that everything runs; too little for a rate to mean anything."""
