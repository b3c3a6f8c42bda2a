"""Gangs that could leave, what each would free, and in which order they are preferred.

Rule: in doubt a gang stays. It stays while it starts (docs/safety.md S4), while a member of it is going (another client
is at it), once a member has succeeded (it is about to finish: what it frees comes by itself), while it gives room to
another gang already, and when its owner asked for that (`netgang.io/preemptible: "false"`).
"""

from collections.abc import Iterable, Set
from operator import itemgetter
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from scoring.ids import GangKey
from scoring.model import Gang, Phase, Pod
from scoring.model.policy import Policy, gang_options
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import Ints
from scoring.queue.service_levels import hours_of, level, level_of_waiting

SetKey: TypeAlias = tuple[object, ...]


class Candidate(msgspec.Struct, frozen=True):
    """A gang that may be made to leave."""

    gang: GangKey
    priority: int  # The highest of its members'
    pods: tuple[Pod, ...]  # Members on nodes: all of them leave, or none
    rows: Ints  # (k,) rows of the node table where they are, all different, ascending
    amounts: Ints  # (k, resources) that becomes free there
    started_s: float  # When the last of its members got its node, Unix seconds; creation where that is not known
    attained_h: float = 0.0  # Cluster-hours that it has had, if it leaves because of them, not of its priority


def candidates(
    snapshot: Snapshot,
    policy: Policy,
    gang: Gang,
    freed: dict[GangKey, Candidate | None],
    *,
    now_s: float,
    spared: Set[GangKey] = frozenset(),
    by_level: bool,
) -> list[Candidate]:
    """Gangs that may leave for `gang`, those preferred first; `spared`: may not. `now_s`: Unix time.

    They have less priority; if it is `by_level`, also those of the same priority that may be suspended, are of a higher
    service level, and started `min_run_s` ago. `freed`: what is known by now of each gang of this snapshot; `None`: it
    may not leave, or that would be of no use. Cost: O(gangs), and O(members) of those that are not in `freed`.
    """
    service, total = policy.service, snapshot.table.allocatable.sum(axis=0)
    mine = level_of_waiting(gang.key, snapshot, service)
    busy = {*spared, *snapshot.commitments, *snapshot.claims}
    busy.update(key for claim in snapshot.claims.values() for key in claim.givers)
    found: list[tuple[SetKey, Candidate]] = []
    for key, other in snapshot.gangs.items():
        if other.priority > gang.priority or key in busy or other is gang:
            continue
        if key not in freed:
            freed[key] = _candidate(other, snapshot.table, policy)
        one = freed[key]
        if one is None or one.priority > gang.priority:
            continue
        if one.priority == gang.priority:
            suspendable = by_level and gang_options(dict(other.options), policy).suspendable
            if not suspendable or now_s < one.started_s + policy.min_run_s:
                continue
            hours = hours_of(other, snapshot, now_s=now_s, total=total)
            if level(hours, service) <= mine:
                continue
            one = replace(one, attained_h=hours)
        found.append((set_key((one,)), one))
    return [one for _, one in sorted(found, key=itemgetter(0))]


def set_key(some: Iterable[Candidate]) -> SetKey:
    """Which of two sets leaves, the smaller key first.

    Fewest gangs; then the lowest priority, the highest ones compared first; then those that have had most of the
    cluster; then fewest pods lost; then those that started last; then by name.
    """
    listed = tuple(some)
    return (
        len(listed),
        tuple(sorted((one.priority for one in listed), reverse=True)),
        tuple(sorted(-one.attained_h for one in listed)),
        sum(len(one.pods) for one in listed),
        tuple(sorted(-one.started_s for one in listed)),
        tuple(sorted(one.gang for one in listed)),
    )


def _candidate(gang: Gang, table: NodeTable, policy: Policy) -> Candidate | None:
    """What the gang would free; `None`: nothing, or it stays, as far as its own record says. Cost: O(members)."""
    if not gang.actionable or not gang_options(dict(gang.options), policy).preemptible:
        return None
    if any(pod.phase is Phase.SUCCEEDED or (pod.deleting and pod.node is not None) for pod in gang.members):
        return None
    pods = tuple(pod for pod in gang.members if pod.node is not None and not pod.terminal)
    rows, amounts = table.footprint(pods)
    if not len(rows):
        return None
    priority = max(gang.priority, *(pod.priority for pod in gang.members))
    started_s = max((pod.scheduled_s for pod in pods if pod.scheduled_s is not None), default=gang.created_s)
    return Candidate(gang.key, priority, pods, rows, amounts, started_s)
