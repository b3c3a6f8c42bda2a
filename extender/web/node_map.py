"""The map of nodes: which gang has which node, in few bytes, so that a change of one node is quick to send.

Rule: names and zones are one section, which changes with the nodes; what runs there is another. A node belongs to the
gang with most members on it. At most `MOST_NODES`, zone by zone, and the section says of how many.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from scoring.ids import GangKey, NodeName
from scoring.model.snapshot import Snapshot
from scoring.plan.steps import Steps

Document = dict[str, Any]
MOST_NODES: Final = 2_000
FREE, OTHERS, UNUSABLE = -1, -2, -3
_GANGS_A_STEP: Final = 256
_BUSY: Final = 0.1  # Share of a resource; pods of DaemonSets have less


def nodes_section(snapshot: Snapshot) -> Document:
    """`zones`: [zone, its nodes], in the order of the cells of `use_in_steps`."""
    table, left = snapshot.table, MOST_NODES
    zones = []
    for zone, rows in table.zones.items():
        zones.append([zone, [table.names[row] for row in rows[:left].tolist()]])
        left -= len(zones[-1][1])
        if left <= 0:
            break
    return {"zones": zones, "of": len(table.names)}


def use_in_steps(snapshot: Snapshot) -> Steps[Document]:
    """`gangs`, and per node the number of its gang, or −1 free, −2 other pods alone, −3 takes no pods.

    Cost: O(nodes + members on nodes).
    """
    table = snapshot.table
    on: dict[NodeName, list[tuple[int, GangKey]]] = {}  # node → (minus the members there, gang)
    for count, (key, gang) in enumerate(snapshot.gangs.items(), start=1):
        nodes = Counter([pod.node for pod in gang.members if pod.node is not None and not pod.terminal])
        for name, members in nodes.items():
            on.setdefault(name, []).append((-members, key))
        if count % _GANGS_A_STEP == 0:
            yield
    number: dict[GangKey, int] = {}
    cells, several = [], {}
    rows = [row for of_zone in table.zones.values() for row in of_zone.tolist()][:MOST_NODES]
    shares = snapshot.used / np.maximum(table.allocatable, 1)
    busy = np.any(shares >= _BUSY, axis=1)
    for at, row in enumerate(rows):
        gangs, node = on.get(table.names[row]), table.nodes[row]
        if gangs:
            cells.append(number.setdefault(min(gangs)[1], len(number)))
            if len(gangs) > 1:
                several[at] = len(gangs) - 1
        elif not node.ready or node.unschedulable or node.leaving:
            cells.append(UNUSABLE)
        else:
            cells.append(OTHERS if busy[row] else FREE)
    return {"gangs": list(number), "cells": cells, "several": _texts(several)}


def _texts(numbers: Mapping[int, int]) -> dict[str, int]:
    return {str(at): count for at, count in numbers.items()}
