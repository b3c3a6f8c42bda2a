"""Give up places on nodes whose network became unusable before their gang started.

Why: new measurements move neither running jobs nor gangs that have started to bind, because moving costs more than a
somewhat better link gains; but a job that starts on a node that loses most of its packets will fail. Rules:

- A node is unusable when more than half of its known links to its zone's nodes lose half of the packets or more, by
  the worse direction and not counting what is older than the hard TTL.
- Only a node that was usable when it was committed to is given up, and only if there is room on usable ones instead,
  for the members that lose their place where the gang is, or for the whole gang in another zone; else it starts there.
- The node is left out for the gang's kind of pods for a while; a gang gives places up at most `MOST_TIMES`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from extender.controllers.context import ControllerContext
from extender.runtime.decision_lines import Decision
from extender.scheduling.held_binds import Binds
from scoring import EndpointId, GangKey, NodeName, ZoneName
from scoring.feasibility.filters import allowed_nodes
from scoring.model import Gang, Pod, Policy, Reservation, Snapshot
from scoring.model.policy import gang_options
from scoring.model.snapshot import fit_counts
from scoring.network.matrix import Metric, NetworkMatrix
from scoring.plan import Plan

MOST_TIMES: Final = 3
_MOST_LOOKS: Final = 200  # Nodes with bad links that are looked at for a usable one: about 40 ms in a large zone

UNUSABLE_LOSS_RATIO: Final = 0.5  # Packet loss on most of a node's links at which no gang should start there


@dataclass(eq=False, repr=False)
class Degrading:
    """Looks at committed places after each plan; one look per node and matrix."""

    context: ControllerContext
    binds: Binds
    _committed: dict[GangKey, dict[NodeName, bool]] = field(default_factory=dict, init=False)
    """gang → node it is committed to → whether it was unusable at the first look"""
    _times: dict[GangKey, int] = field(default_factory=dict, init=False)
    _matrix: NetworkMatrix | None = field(default=None, init=False)
    _lossy: frozenset[EndpointId] = field(default_factory=frozenset, init=False)  # Endpoints with any such link
    _known: dict[NodeName, bool] = field(default_factory=dict, init=False)

    def check_places(self, _: Plan) -> None:
        """Give up places that became unusable. Cost: O(committed members), and when the matrix is new O(pairs)."""
        snapshot = self.context.cache.snapshot()
        before, self._committed = self._committed, {}
        self._times = {key: times for key, times in self._times.items() if key in snapshot.gangs}
        for key, commitment in sorted(snapshot.commitments.items()):
            gang = snapshot.gangs.get(key)
            if gang is None:
                continue
            at_first = before.get(key, {})
            now = {node: self._unusable(snapshot, node) for node in set(commitment.assignment.values())}
            self._committed[key] = {node: at_first.get(node, bad) for node, bad in now.items()}
            if became := {node for node, bad in now.items() if bad and not self._committed[key][node]}:
                self._give_up(snapshot, gang, commitment, became)

    def _give_up(self, snapshot: Snapshot, gang: Gang, commitment: Reservation, nodes: set[NodeName]) -> None:
        state, places = self.binds.state(gang.key), commitment.assignment
        posting = state.posting if state is not None else {}  # their Bindings are on their way: as good as running
        lost = [pod for pod in gang.pending if places.get(pod.uid) in nodes and pod.uid not in posting]
        times = self._times.get(gang.key, 0)
        if not lost or times >= MOST_TIMES or not self._elsewhere(snapshot, gang, commitment, lost):
            return
        self._times[gang.key] = times + 1
        until_s = self.context.clock.now_s() + self.binds.planner.policy.exclusion_ttl_s
        for pod in lost:
            self.context.cache.exclude(pod.member_class, places[pod.uid], until_s)
            self.context.decided(Decision("degraded", pod.key, gang.key, places[pod.uid]))
        if state is not None and state.held:
            self.binds.abandon(gang.key)
        else:
            gone = {pod.uid for pod in lost}
            self.context.cache.set_commitment(gang.key, {uid: n for uid, n in places.items() if uid not in gone})

    def _elsewhere(self, snapshot: Snapshot, gang: Gang, commitment: Reservation, lost: Sequence[Pod]) -> bool:
        """Whether usable nodes have room for the members in `lost`, or another zone for the whole gang."""
        table = snapshot.table
        here = {table.nodes[table.index[node]].zone for node in commitment.nodes if node in table.index}
        if self._have_room(snapshot, here, lost):
            return True
        if gang.placed:
            return False  # it stays together
        allowed = gang_options(dict(gang.options), Policy()).zones
        others = (zone for zone in table.zones if zone not in here and (zone in allowed if allowed else zone))
        return any(self._have_room(snapshot, [zone], gang.pending) for zone in others)

    def _have_room(self, snapshot: Snapshot, zones: Iterable[ZoneName], pods: Iterable[Pod]) -> bool:
        """Whether usable nodes of these zones that are committed to no gang have room for `pods`: an estimate."""
        table = snapshot.table
        committed = {name for commitment in snapshot.commitments.values() for name in commitment.nodes}
        taken = {table.index[name] for name in committed if name in table.index}
        rows = np.concatenate([np.empty(0, np.int64), *(table.zones[zone] for zone in zones)])
        rows = rows[~np.isin(rows, list(taken))]
        free = table.allocatable[rows] - snapshot.used[rows]
        for member_class, wanted in Counter(pod.member_class for pod in pods).items():
            request = table.vector(member_class.requests)
            excluded = snapshot.excluded(member_class)
            counts = np.where(allowed_nodes(table, member_class.constraints)[rows], fit_counts(free, request), 0)
            fits = zip((table.names[row] for row in rows), counts.tolist(), strict=True)
            able = {name: count for name, count in fits if count and name not in excluded}
            lossy = [name for name in able if snapshot.network.endpoint(name, Metric.LOSS) in self._lossy]
            left = wanted - sum(able.values()) + sum(able[name] for name in lossy)
            for name in lossy[:_MOST_LOOKS]:  # the others, without any bad link, need no look at their links
                left -= able[name] if left > 0 and not self._unusable(snapshot, name) else 0
            if left > 0:
                return False
        return True

    def _unusable(self, snapshot: Snapshot, node: NodeName) -> bool:
        network, table = snapshot.network, snapshot.table
        if self._matrix is not network:
            self._matrix, self._known = network, {}
            self._lossy = network.ends_at_least(Metric.LOSS, UNUSABLE_LOSS_RATIO)
        row = table.index.get(node)
        if row is None or network.endpoint(node, Metric.LOSS) not in self._lossy:
            return False
        is_unusable = self._known.get(node)
        if is_unusable is None:
            others = [table.names[i] for i in table.zones[table.nodes[row].zone]]
            ttl_s = self.binds.planner.policy.score.hard_ttl_s.loss
            is_unusable = unusable(network, node, others, hard_ttl_s=math.inf if ttl_s is None else ttl_s)
            self._known[node] = is_unusable
        return is_unusable


def unusable(network: NetworkMatrix, node: NodeName, others: list[NodeName], *, hard_ttl_s: float) -> bool:
    """Whether more than half of the known links between `node` and `others` lose `UNUSABLE_LOSS_RATIO` or more."""
    there, back = network.block([node], others), network.block(others, [node])
    ways = ((way.values[Metric.LOSS], way.ages_s[Metric.LOSS]) for way in (there, back.turned))
    worst = np.fmax(*(np.where(ages_s < hard_ttl_s, ratios, np.nan) for ratios, ages_s in ways))[~there.same]
    measured = worst[~np.isnan(worst)]
    return bool(2 * (measured >= UNUSABLE_LOSS_RATIO).sum() > len(measured))
