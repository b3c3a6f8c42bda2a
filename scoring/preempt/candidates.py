"""Gangs that could leave, what each would free, and in which order they are preferred.

Rule: in doubt a gang stays. It stays while it starts (docs/safety.md S4), while a member of it is going (another client
is at it), once a member has succeeded (it is about to finish: what it frees comes by itself), while it gives room to
another gang already, and when its owner asked for that (`netgang.io/preemptible: "false"`).
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

from scoring.ids import GangKey
from scoring.model import Gang, Phase, Pod
from scoring.model.policy import Policy, gang_options
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import Ints
from scoring.queue.service_levels import hours_of, level, level_of_waiting

SetKey: TypeAlias = tuple[object, ...]
_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A gang that may be made to leave."""

    gang: GangKey
    priority: int  # The highest of its members'
    pods: tuple[Pod, ...]  # Members on nodes: all of them leave, or none
    rows: Ints  # (k,) rows of the node table where they are, all different, ascending
    amounts: Ints  # (k, resources) that becomes free there
    started_s: float  # When the last of its members got its node, Unix seconds; creation where that is not known
    attained_h: float = 0.0  # Cluster-hours that it has had, if it leaves because of them, not of its priority


class Candidates:
    """What each gang would free, looked up once per gang and node table. Bounded; not shared between threads."""

    def __init__(self) -> None:
        self._table: NodeTable | None = None
        self._known: dict[GangKey, tuple[Gang, Candidate | None]] = {}  # `None`: it may not leave at all

    def of(self, gang: Gang, table: NodeTable, policy: Policy) -> Candidate | None:
        """What becomes free if the gang leaves; `None`: it may not, or that would be of no use."""
        if table is not self._table or len(self._known) >= _KEPT:
            self._table = table
            self._known.clear()
        known = self._known.get(gang.key)
        if known is None or known[0] is not gang:
            made = _candidate(gang, table) if may_leave(gang, policy) else None
            known = self._known[gang.key] = (gang, made if made is not None and len(made.rows) else None)
        return known[1]


def may_leave(gang: Gang, policy: Policy) -> bool:
    """Whether the gang may be made to leave, as far as its own record says. Cost: O(members).

    >>> from tests.builders import bound, gang, pod
    >>> members = [bound(pod(name), "n1") for name in ("p", "q")]
    >>> runs = gang("g", members=members)
    >>> kept = gang("k", members=members, options={"preemptible": "false"})
    >>> [may_leave(one, Policy()) for one in (runs, kept, gang("w", 2))]
    [True, False, False]
    """
    if not gang.actionable:
        return False
    if any(pod.phase is Phase.SUCCEEDED or (pod.deleting and pod.node is not None) for pod in gang.members):
        return False
    on_nodes = any(pod.node is not None and not pod.terminal for pod in gang.members)
    return on_nodes and gang_options(dict(gang.options), policy).preemptible


def candidates(
    snapshot: Snapshot,
    policy: Policy,
    book: Candidates,
    gang: Gang,
    *,
    now_s: float,
    spared: Set[GangKey] = frozenset(),
    by_level: bool,
) -> list[Candidate]:
    """Gangs that may leave for `gang`, those preferred first; `spared`: may not. `now_s`: Unix time.

    They have less priority; if it is `by_level`, also those of the same priority that may be suspended, are of a higher
    service level, and started `min_run_s` ago. Cost: O(gangs), and O(members) of those that changed.
    """
    levels = _Levels(snapshot, policy, gang, now_s) if by_level else None
    below = gang.priority
    busy = {*spared, *snapshot.commitments, *snapshot.claims}
    busy.update(key for claim in snapshot.claims.values() for key in claim.givers)
    found: list[tuple[SetKey, Candidate]] = []
    for other in snapshot.gangs.values():
        if other.priority <= below and other.key not in busy and other is not gang:
            one = book.of(other, snapshot.table, policy)
            if one is not None and one.priority == below:
                one = levels.above(other, one) if levels is not None else None
            if one is not None and one.priority <= below:
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


class _Levels:
    """Which gangs have had more of the cluster than one that waits, by whole levels."""

    def __init__(self, snapshot: Snapshot, policy: Policy, gang: Gang, now_s: float) -> None:
        self._snapshot, self._policy, self._now_s = snapshot, policy, now_s
        self._level = level_of_waiting(gang.key, snapshot, policy.service)
        self._total = snapshot.table.allocatable.sum(axis=0)

    def above(self, gang: Gang, one: Candidate) -> Candidate | None:
        """The candidate with what it has had; `None`: it may not be suspended, or is of no higher level."""
        service, options = self._policy.service, gang_options(dict(gang.options), self._policy)
        if not options.suspendable:
            return None
        if self._now_s < one.started_s + service.min_run_s:
            return None
        hours = hours_of(gang, self._snapshot, now_s=self._now_s, total=self._total)
        return replace(one, attained_h=hours) if level(hours, service) > self._level else None


def _candidate(gang: Gang, table: NodeTable) -> Candidate:
    pods = tuple(pod for pod in gang.members if pod.node is not None and not pod.terminal)
    started = [pod.scheduled_s for pod in pods if pod.scheduled_s is not None]
    priority = max(pod.priority for pod in gang.members)
    return Candidate(
        gang.key, max(priority, gang.priority), pods, *table.footprint(pods), max(started, default=gang.created_s)
    )
