"""Pair scores among the nodes of zones, as one planner run reads them, and how new network data gets them beforehand.

Rule: scores of one version of the network data are kept from run to run; what is made of them for one gang is not.
"""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring.ids import NodeName, ZoneName
from scoring.model.policy import Policy, ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats, NetworkMatrix
from scoring.plan.cache import PlannerCache, remember
from scoring.plan.capacity import ClusterView
from scoring.plan.demand import MemberSet
from scoring.score.between_zones import Crossings, crossings
from scoring.score.links import LinkPoints, Links, among, among_sets, toward
from scoring.selection.demand import placed_gain


class PairScores:
    """The pair scores of one run's network data."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._number: dict[object, int] = {}
        """(zones, score policy) → what stands for them in keys of the run: both take long to hash"""
        self._links: dict[int, Links] = {}
        """number → pair scores"""
        self._ranks: dict[int, Floats] = {}
        """number → rank of all pairs"""
        self._common: dict[object, ScorePolicy] = {}
        """(zones, score policy) → the same policy with one reference rate for all of them"""

    def number(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> int:
        """Stands for the zones' nodes and the score policy in keys of this run."""
        return self._number.setdefault((zones, score), len(self._number))

    def knows(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> bool:
        """Whether `links` costs nothing now."""
        key = (self._view.snapshot.network.version, self._view.names(zones), score)
        return self.number(zones, score) in self._links or key in self._view.cache.scores

    def links(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Links:
        """Pair scores among the zones' nodes, ranks on the grid. Cost: as `among` when the network data is new."""
        number = self.number(zones, score)
        if number not in self._links:
            names, network = self._view.names(zones), self._view.snapshot.network
            key = (network.version, names, score)
            self._links[number] = self._view.cache.links(key, lambda: among(network, names, score))
        return self._links[number]

    def compare(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> None:
        """Make `links` ready, quicker than all pairs for several zones."""
        view = self._view
        names, network = view.names(zones), view.snapshot.network
        key = (network.version, names, score)
        if len(zones) > 1 and key not in view.cache.scores and not network.estimates:
            sets = view.zone_number[view.rows(zones)]
            made = among_sets(network, names, sets, self.crossings(), score)
            view.cache.links(key, lambda: made)
        self.links(zones, score)

    def common_reference(self, zones: Sequence[ZoneName], score: ScorePolicy) -> ScorePolicy:
        """One reference rate for all zones compared: by its own best, a slow zone would look as good as a fast one."""
        if score.reference_bps is not None:
            return score
        key = (tuple(zones), score)
        if key not in self._common:
            rates = [self.links((zone,), score).reference_bps for zone in zones]
            known = [rate for rate in rates if rate]  # 0 where all tests failed: nothing compares with that
            self._common[key] = replace(score, reference_bps=max(known)) if known else score
        return self._common[key]

    def crossings(self) -> Crossings:
        """What leads from zone to zone, by their places in the run's `zones`; looked for when it is new."""
        view = self._view
        network, index, number = view.snapshot.network, view.table.index, view.zone_number
        key = (network.version, view.layout)
        return remember(view.cache.crossings, key, lambda: crossings(network, index, number), limit=2)

    def measured(self) -> NDArray[np.bool_]:
        """(nodes,): which nodes are measured anywhere, as `links.measured` has it. Not to be written."""
        table, network = self._view.table, self._view.snapshot.network

        def look() -> NDArray[np.bool_]:
            found = np.full(len(table.names), network.estimates)
            for ends in network.endpoint_of.values():
                found[[table.index[node] for node in ends if node in table.index]] = True
            return found

        return remember(self._view.cache.measured, (network.version, self._view.layout), look, limit=2)

    def connected(self, ends: Collection[NodeName]) -> NDArray[np.bool_]:
        """(nodes,): nodes that may be linked to some of `ends` otherwise than one that is measured nowhere."""
        table, number = self._view.table, self._view.zone_number
        at = [table.index[node] for node in ends]
        found = self.measured().copy()
        if not self._view.snapshot.network.estimates:
            near = set(number[at].tolist())
            linked = {zone for pair in self.crossings() if not near.isdisjoint(pair) for zone in pair}
            found &= np.isin(number, list(near | linked))
        found[at] = True
        return found

    def whole_rank(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats:
        """The rank of all pairs (n, n) of the zones' nodes. Not to be written. Cost: O(n²) the first time."""
        number = self.number(zones, score)
        if number not in self._ranks:
            self._ranks[number] = self.links(zones, score).rank_among(None)
        return self._ranks[number]

    def toward(self, names: tuple[NodeName, ...], ends: tuple[NodeName, ...], score: ScorePolicy) -> LinkPoints:
        """Pair scores between `names` and `ends`, shape (names, ends)."""
        network = self._view.snapshot.network
        key = (network.version, names, ends, score)
        return self._view.cache.links_toward(key, lambda: toward(network, names, ends, score))

    def anchors(self, members: MemberSet, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats | None:
        """Gain (classes, nodes) towards the placed siblings, as `select` wants it; `None`: there are none."""
        if not members.siblings:
            return None
        rank = self.toward(self._view.names(zones), tuple(node for _, node in members.siblings), score).rank
        return placed_gain(
            [member_class.role for member_class, _ in members.classes],
            all_reduce=members.all_reduce,
            placed=[role for role, _ in members.siblings],
            rank=rank,
        )


def warmed(snapshot: Snapshot, network: NetworkMatrix, policy: Policy) -> PlannerCache:
    """A cache with the pair scores inside every zone, as plans will ask for them, and what is measured between zones.

    For 5,000 nodes this takes a fifth of a second: the service does it in a thread while it answers from the old data,
    and takes the cache over in one step. Cost: O(measured² of each zone + pairs).
    """
    view = ClusterView(replace(snapshot, network=network), policy, PlannerCache())
    scores = PairScores(view)
    for score in {policy.score, scores.common_reference(view.zones, policy.score)}:
        for zone in view.zones:
            scores.links((zone,), score)
    if not network.estimates:
        scores.crossings()
    return view.cache
