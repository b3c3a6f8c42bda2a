"""What a gang takes at the place that an earlier plan gave it, and whether it can have that place again.

Why kept: after one event nearly all gangs keep their places, and what these take is the same; finding it again costs a
run 14 ms for 800 gangs (docs/adr/0006-planner-caches.md).
"""

from collections import Counter

import numpy as np

from scoring.model import MemberClass
from scoring.network.matrix import Ints
from scoring.plan.cache import Footprint
from scoring.plan.demand import GangDemand
from scoring.plan.result import Admission
from scoring.plan.run import Run


def footprint(run: Run, demand: GangDemand, before: Admission) -> Footprint | None:
    """What the pending members of `before` take; `None` when a node or a resource is gone."""
    layout = run.view.layout
    known = run.cache.footprints.get(demand.gang.key)
    same = known is not None and known.demand is demand and known.members is before.members and known.layout == layout
    if known is not None and same and known.zones == before.zones:
        return known
    made = _footprint(run, demand, before)
    if made is not None:
        run.cache.footprints[demand.gang.key] = made
    return made


def take_again(run: Run, demand: GangDemand, before: Admission) -> bool:
    """Take the room of a place given earlier, if all of the gang's minimum set still fits there; else nothing."""
    if any(pod.uid not in before.members for _, pods in demand.need for pod in pods):
        return False
    known = footprint(run, demand, before)
    if known is None or not known.used.issubset(before.zones):
        return False  # where a node's zone has changed the gang would not be together any more
    room = run.capacity.room
    for member_class, rows, amounts in known.parts:
        if not run.capacity.mask(member_class)[rows].all() or (amounts > np.maximum(room.free[rows], 0)).any():
            return False
    taken: list[tuple[Ints, Ints]] = []
    for _, rows, amounts in known.parts:
        # Classes may share nodes: each is checked again with the ones before it taken.
        if taken and (amounts > np.maximum(room.free[rows], 0)).any():
            for old_rows, old_amounts in taken:
                room.give(old_rows, old_amounts)
            return False
        room.take_many(rows, amounts)
        taken.append((rows, amounts))
    for member_class, rows, _ in known.parts:
        run.capacity.ports_taken(member_class, rows)
    run.capacity.count(known.used)
    return True


def _footprint(run: Run, demand: GangDemand, before: Admission) -> Footprint | None:
    ground = run.view
    index, members = ground.table.index, before.members
    parts: list[tuple[MemberClass, Ints, Ints]] = []
    pending, placed = 0, 0
    for member_class, pods in (*demand.need, *demand.more):
        nodes = [members[pod.uid] for pod in pods if pod.uid in members]
        pending, placed = pending + len(pods), placed + len(nodes)
        if not nodes:
            continue  # members beyond the minimum that had no place, perhaps for want of a resource
        request = ground.vector(member_class)
        if request is None or any(node not in index for node in nodes):
            return None
        count = Counter(index[node] for node in nodes)
        rows = np.array(sorted(count), np.int64)
        parts.append((member_class, rows, np.array([count[row] for row in sorted(count)])[:, None] * request))
    every = [rows for _, rows, _ in parts]
    row_set = frozenset(row for rows in every for row in rows.tolist())
    ported = any(member_class.constraints.host_ports for member_class, _, _ in parts)
    whole = pending == placed == len(members) and not ported
    used = frozenset(ground.zones[ground.zone_number[row]] for row in row_set)
    nothing = np.zeros((0, len(ground.table.axis)), np.int64)
    return Footprint(
        demand,
        members,
        before.zones,
        ground.layout,
        tuple(parts),
        np.concatenate(every) if every else np.zeros(0, np.int64),
        np.concatenate([amounts for _, _, amounts in parts]) if parts else nothing,
        row_set,
        used,
        whole and used <= set(before.zones) <= set(ground.candidate_zones(demand)),
    )
