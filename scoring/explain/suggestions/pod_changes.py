"""Propose changes of the gang's own pods, or of the nodes that they are kept off."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from scoring.explain.causes.barriers import Kind, barriers_in_steps, untolerated
from scoring.explain.suggestions.candidates import Room
from scoring.explain.suggestions.other_jobs import Changes
from scoring.explain.suggestions.smaller_request import LEAST_PART
from scoring.feasibility.filters import node_allows
from scoring.model import Constraints, MemberClass, Node
from scoring.model.policy import ZonePolicy
from scoring.plan import Run
from scoring.plan.demand import GangDemand
from scoring.plan.steps import Steps
from scoring.what_if import changes as c
from scoring.what_if.jobs import workers_of
from scoring.what_if.pod_templates import without_label

_MOST_BARRIERS: Final = 3  # Kinds of barriers that are tried
_MOST_UNCORDONED: Final = 1000
_MOST_KEYS: Final = 8  # Labels of a gang's selectors that are looked at, of its kinds of members together
_MOST_IGNORED: Final = 2  # Of which so many are tried
_NODES_A_STEP: Final = 128


def by_barriers(run: Run, ask: GangDemand) -> Steps[list[Changes]]:
    """What keeps its pods off nodes, taken away: a cordon, one taint, the annotation that leaves zones out."""
    allowed = run.view.candidate_zones(ask)
    if not ask.need or not allowed:
        return []
    rows = run.view.rows(allowed).tolist()
    constraints = ask.need[0][0].constraints
    found = yield from barriers_in_steps(run, ask.need[0][0], rows)
    proposed: list[Changes] = []
    for barrier, at in sorted(found.items(), key=lambda one: (-len(one[1]), one[0].kind, one[0].what)):
        nodes = [run.table.nodes[row] for row in at]
        if barrier.kind is Kind.CORDONED:
            names = tuple(node.name for node in nodes[:_MOST_UNCORDONED])
            proposed.append([c.UncordonNodes(names)])
        elif barrier.kind is Kind.TAINT:
            kept_off = [one for one in nodes[0].taints if untolerated(replace(nodes[0], taints=(one,)), constraints)]
            proposed.append([c.Tolerate(ask.gang.key, key) for key in sorted({one.key for one in kept_off})])
    if ask.options.zones is not None and not ask.siblings and len(allowed) < len(run.zones):
        proposed.append([c.SetOption(ask.gang.key, "zones", None)])
    return proposed[:_MOST_BARRIERS]


def by_labels(room: Room) -> Steps[list[Changes]]:
    """A label that members ask for, not asked for, while none has a node: that which opens most nodes first.

    Cost: O(nodes) a label, in steps.
    """
    run = room.run
    if room.ask.siblings or not room.ask.need:
        return []
    zones = run.view.candidate_zones(room.ask)
    nodes = [run.table.nodes[row] for row in run.view.rows(zones).tolist()] if zones else []
    asked = [(member_class.constraints, key) for member_class, _ in room.wanted for key in _keys(member_class)]
    opened: dict[str, int] = {}
    for constraints, key in list(dict.fromkeys(asked))[:_MOST_KEYS]:
        freer = without_label(constraints, key)
        opened[key] = opened.get(key, 0) + (yield from _opened_by(nodes, constraints, freer))
    best = sorted((key for key, count in opened.items() if count), key=lambda key: (-opened[key], key))
    return [[c.IgnoreNodeLabel(room.ask.gang.key, key)] for key in best[:_MOST_IGNORED]]


def fewer_workers(room: Room, *, only_indexed: bool) -> list[Changes]:
    """As many workers as have room now, while none has a node; empty: all have, or none has.

    `only_indexed`: of jobs whose workers have an index, as those of elastic jobs and Indexed Jobs have, and not fewer
    than a quarter of them.
    """
    ask, view = room.ask, room.run.view
    demand, allowed = view.member_set(ask.need, ask), view.candidate_zones(ask)
    if ask.siblings or not allowed or not demand.size:
        return []
    if only_indexed and any(pod.index is None for pod in workers_of(ask.gang.members)):
        return []
    most = int(np.max(room.run.capacity.zone_members(demand)[view.columns(allowed)], initial=0))
    if only_indexed and most * LEAST_PART < demand.size:
        return []
    beyond = sum(len(pods) for _, pods in ask.more)
    return [[c.JobShrinks(ask.gang.key, demand.size - most + beyond)]] if 0 < most < demand.size else []


def by_zone_policy(room: Room) -> list[Changes]:
    """A gang that is too large for any zone can ask for several zones."""
    ask, zones = room.ask, room.run.view.candidate_zones(room.ask)
    if not ask.need or ask.options.zone_policy is not ZonePolicy.REQUIRED or len(zones) < 2:
        return []
    return [[c.SetOption(ask.gang.key, "zone-policy", ZonePolicy.PREFERRED.value)]]


def _keys(member_class: MemberClass) -> list[str]:
    constraints = member_class.constraints
    keys = [key for key, _ in constraints.node_selector]
    keys += [one.key for term in constraints.affinity or () for one in term.expressions]
    return keys


def _opened_by(nodes: Sequence[Node], before: Constraints, after: Constraints) -> Steps[int]:
    """Nodes that pods may use after a change, and may not before."""
    count = 0
    for number, node in enumerate(nodes, start=1):
        count += node_allows(node, after) and not node_allows(node, before)
        if number % _NODES_A_STEP == 0:
            yield
    return count
