"""The cluster at one moment, immutable: what every decision is made from; and the room that a plan takes from it.

A decision that reads a live cache can see half of a change. The cache (`extender.cache`) builds one per version, and
the node table again only when nodes change. Arrays are never written after they are built; numpy sees to it.

`Room` counts how many members fit on each node while a plan is being made. Each admission changes a few nodes, and
counting all again for every gang is what makes planners slow: a class's counts are computed once and afterwards only
for the rows that changed, also from run to run. Rule: room only shrinks during a run, so what did not fit once in a run
does not fit later in it.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import attrgetter, or_
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import GangKey, Namespace, NodeName, PodUid, ResourceName, ZoneName
from scoring.model.gang import Gang
from scoring.model.pod import CPU, MEMORY, Constraints, HostPort, MemberClass, Pod, Resources, Taint
from scoring.network.matrix import Ints, NetworkMatrix
from scoring.network.node_links import NodeMark

RowSet: TypeAlias = int  # Rows of a table as the bits of a number: two sets of 5,000 are joined, or cut, in 0.1 µs
_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")  # As which a cordon acts
_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")  # The third effect only asks pods to stay away
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Node(msgspec.Struct, frozen=True):
    """A node as the planner sees it. `allocatable` holds every resource, incl. extended ones and `pods`."""

    name: NodeName
    zone: ZoneName
    allocatable: Resources
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    leaving: bool = False  # Out of service, or an autoscaler is about to remove it (docs/safety.md S12)
    addresses: tuple[str, ...] = ()  # Of `status.addresses`: for mapping to measurement endpoints
    annotations: tuple[tuple[str, str], ...] = ()  # Only those that name measurement endpoints
    created_s: float = 0.0
    mark: NodeMark | None = None  # No evidence for anything: what decides is what is measured

    @property
    def key(self) -> str:
        """What a list of objects calls it."""
        return self.name

    @property
    def barriers(self) -> tuple[Taint, ...]:
        """Taints that keep pods out which do not tolerate them."""
        taints = (*self.taints, _UNSCHEDULABLE) if self.unschedulable else self.taints
        return tuple([taint for taint in taints if taint.effect in _KEEPS_OUT])


class DaemonSet(msgspec.Struct, frozen=True):
    """What an apps DaemonSet will ask of each node that it selects."""

    namespace: Namespace
    name: str
    identity: str  # `NAMESPACE/UID`: a pod can claim any uid for its owner, and not another namespace for itself
    member_class: MemberClass  # Of its pods, with the tolerations that its controller adds
    created_s: float = 0.0
    deleting: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"


def axis_of(names: Iterable[ResourceName]) -> tuple[ResourceName, ...]:
    """Columns for resources of these names; a node that shows no cpu or memory has none, and so they have one, too."""
    return tuple(sorted({CPU, MEMORY, *names}))


def remember(table: dict[K, T], key: K, make: Callable[[], T], *, limit: int = 4096) -> T:
    """Look `key` up, or make and keep its value; the table is emptied when it holds `limit` entries."""
    if (value := table.get(key)) is None:
        value = make()
        if len(table) >= limit:
            table.clear()
        table[key] = value
    return value


def int64(text: str) -> int | None:
    """Read a number as Go's ParseInt does: ASCII digits with a sign, no spaces and no underscores, within int64."""
    number = int(text) if _INTEGER.fullmatch(text) else 2**63
    return number if -(2**63) <= number < 2**63 else None


