"""Give up places on nodes whose network became unusable before their gang started.

Why: new measurements move neither running jobs nor gangs that have begun to bind, because moving costs more than a
somewhat better link gains. A node that loses most of its packets is another matter: a job that starts there will fail.
Rule: a node is unusable when more than half of its known links to its zone's nodes lose `loss_ratio` of the packets or
more, by the worse direction and not counting what is older than the hard TTL. Only a node that was usable when it was
committed to is given up, so a gang for which nothing better exists starts all the same. The node is left out for the
gang's kind of pods for a while, as one that another filter refused.
"""

import numpy as np

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.service.binding import Binds
from extender.telemetry import Decision, DecisionLog
from scoring.ids import EndpointId, GangKey, NodeName
from scoring.model import Gang
from scoring.network import Metric, NetworkMatrix
from scoring.plan import Plan
from scoring.snapshot import Commitment, Snapshot


class Degrading:
    """Looks at committed places after each plan; one look per node and matrix."""

    def __init__(
        self,
        cache: ClusterCache,
        binds: Binds,
        clock: Clock,
        log: DecisionLog,
        *,
        loss_ratio: float,
        hard_ttl_s: float | None,
        exclusion_ttl_s: float,
    ) -> None:
        self._cache = cache
        self._binds = binds
        self._clock = clock
        self._log = log
        self._loss_ratio = loss_ratio
        self._hard_ttl_s = np.inf if hard_ttl_s is None else hard_ttl_s
        self._exclusion_ttl_s = exclusion_ttl_s
        self._committed: dict[GangKey, dict[NodeName, bool]] = {}
        """gang → node it is committed to → whether it was unusable at the first look"""
        self._matrix: NetworkMatrix | None = None
        """That of the last look"""
        self._lossy: frozenset[EndpointId] = frozenset()
        """Endpoints with any link that bad by that matrix: the nodes of all others are not looked at"""
        self._known: dict[NodeName, bool] = {}
        """Which nodes are unusable by it"""

    def look(self, _: Plan) -> None:
        """Give up places that became unusable. Cost: O(committed members), and when the matrix is new O(pairs)."""
        snapshot = self._cache.snapshot()
        before, self._committed = self._committed, {}
        for key, commitment in sorted(snapshot.commitments.items()):
            gang = snapshot.gangs.get(key)
            if gang is None:
                continue
            at_first = before.get(key, {})
            now = {node: self._unusable(snapshot, node) for node in set(commitment.assignment.values())}
            self._committed[key] = {node: at_first.get(node, bad) for node, bad in now.items()}
            became = {node for node, bad in now.items() if bad and not self._committed[key][node]}
            if became:
                self._give_up(gang, commitment, became)

    def _give_up(self, gang: Gang, commitment: Commitment, nodes: set[NodeName]) -> None:
        lost = [pod for pod in gang.pending if commitment.assignment.get(pod.uid) in nodes]
        state = self._binds.state(gang.key)
        posting = state.posting.keys() if state is not None else frozenset()
        lost = [pod for pod in lost if pod.uid not in posting]  # the API server has been told: it is as good as running
        for pod in lost:
            node = commitment.assignment[pod.uid]
            self._cache.exclude(pod.member_class, node, self._clock.now_s() + self._exclusion_ttl_s)
            self._log.log_decision(Decision("degraded", pod.key, gang.key, node), now_s=self._clock.monotonic_s())
        if lost and state is not None and state.held:
            self._binds.abandon(gang.key)
        elif lost:
            gone = {pod.uid for pod in lost}
            left = {uid: node for uid, node in commitment.assignment.items() if uid not in gone}
            self._cache.set_commitment(gang.key, left)

    def _unusable(self, snapshot: Snapshot, node: NodeName) -> bool:
        network, table = snapshot.network, snapshot.table
        if self._matrix is not network:
            self._matrix, self._known = network, {}
            self._lossy = network.ends_at_least(Metric.LOSS, self._loss_ratio)
        row = table.index.get(node)
        if row is None or network.endpoint(node, Metric.LOSS) not in self._lossy:
            return False
        known = self._known.get(node)
        if known is None:
            others = [table.names[i] for i in table.zones[table.nodes[row].zone]]
            known = unusable(network, node, others, loss_ratio=self._loss_ratio, hard_ttl_s=self._hard_ttl_s)
            self._known[node] = known
        return known


def unusable(
    network: NetworkMatrix, node: NodeName, others: list[NodeName], *, loss_ratio: float, hard_ttl_s: float
) -> bool:
    """Whether more than half of the known links between `node` and `others` lose `loss_ratio` or more.

    >>> unusable(NetworkMatrix(), NodeName("a"), [NodeName("b")], loss_ratio=0.5, hard_ttl_s=10.0)
    False
    """
    there, back = network.block([node], others), network.block(others, [node])
    fresh = (
        np.where(there.loss_age_s < hard_ttl_s, there.loss_ratio, np.nan),
        np.where(back.loss_age_s < hard_ttl_s, back.loss_ratio, np.nan).T,
    )
    worst = np.fmax(*fresh)[~there.same]
    known = worst[~np.isnan(worst)]
    return bool(2 * (known >= loss_ratio).sum() > len(known))
