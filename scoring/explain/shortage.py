"""What a set of nodes lacks for a demand: which resource, how much, on which nodes, and which members fit on none.

Rule: members are placed one after the other where they fit, the rest where least is missing; so the amounts suffice,
and on equal terms no smaller ones would. Whether they really help is for the planner to say (`unblock`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scoring.feasibility.room import fit_counts
from scoring.ids import NodeName, ResourceName
from scoring.model import MemberClass
from scoring.network.matrix import Ints
from scoring.plan import Run


@dataclass(frozen=True, slots=True)
class Shortage:
    """How much more of one resource is needed."""

    resource: ResourceName
    amount: int
    """In the resource's own unit: millicores for cpu."""
    nodes: tuple[tuple[NodeName, int], ...]
    """On which nodes, by name; together `amount`."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What is missing for a demand on some nodes."""

    fits: int
    """Members that have room."""
    shortages: tuple[Shortage, ...]
    """What the others need on nodes that they may go to, by resource."""
    homeless: tuple[tuple[MemberClass, int], ...]
    """Members that may go to none of the nodes."""

    @property
    def none(self) -> bool:
        """Whether every member has room, each kind after the other."""
        return not (self.shortages or self.homeless)


def lack_of(run: Run, classes: Sequence[tuple[MemberClass, int]], rows: Ints) -> Lack:
    """What `rows` of the node table lack for members of these classes, in the run's room as it is now.

    Cost: O(nodes · resources) for each class and each time round that members find all nodes full.
    """
    axis = _axis(run, classes)
    free = np.zeros((len(rows), len(axis)), np.int64)
    free[:, : len(run.table.axis)] = run.capacity.room.free[rows]
    more = np.zeros_like(free)
    ports = np.zeros(len(rows), np.bool_)
    """Nodes on which a member with host ports was placed: the next one needs another"""
    fits = 0
    homeless: list[tuple[MemberClass, int]] = []
    for member_class, count in classes:
        request = np.zeros(len(axis), np.int64)
        for name, amount in member_class.requests:
            request[axis.index(name)] = amount
        allowed = run.capacity.mask(member_class)[rows]
        single = bool(member_class.constraints.host_ports)
        left = count
        counts = np.where(allowed & ~(ports & single), fit_counts(free, request), 0)
        for i in np.lexsort((np.arange(len(rows)), -counts)).tolist():
            here = min(int(counts[i]), 1 if single else left, left)
            if not here:
                break
            free[i] -= here * request
            ports[i] |= single
            left -= here
            fits += here
        while left:
            open_rows = np.flatnonzero(allowed & ~(ports & single))
            if not len(open_rows):
                homeless.append((member_class, left))
                break
            short = np.maximum(request - free[open_rows], 0)
            short[:, request == 0] = 0
            cost = (short / np.maximum(request, 1)).sum(axis=1)
            for at in np.lexsort((open_rows, cost))[:left].tolist():
                i = int(open_rows[at])
                more[i] += short[at]
                free[i] += short[at] - request
                ports[i] |= single
                left -= 1
    return Lack(fits, _shortages(run, rows, axis, more), tuple(homeless))


def _axis(run: Run, classes: Sequence[tuple[MemberClass, int]]) -> tuple[ResourceName, ...]:
    """The table's resources, and those that no node has, sorted."""
    known = run.table.axis
    asked = {name for member_class, _ in classes for name, _ in member_class.requests}
    return (*known, *sorted(asked.difference(known)))


def _shortages(run: Run, rows: Ints, axis: Sequence[ResourceName], more: Ints) -> tuple[Shortage, ...]:
    found: list[Shortage] = []
    for column, resource in enumerate(axis):
        at = np.flatnonzero(more[:, column])
        if len(at):
            nodes = tuple((run.table.names[int(rows[i])], int(more[i, column])) for i in at.tolist())
            found.append(Shortage(resource, int(more[:, column].sum()), nodes))
    return tuple(sorted(found, key=lambda one: one.resource))