def row_set(rows: Sequence[int], size: int) -> RowSet:
    """The rows of a table of this size as a set. Cost: O(rows + size / 8); joined one by one each would cost `size`."""
    if len(rows) == 1:
        return 1 << rows[0]
    packed = bytearray(size // 8 + 1)
    for row in rows:
        packed[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(packed, "little")


class LabelIndex:
    """Which of some nodes have which labels, to select among all at once. Cost: O(nodes), and once for a key again.

    With an index from `before` only nodes that are others are read, and keys of which nothing changed are kept.
    """

    def __init__(self, nodes: Sequence[Node], before: "LabelIndex | None" = None) -> None:
        self.all: RowSet = (1 << len(nodes)) - 1
        self._nodes = nodes
        old, keys = (before._nodes, before.keys) if before is not None else ((), set[str]())
        read = dict(zip(map(id, old), before._labels, strict=True)) if before is not None else {}
        self._labels: list[Mapping[str, str]] = [read.get(id(node)) or dict(node.labels) for node in nodes]
        fresh = [row for row, node in enumerate(nodes) if id(node) not in read]
        self.keys: set[str] = keys.union(key for row in fresh for key in self._labels[row])
        self._rows: dict[str, tuple[RowSet, Mapping[str, RowSet]]] = {}
        self._numbers: dict[str, tuple[list[int], list[RowSet]]] = {}
        self.selected: dict[Constraints, tuple[frozenset[str], RowSet]] = {}  # Label keys named, nodes
        if before is not None and len(old) == len(nodes) and all(old[row].name == nodes[row].name for row in fresh):
            changed = {key for row in fresh for key, _ in {*old[row].labels} ^ {*nodes[row].labels}}
            self._rows = {key: rows for key, rows in list(before._rows.items()) if key not in changed}
            self._numbers = {key: rows for key, rows in list(before._numbers.items()) if key not in changed}
            self.selected = {c: (of, at) for c, (of, at) in list(before.selected.items()) if changed.isdisjoint(of)}

    @cached_property
    def names(self) -> Mapping[str, RowSet]:
        """Each node by its name."""
        return {node.name: 1 << row for row, node in enumerate(self._nodes)}

    def rows(self, key: str) -> tuple[RowSet, Mapping[str, RowSet]]:
        """Nodes that have the label; its value → nodes that have it so."""
        if key in self.keys and key not in self._rows:
            listed: dict[str, list[int]] = {}
            for row, labels in enumerate(self._labels):
                if (value := labels.get(key)) is not None:
                    listed.setdefault(value, []).append(row)
            size, every = len(self._labels), [row for rows in listed.values() for row in rows]
            self._rows[key] = row_set(every, size), {value: row_set(rows, size) for value, rows in listed.items()}
        return self._rows.get(key, (0, {}))

    def beyond(self, key: str, operator: str, limit: int) -> RowSet:
        """Nodes whose label `key` is a number above (Gt) or below (Lt) `limit`."""
        if key in self.keys and key not in self._numbers:
            read = ((int64(value), rows) for value, rows in self.rows(key)[1].items())
            ordered = sorted((number, rows) for number, rows in read if number is not None)
            before = accumulate([rows for _, rows in ordered], or_, initial=0)
            self._numbers[key] = [number for number, _ in ordered], list(before)
        numbers, below = self._numbers.get(key, ([], [0]))
        at = bisect_left(numbers, limit if operator == "Lt" else limit + 1)
        return below[at] if operator == "Lt" else below[-1] ^ below[at]


class NodeTable(msgspec.Struct, frozen=True, dict=True):
    """All nodes, sorted by name, with their capacity as a matrix. Equal `version` means equal content."""

    version: int
    nodes: tuple[Node, ...]
    names: tuple[NodeName, ...]
    index: Mapping[NodeName, int]  # node → row
    axis: tuple[ResourceName, ...]  # Columns of `allocatable`: cpu, memory, and every resource of some node, sorted
    allocatable: Ints  # (nodes, resources), in each resource's own unit
    zones: Mapping[ZoneName, Ints]  # zone → rows of its nodes, ascending; zones sorted by name

    @classmethod
    def from_nodes(cls, nodes: Iterable[Node], *, version: int = 1) -> "NodeTable":
        """Build the table. Cost: O(n log n)."""
        ordered = tuple(sorted(nodes, key=attrgetter("name")))
        axis = axis_of(name for node in ordered for name, _ in node.allocatable)
        return cls.filled(ordered, axis, np.zeros((len(ordered), len(axis)), np.int64), range(len(ordered)), version)

    @classmethod
    def filled(
        cls, nodes: tuple[Node, ...], axis: tuple[ResourceName, ...], amounts: Ints, rows: Iterable[int], version: int
    ) -> "NodeTable":
        """The table of sorted nodes; `amounts` is their capacity, with zeros in `rows`: to be filled. Cost: O(n)."""
        column = {name: i for i, name in enumerate(axis)}
        for row in rows:
            for name, amount in nodes[row].allocatable:
                amounts[row, column[name]] = amount
        rows_of: dict[ZoneName, list[int]] = {}
        for row, node in enumerate(nodes):
            rows_of.setdefault(node.zone, []).append(row)
        names = tuple([node.name for node in nodes])
        index = dict(zip(names, range(len(names)), strict=True))
        zones = {zone: np.array(rows_of[zone], np.int64) for zone in sorted(rows_of)}
        for array in (amounts, *zones.values()):
            array.flags.writeable = False
        return cls(version, nodes, names, index, axis, amounts, zones)

    def after(self, before: "NodeTable") -> "NodeTable":
        """Itself, with what was read of the nodes' labels in `before`: all of 5,000 nodes take 20 ms."""
        if "labels" in vars(before):
            vars(self)["labels"] = LabelIndex(self.nodes, before.labels)
        return self

    @cached_property
    def labels(self) -> LabelIndex:
        """The nodes by their labels and names."""
        return LabelIndex(self.nodes)

    @cached_property
    def barriers(self) -> Mapping[tuple[Taint, ...], RowSet]:
        """Taints that keep pods out → nodes with these; without nodes that can run no pods (docs/safety.md S12)."""
        alike: dict[tuple[tuple[Taint, ...], bool], list[int]] = {}
        for row, node in enumerate(self.nodes):
            if node.ready and not node.leaving:
                alike.setdefault((node.taints, node.unschedulable), []).append(row)
        rows_of: dict[tuple[Taint, ...], RowSet] = {}
        for rows in alike.values():
            taints = self.nodes[rows[0]].barriers
            rows_of[taints] = rows_of.get(taints, 0) | row_set(rows, len(self.nodes))
        return rows_of

    @cached_property
    def masks(self) -> dict[Constraints, NDArray[np.bool_]]:
        """What `scoring.feasibility.filters.allowed_nodes` remembers."""
        return {}

    def vector(self, requests: Resources) -> Ints:
        """The request as a row over `axis`, without what no node's allocatable shows: kube-scheduler counts that."""
        row = np.zeros(len(self.axis), np.int64)
        for name, amount in requests:
            if name in self.axis:
                row[self.axis.index(name)] = amount
        return row

    def footprint(self, pods: Iterable[Pod], places: Mapping[PodUid, NodeName] | None = None) -> tuple[Ints, Ints]:
        """Rows (k,) where the pods are, or by `places` will be, ascending, and what they take there (k, resources)."""
        where: dict[Resources, list[int]] = {}
        for pod in pods:
            node = pod.node if places is None else places.get(pod.uid)
            row = self.index.get(node) if node is not None else None
            if row is not None:
                where.setdefault(pod.member_class.requests, []).append(row)
        rows = np.unique(np.array([row for at in where.values() for row in at], np.int64))
        amounts = np.zeros((len(rows), len(self.axis)), np.int64)
        for requests, at in where.items():
            amounts += np.bincount(np.searchsorted(rows, at), minlength=len(rows))[:, None] * self.vector(requests)
        return rows, amounts

    def uncounted(self, requests: Resources) -> tuple[ResourceName, ...]:
        """Resources of the request that no node's allocatable shows (DRA, say): of them only kube-scheduler knows."""
        return tuple(name for name, _ in requests if name not in self.axis)


class Reservation(msgspec.Struct, frozen=True):
    """Room that no other gang is given, because gang `gang` is to have it; where it stands says which kind it is.

    - `Snapshot.commitments`: an admission that is under way (first member at bind, or first gate removed), until it is
      bound or lapses. The planner takes it as given, ahead of every gang that is not committed (docs/safety.md S4).
    - `Snapshot.claims`: room that others gave up, or are about to, until the gang has its nodes or its controller
      removes it.
    - `Plan.reservations`: room of a gang that is STARVING (docs/safety.md S14), or for which others leave.
    - `Plan.promise`: places in which a gang starts later, and which others may use until then.
    """

    gang: GangKey
    assignment: Mapping[PodUid, NodeName] = {}  # Members not yet bound → the node of each, once all is free
    givers: tuple[GangKey, ...] = ()  # Gangs that leave for it
    zones: tuple[ZoneName, ...] = ()  # As planned; one, if a start is promised
    nodes: frozenset[NodeName] = frozenset()  # Of a late promise more than those of `assignment`, else the same
    start_s: float = float("inf")  # Unix seconds, as it is expected now; infinite: no start is promised
    first_s: float = float("inf")  # As it was promised first
    after: GangKey | None = None  # The gang whose end it waits for last
    ending: frozenset[GangKey] = frozenset()  # Gangs whose room is counted on, as they end by `start_s`

    def __post_init__(self) -> None:
        if not self.nodes:
            msgspec.structs.force_setattr(self, "nodes", frozenset(self.assignment.values()))


class Snapshot(msgspec.Struct, frozen=True):
    """Everything the planner reads, at one version of the cluster."""

    version: int
    table: NodeTable
    used: Ints  # (nodes, resources): requests of unfinished pods on each node or nominated to it (docs/safety.md S12)
    host_ports: Mapping[NodeName, frozenset[HostPort]] = {}
    gangs: Mapping[GangKey, Gang] = {}  # Own ones; native ones, too, for their zone and score
    commitments: Mapping[GangKey, Reservation] = {}
    exclusions: Mapping[MemberClass, frozenset[NodeName]] = {}
    """Member class without node affinity → nodes that filters we do not model refused (docs/safety.md S7)."""
    backing_off_until_s: Mapping[GangKey, float] = {}  # gang → until when it may not reserve again (docs/safety.md S5)
    claims: Mapping[GangKey, Reservation] = {}  # waiting gang → the room that others leave for it
    attained_h: Mapping[GangKey, float] = {}  # Cluster-hours it had before it was suspended
    network: NetworkMatrix = msgspec.field(default_factory=NetworkMatrix)

    def without(self, pods: Sequence[Pod], *, ports: bool = False) -> "Snapshot":
        """The same as if the pods used nothing; their host ports stay taken, unless `ports`. Cost: O(nodes + pods)."""
        if not pods:
            return self
        rows, amounts = self.table.footprint(pods)
        used, host_ports = self.used.copy(), dict(self.host_ports)
        used[rows] -= amounts
        for pod in pods if ports else ():
            mine = pod.member_class.constraints.host_ports
            if mine and pod.node is not None and pod.node in host_ports:  # a port has one user on a node
                host_ports[pod.node] = host_ports[pod.node].difference(mine)
        return replace(self, used=used, host_ports=host_ports)

    def excluded(self, member_class: MemberClass) -> frozenset[NodeName]:
        """Nodes that refuse the class, or its like before an admission narrowed its affinity (docs/safety.md S27)."""
        return self.exclusions.get(member_class.anywhere, frozenset()) if self.exclusions else frozenset()


MOST_ON_A_NODE: Final = 2**31 - 1  # What nothing limits, a request of nothing at all, fits so many times


def fit_counts(free: Ints, request: Ints) -> Ints:
    """How many times `request` (r,) fits into each row of `free` (n, r); (n,), from 0 to `MOST_ON_A_NODE`."""
    fits = np.full(len(free), MOST_ON_A_NODE, np.int64)
    for column in np.flatnonzero(request).tolist():  # of a copy numpy divides several at once
        np.minimum(fits, free[:, column].copy() // int(request[column]), out=fits)
    return np.maximum(fits, 0, out=fits)


def rows_with(matrix: NDArray[np.generic]) -> Ints:
    """Rows of a matrix with anything but 0 in them, ascending: several times as fast as `any` over short rows."""
    rows = np.flatnonzero(matrix != 0) // max(matrix.shape[1], 1)
    return np.asarray(rows[np.diff(rows, prepend=-1) > 0])  # ascending anyway


def scatter_add(total: Ints, rows: Ints, amounts: Ints) -> None:
    """Add `amounts` (k, resources) to `rows` (k,) of `total` (n, resources), in place; a row named twice gets both."""
    if not total.flags.c_contiguous:
        raise ValueError("total must be contiguous")
    columns = total.shape[1]
    np.add.at(total.reshape(-1), (rows[:, None] * columns + np.arange(columns)).reshape(-1), amounts.reshape(-1))


class Room:
    """Free amounts (nodes, resources) of one planner run; the only mutable thing in a run, and private to it."""

    __slots__ = ("_begun", "_changed", "_counts", "_since", "free", "table")

    def __init__(self, free: Ints) -> None:
        self.free = np.array(free, np.int64, order="C")
        self._changed: list[int] = []
        self._counts: dict[bytes, tuple[Ints, int]] = {}  # Request → its counts, and how many changes they know of
        self._since: tuple[int, int, Ints] = (0, 0, np.zeros(0, np.int64))  # Rows of the changes between two numbers
        self.table: NodeTable | None = None
        self._begun = 0  # Changes before the run

    @classmethod
    def after(cls, before: "Room | None", table: NodeTable, free: Ints) -> "Room":
        """The room of the next run, which counts again only on nodes that changed; `before` has to count anew."""
        room = cls(free)
        room.table = table
        old = before.table if before is not None else None
        if before is None or old is None or old.axis != table.axis or not len(before.free) or not len(free):
            return room
        counts = {key: (there, seen - before._begun) for key, (there, seen) in before._counts.items()}
        changed, was, new = np.array(before._changed[before._begun :], np.int64), before.free, np.zeros(0, np.int64)
        if old.names != table.names:
            row_of = np.array([old.index.get(name, -1) for name in table.names], np.int64)
            new = np.flatnonzero(row_of < 0)
            now_at = np.zeros(len(was), np.int64)  # what is gone counts as the first row: it is counted in vain
            now_at[row_of[row_of >= 0]] = np.flatnonzero(row_of >= 0)
            changed, was = now_at[changed], was[row_of]
            counts = {key: (there[row_of], seen) for key, (there, seen) in counts.items() if seen >= 0}
        room._counts = {key: entry for key, entry in counts.items() if entry[1] >= 0}  # what `before` was asked for
        room._changed = [*changed.tolist(), *new.tolist(), *rows_with(was != room.free).tolist()]
        room._begun = len(room._changed)
        before._counts = {}
        return room

    def take(self, rows: Sequence[int], request: Ints) -> None:
        """Subtract `request` from each of `rows` (a row named twice is taken twice)."""
        np.subtract.at(self.free, np.array(rows, np.int64), request)
        self._changed.extend(rows)

    def take_places(self, rows: Ints, amounts: Ints) -> None:
        """Subtract `amounts` (rows, resources) from `rows`, of which some may be the same."""
        scatter_add(self.free, rows, -amounts)
        self._changed.extend(rows.tolist())

    def shift(self, amounts: Ints) -> None:
        """Subtract `amounts` (nodes, resources) everywhere."""
        rows = rows_with(amounts)
        self.take_places(rows, amounts[rows])

    @property
    def moment(self) -> int:
        """How many changes of single rows there were: equal means nothing changed."""
        return len(self._changed)

    def changed_since(self, moment: int) -> Ints:
        """Rows that changed since then, ascending."""
        if self._since[:2] != (moment, len(self._changed)):
            rows = np.unique(np.array(self._changed[moment:], np.int64))
            self._since = (moment, len(self._changed), rows)
        return self._since[2]

    def counts(self, request: Ints) -> Ints:
        """`fit_counts` of the room now; not to be written. Cost: O(nodes) first, O(changed rows) afterwards."""
        key, now = request.tobytes(), len(self._changed)
        cached = self._counts.get(key)
        if cached is None:
            counts = fit_counts(self.free, request)
        elif cached[1] == now:
            return cached[0]
        else:
            counts, seen = cached
            rows = self.changed_since(seen)
            counts[rows] = fit_counts(self.free[rows], request)
        self._counts[key] = (counts, now)
        return counts
