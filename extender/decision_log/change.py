"""What is new from one snapshot to the next, and the next snapshot from the one before and what is new.

Why: a snapshot of 5,000 nodes is megabytes, and from one planner run to the next a handful of pods changed. Rule:
`applied(before, between(before, after))` equals `after` in everything that decides; equal parts are found by identity
first, because the cache shares what did not change. Cost of both: O(nodes + gangs), tiny beside a planner run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from scoring.ids import GangKey, NodeName, ResourceName
from scoring.model import Claim, Commitment, Gang, HostPort, MemberClass, Node, NodeTable, Snapshot
from scoring.network.matrix import Ints, NetworkMatrix

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of `used` by node; `values` are one row after the other."""

    nodes: tuple[NodeName, ...]
    values: Ints


@dataclass(frozen=True, slots=True)
class Change:
    """From one snapshot to the next; `None`: as before."""

    version: int
    table_version: int
    nodes: tuple[Node, ...]  # New or different
    nodes_gone: tuple[NodeName, ...]
    used: Rows
    gangs: tuple[Gang, ...]
    gangs_gone: tuple[GangKey, ...]
    host_ports: Mapping[NodeName, frozenset[HostPort]] | None
    commitments: tuple[Commitment, ...] | None
    exclusions: tuple[tuple[MemberClass, frozenset[NodeName]], ...] | None
    backing_off_until_s: Mapping[GangKey, float] | None
    claims: tuple[Claim, ...] | None
    network: NetworkMatrix | None
    uncounted: frozenset[ResourceName] | None = None
    attained_h: Mapping[GangKey, float] | None = None


NOTHING = Snapshot(0, NodeTable.of((), version=0), np.zeros((0, 0), np.int64))  # The snapshot before the first


def between(before: Snapshot, after: Snapshot) -> Change:
    """What is new in `after`."""
    nodes, nodes_gone = (), ()  # type: tuple[Node, ...], tuple[NodeName, ...]
    if before.table is not after.table:
        old, new = ({node.name: node for node in one.table.nodes} for one in (before, after))
        nodes, nodes_gone = _differing(old, new)
    gangs, gangs_gone = _differing(before.gangs, after.gangs)
    commitments, claims = _other(before.commitments, after.commitments), _other(before.claims, after.claims)
    exclusions = _other(before.exclusions, after.exclusions)
    return Change(
        version=after.version,
        table_version=after.table.version,
        nodes=nodes,
        nodes_gone=nodes_gone,
        used=_used(before, after),
        gangs=gangs,
        gangs_gone=gangs_gone,
        host_ports=_other(before.host_ports, after.host_ports),
        commitments=None if commitments is None else tuple(commitments.values()),
        exclusions=None if exclusions is None else tuple(exclusions.items()),
        backing_off_until_s=_other(before.backing_off_until_s, after.backing_off_until_s),
        claims=None if claims is None else tuple(claims.values()),
        network=after.network if after.network is not before.network else None,
        uncounted=_other(before.table.uncounted, after.table.uncounted),
        attained_h=_other(before.attained_h, after.attained_h),
    )


def applied(before: Snapshot, change: Change) -> Snapshot:
    """The next snapshot. ValueError when the change does not belong to `before`."""
    table = before.table
    if change.nodes or change.nodes_gone or change.table_version != table.version or change.uncounted is not None:
        named = _renewed("node", {node.name: node for node in table.nodes}, change.nodes_gone)
        named.update((node.name, node) for node in change.nodes)
        uncounted = table.uncounted if change.uncounted is None else change.uncounted
        table = NodeTable.of(named.values(), version=change.table_version, uncounted=uncounted)
    gangs = _renewed("gang", before.gangs, change.gangs_gone)
    gangs.update((gang.key, gang) for gang in change.gangs)
    new: dict[str, Any] = {
        "host_ports": change.host_ports,
        "commitments": None if change.commitments is None else {one.gang: one for one in change.commitments},
        "exclusions": None if change.exclusions is None else dict(change.exclusions),
        "backing_off_until_s": change.backing_off_until_s,
        "claims": None if change.claims is None else {one.gang: one for one in change.claims},
        "network": change.network,
        "attained_h": change.attained_h,
    }
    return replace(
        before,
        version=change.version,
        table=table,
        used=_with_rows(before, table, change.used),
        gangs=gangs,
        **{name: value for name, value in new.items() if value is not None},
    )


def _differing(
    before: Mapping[_Key, _Value], after: Mapping[_Key, _Value]
) -> tuple[tuple[_Value, ...], tuple[_Key, ...]]:
    new = tuple(value for key, value in after.items() if (old := before.get(key)) is not value and old != value)
    return new, tuple(key for key in before if key not in after)


def _other(before: _Value, after: _Value) -> _Value | None:
    return None if before is after or before == after else after


def _renewed(what: str, before: Mapping[_Key, _Value], gone: Iterable[_Key]) -> dict[_Key, _Value]:
    left = dict(before)
    for key in gone:
        if left.pop(key, None) is None:
            raise ValueError(f"{what} {key} leaves, and was not there")
    return left


def _used(before: Snapshot, after: Snapshot) -> Rows:
    """Rows that differ; all of them where the nodes or their resources are others."""
    if before.table.names == after.table.names and before.table.axis == after.table.axis:
        if before.used is after.used:
            return Rows((), np.zeros((0, len(after.table.axis)), np.int64))
        rows = np.flatnonzero((before.used != after.used).any(axis=1)).tolist()
    else:
        rows = list(range(len(after.table.names)))
    return Rows(tuple(after.table.names[row] for row in rows), np.ascontiguousarray(after.used[rows]))


def _with_rows(before: Snapshot, table: NodeTable, rows: Rows) -> Ints:
    if before.table.names == table.names and before.table.axis == table.axis:
        used = before.used.copy()
    else:
        used = np.zeros((len(table.names), len(table.axis)), np.int64)
    if rows.nodes:
        used[[table.index[node] for node in rows.nodes]] = rows.values.reshape(len(rows.nodes), len(table.axis))
    return used
