"""The loads: which pods arrive on which nodes, and when.

Why fixed: a figure can be repeated by others only if the load has a name. Rule: a load is the same for every way, down
to the names of its pods; what a way adds is a label, a gate, a scheduler's name or a resource. A way without
gangs binds the same pods without anything that holds them together, so partial gangs are counted for every way alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from lab.bench.peers.others import COSCHEDULING, KUEUE, VOLCANO, VOLCANO_SAMPLED
from lab.bench.peers.ways import Way
from lab.testbed.api import Object
from lab.testbed.objects import gang_pods, pod, zone_nodes

NAMESPACE = "bench"
_MEMBER = "-worker-"
_MEMORY = "256Gi"
_OVERSIZED = "oversized"


class Arrival(StrEnum):
    """When the pods come, and what is asked of them."""

    BACKLOG = "backlog"
    """All pods exist before anything schedules: how fast is a full queue emptied?"""
    LIVE = "live"
    """Everything runs and waits; then all pods are created at once: how long does a user wait?"""
    NEVER = "never"
    """One gang that never fits waits, while single pods come and go: what do they pay for it?"""
    ROOMS = "rooms"
    """The cluster is full and gangs wait; room for one is freed again and again: how soon is it used?"""


@dataclass(frozen=True, slots=True)
class Workload:
    """Nodes and pods. `pairs` is how often each way is measured by default."""

    name: str
    words: str
    nodes: int
    zones: int
    node_cpu: int
    gangs: int
    size: int
    ways: tuple[str, ...]
    """Names of the ways that are measured unless others are asked for; the first one is the reference."""
    arrival: Arrival = Arrival.BACKLOG
    pairs: int = 3
    """Ways without a goal about speed are measured in the first `FEW` rounds only."""
    peers: tuple[str, ...] = ()
    """Other schedulers that take part by themselves where they are built."""
    rounds: int = 0
    """Pods that come and go, or rooms that are freed."""
    api_share: float = 1.0
    """The share of the time in which the API server runs while the load is scheduled; it stands still in between."""
    cpu: int = 1
    """CPUs of each member of a gang."""
    oversized: bool = False
    """Whether a gang that never fits is there first."""

    tenants = MappingProxyType[str, int]({})
    """There are none."""

    @property
    def pods(self) -> int:
        """Pods of the backlog or burst, or those that come one by one."""
        return self.rounds if self.arrival is Arrival.NEVER else self.gangs * self.size

    @property
    def warms_up(self) -> bool:
        """Whether one half is thrown away first, because it finds a cold API server."""
        return self.arrival in (Arrival.BACKLOG, Arrival.LIVE) and self.api_share == 1.0

    @property
    def half_s(self) -> float:
        """How long one way takes once, seconds: an estimate for two cores, for the bar and the expected duration."""
        match self.arrival:
            case Arrival.ROOMS:
                return 8.0 + 0.6 * self.rounds
            case Arrival.NEVER:
                return 9.0 + self.rounds / CHURN_PER_S
            case Arrival.BACKLOG | Arrival.LIVE:
                return 4.0 + self.pods * (0.005 if self.nodes < 1000 else 0.011) / self.api_share

    def node_objects(self) -> list[Object]:
        """Equal nodes, the same number in each zone."""
        per_zone = self.nodes // self.zones
        zones = {f"zone-{number:02d}": per_zone for number in range(self.zones)}
        return zone_nodes(zones, cpu=str(self.node_cpu), memory=_MEMORY)

    def backlog(self, way: Way) -> list[Object]:
        """The objects of all gangs, gang after gang."""
        return [one for number in range(self.gangs) for one in self.gang(number, way)]

    def gang(self, number: int, way: Way) -> list[Object]:
        """The objects of one gang as this way wants them: its pods, and a PodGroup before them where one is needed."""
        name = f"g{number:04d}"
        if self.size == 1:
            return self.single(f"{name}{_MEMBER}0", way)
        return _gang(name, self.size, self.cpu, way)

    def never_fitting(self, way: Way) -> list[Object]:
        """The objects of the oversized gang: one member more than there are nodes, each more than half of a node."""
        return _gang(_OVERSIZED, self.size_of(_OVERSIZED), self.node_cpu // 2 + 1, way) if self.oversized else []

    def size_of(self, gang: str) -> int:
        """Members of a gang of this name."""
        return self.nodes + 1 if gang == _OVERSIZED else self.size

    def single(self, name: str, way: Way) -> list[Object]:
        """A pod of one CPU that belongs to no gang, or to its own where every pod has one."""
        groups = way.groups(name, 1, NAMESPACE) if way.volcano else []
        one = pod(name, namespace=NAMESPACE, cpu="1", scheduler=way.scheduler_name, annotations=way.annotations(name))
        return [*groups, one]


def _gang(name: str, size: int, cpu: int, way: Way) -> list[Object]:
    members = gang_pods(
        name,
        size,
        min_available=size,
        dialect=way.dialect,
        namespace=NAMESPACE,
        cpu=str(cpu),
        annotations=way.annotations(name),
        scheduler=way.scheduler_name,
        gates=way.gates,
    )
    return way.gang(name, members)


FEW = 2
"""Rounds in which a way is measured that no goal about speed speaks of."""
CHURN_PER_S = 10.0
"""Pods that come each second beside a gang that never fits."""
SETUP_S = 12.0
"""To start the control plane and make the nodes of one workload, seconds; 100 nodes more take half a second more."""


def gang_of(pod_name: str) -> str:
    """The gang that a pod's name says it is of.

    >>> gang_of("g0007-worker-3")
    'g0007'
    """
    return pod_name.rpartition(_MEMBER)[0]


def expected_s(workload: Workload, *, halves: int) -> float:
    """How long a workload takes, seconds: so many halves, and one more that warms the API server up.

    >>> round(expected_s(WORKLOADS["burst"], halves=6))
    42
    """
    warm = 1 if workload.warms_up else 0
    return SETUP_S + workload.nodes / 200.0 + (halves + warm) * workload.half_s


_ALL = ("none", "echo", "second", "second-gated", "default")
_NATIVE = ("native", "native-alone")

WORKLOADS: Mapping[str, Workload] = {
    one.name: one
    for one in (
        Workload(
            "plain", "1,500 plain pods on 500 nodes", 500, 4, 8, 1500, 1,
            ways=("none", "echo", "second", "default"), pairs=5,
        ),
        Workload(
            "gangs", "100 gangs of 10 on 100 nodes", 100, 4, 12, 100, 10,
            ways=(*_ALL, *_NATIVE, "beside", "idle-second"), pairs=5, peers=(COSCHEDULING, VOLCANO, KUEUE),
        ),
        Workload(
            "trios", "300 gangs of 3 on 500 nodes", 500, 4, 8, 300, 3,
            ways=(*_ALL, *_NATIVE), pairs=5, peers=(COSCHEDULING, VOLCANO, KUEUE),
        ),
        Workload("large", "20 gangs of 50 on 100 nodes", 100, 4, 12, 20, 50, ways=_ALL),
        Workload(
            "volcano", "10 jobs of 100 on 100 nodes of 32 CPUs, submitted to a running scheduler", 100, 4, 32, 10, 100,
            ways=("none", "second", "second-gated", "default"), arrival=Arrival.LIVE,
        ),
        Workload(
            "burst", "a burst of 40 pods in 4 gangs on 100 nodes", 100, 4, 12, 4, 10,
            ways=(*_ALL, *_NATIVE), arrival=Arrival.LIVE, peers=(COSCHEDULING, VOLCANO),
        ),
        Workload(
            "oversized", "40 gangs of 10 behind one of 101 that never fits, on 100 nodes", 100, 4, 12, 40, 10,
            ways=("none", "second", "second-gated", *_NATIVE), peers=(COSCHEDULING, VOLCANO), oversized=True,
        ),
        Workload(
            "never", "a gang of 60 that never fits on 40 nodes, while 150 pods come and go", 40, 4, 4, 1, 60,
            ways=("none", "second", "second-gated"), arrival=Arrival.NEVER, rounds=150, pairs=1, cpu=3,
        ),
        Workload(
            "slow", "20 gangs of 10 on 100 nodes while the API server runs for a tenth of the time",
            100, 4, 12, 20, 10, ways=("none", "second", "default"), pairs=1, api_share=0.1,
        ),
        Workload(
            "wide", "100 gangs of 4 on 5,000 nodes", 5000, 40, 8, 100, 4,
            ways=("none", "none-sampled", "second-gated"), pairs=5, peers=(VOLCANO, VOLCANO_SAMPLED),
        ),
        Workload(
            "rooms", "room for one gang of 4 is freed while 300 gangs wait", 100, 4, 2, 300, 4,
            ways=("second-gated",), arrival=Arrival.ROOMS, rounds=60, pairs=1, cpu=2,
        ),
    )
}  # fmt: skip
"""name → load; the names of issue trackers and papers that use the same load are in its words"""

QUICK: Mapping[str, Workload] = {
    "plain": replace(WORKLOADS["plain"], words="300 plain pods on 100 nodes", nodes=100, gangs=300, pairs=1),
    "gangs": replace(
        WORKLOADS["gangs"], words="20 gangs of 10 on 100 nodes", gangs=20, pairs=1,
        ways=("none", "echo", "second", "second-gated"),
    ),
    "burst": replace(WORKLOADS["burst"], ways=("none", "second", "default"), pairs=1),
    "oversized": replace(
        WORKLOADS["oversized"], words="10 gangs of 10 behind one of 101 that never fits, on 100 nodes", gangs=10,
        pairs=1,
    ),
    "never": replace(
        WORKLOADS["never"], words="a gang of 60 that never fits on 40 nodes, while 50 pods come and go",
        ways=("none", "second-gated"), rounds=50,
    ),
    "rooms": replace(
        WORKLOADS["rooms"], words="room for one gang of 4 is freed while 50 gangs wait", gangs=50, rounds=5
    ),
}  # fmt: skip
"""The same in small, to see in a few minutes that everything runs; too little for a rate to mean anything."""


def chosen(names: Sequence[str], *, quick: bool) -> list[Workload]:
    """The workloads of these names (none: all), in the table's order; `quick`: the small ones.

    >>> [one.pods for one in chosen(["burst"], quick=False)]
    [40]
    """
    table = QUICK if quick else WORKLOADS
    return [one for name, one in table.items() if not names or name in names]
