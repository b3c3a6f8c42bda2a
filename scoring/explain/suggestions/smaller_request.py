"""Propose a smaller request: the largest amount of one resource with which all missing members have room now.

Steps: each amount that members ask for is lowered alone, in the steps in which a person would write it, and the largest
that fits is found by bisection, by counting beside the gangs ahead. Rule: what is less than a quarter of the request is
another job, and is not proposed. Counting packs members greedily, so it may miss a way; a trial plan decides. Measured
with 5,000 nodes and 40 waiting gangs of 16: an answer of 75 to 100 ms takes 15 to 20 ms longer, its trial included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.explain.suggestions.candidates import Room
from scoring.explain.suggestions.other_jobs import Changes
from scoring.explain.words import quantity
from scoring.feasibility.room import fit_counts
from scoring.ids import ResourceName
from scoring.model import MemberClass
from scoring.model.resources import CPU, PODS
from scoring.network.matrix import Ints
from scoring.plan.steps import Steps
from scoring.what_if import changes as c
from scoring.what_if.pod_templates import with_request

_MOST_KINDS: Final = 8  # Of members, as that many times all nodes are counted; a job has two or three
_MOST_AMOUNTS: Final = 8  # Different amounts of a gang's requests that are looked at
_MOST_PROPOSED: Final = 2
LEAST_PART: Final = 4  # At least a quarter of the request
_BY_BYTES: Final = 2**20  # From such an amount on a resource is counted in bytes, as memory and ephemeral-storage are
_CPU_STEPS: Final = (1000, 500, 100, 10, 1)  # Millicores
_BYTE_STEPS: Final = (2**30, 2**29, 2**26, 2**20, 2**10, 1)


def smaller_requests_in_steps(room: Room) -> Steps[list[Changes]]:
    """The changes, while no member has a node: that first which takes the least of its request away.

    Cost: O(nodes · log nodes) for each of at most eight amounts, mostly once, at most as often as it has bits.
    """
    if room.ask.siblings or not room.ask.need or len(room.wanted) > _MOST_KINDS:
        return []
    gang, axis = room.ask.gang.key, room.run.table.axis
    wanted = [(member_class, len(pods)) for member_class, pods in room.wanted]
    # Huge pages come in sizes that the planner does not know, places for pods are no request of a person.
    amounts = sorted(
        {
            (name, amount)
            for member_class, _ in wanted
            for name, amount in member_class.requests
            if name in axis and name != PODS and not name.startswith("hugepages-")
        }
    )
    found: list[tuple[float, ResourceName, Changes]] = []
    for name, amount in amounts[:_MOST_AMOUNTS]:
        yield
        to = yield from _largest_in_steps(room, wanted, name, amount)
        if to is not None:
            change = c.LowerRequest(gang, name, quantity(name, amount), quantity(name, to))
            found.append((to / amount, name, [change]))
    return [changes for _, _, changes in sorted(found, key=lambda one: (-one[0], one[1]))[:_MOST_PROPOSED]]


def step_of(name: str, amount: int) -> int:
    """In which steps a person would lower an amount: the largest round one that is at most a quarter of it.

    >>> [step_of("cpu", millicores) for millicores in (16_000, 2_000, 500)]
    [1000, 500, 100]
    >>> step_of("memory", 64 * 2**30) == 2**30, step_of("nvidia.com/gpu", 8)
    (True, 1)
    """
    steps = _CPU_STEPS if name == CPU else _BYTE_STEPS if amount >= _BY_BYTES else (1,)
    return next((step for step in steps if step * LEAST_PART <= amount), 1)


def _largest_in_steps(
    room: Room, wanted: Sequence[tuple[MemberClass, int]], name: ResourceName, amount: int
) -> Steps[int | None]:
    """The largest amount below `amount` with which all have room in one of the sets of zones; `None`: there is none."""
    step = step_of(name, amount)
    low, high = max(-(-amount // (LEAST_PART * step)), 1), (amount - 1) // step
    groups = [room.rows(zones) for zones in room.groups]
    best: int | None = None
    while low <= high:
        middle = low if best is None else (low + high + 1) // 2  # The least first: mostly not even that fits
        parts = _parts(room, wanted, name, amount, middle * step)
        able: list[Ints] = []
        for rows in groups:
            if parts is not None and _fits(room.run.capacity.room.free[rows], rows, parts):
                able.append(rows)
            yield
        if able:
            best, low, groups = middle * step, middle + 1, able
        elif best is None:
            return None
        else:
            high = middle - 1
    return best


@dataclass(frozen=True, slots=True)
class _Part:
    """Members of one kind: where they may go, and what one of them asks for."""

    may_go: Ints  # (nodes,): 1, or 0
    request: Ints
    count: int
    most: int  # On one node


def _parts(
    room: Room, wanted: Sequence[tuple[MemberClass, int]], name: ResourceName, amount: int, to: int
) -> list[_Part] | None:
    """`None`: they ask for a resource that no node has."""
    parts: list[_Part] = []
    for member_class, count in wanted:
        request = room.run.table.vector(with_request(member_class, name, amount, to).requests)
        if request is None:
            return None
        may_go = room.run.capacity.mask(member_class).astype(np.int64)  # As the class is now, with what refused it
        parts.append(_Part(may_go, request, count, 1 if member_class.constraints.host_ports else count))
    return parts


def _fits(free: Ints, rows: Ints, parts: Sequence[_Part]) -> bool:
    """Whether all have room on `rows`, of which `free` is free, each kind after the other, on the fewest nodes."""
    free = free.copy()
    for part in parts:
        counts = fit_counts(free, part.request) * part.may_go[rows]
        order = np.argsort(-counts, kind="stable")
        counts = np.minimum(counts[order], part.most)
        here = np.minimum(counts, np.maximum(part.count - (np.cumsum(counts) - counts), 0))
        if int(here.sum()) < part.count:
            return False
        free[order] -= here[:, None] * part.request
    return True
