"""Pair scores among the nodes of zones, as one planner run reads them.

Why numbers: names of nodes and a score policy take long to hash, and stand in the key of everything that is found by
them; a number that is never given again stands for them.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName, ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Floats
from scoring.plan.ground import Ground
from scoring.plan.remembered import remember
from scoring.plan.steps import Steps, finish
from scoring.plan.wish import Wish
from scoring.score.between_zones import Crossings, crossings
from scoring.score.links import LinkPoints, Links, among, among_sets, toward
from scoring.selection import placed_gain


class Scored:
    """The pair scores of one run's network data."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._known: dict[object, tuple[ScorePolicy, Links | None, int]] = {}
        """(zones, id of a score policy) → the policy, its pair scores there, the number that stands for both"""

    def knows(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> bool:
        """Whether `links` costs nothing now."""
        known = self._known.get((zones, id(score)))
        return known is not None and known[0] is score and known[1] is not None

    def links(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Links:
        """Pair scores among the zones' nodes, ranks on the grid. Cost: as `among` when the network data is new."""
        known = self._known.get((zones, id(score)))
        if known is not None and known[0] is score and known[1] is not None:
            return known[1]
        return finish(self.links_in_steps(zones, score))

    def links_in_steps(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Steps[Links]:
        """The same; for several zones in steps of one of them."""
        ground = self._ground
        names, network = ground.names(zones), ground.snapshot.network
        key = (network.version, names, score)
        kept = ground.memo.scores.get(key)
        if kept is None and len(zones) > 1 and not network.estimates:
            sets = ground.zone_number[ground.rows(zones)]
            made = yield from among_sets(network, names, sets, self.crossings().ends, score)
            kept = ground.memo.links(key, lambda: made)
        found = kept or ground.memo.links(key, lambda: among(network, names, score))
        self._known[(zones, id(score))] = (score, found, self.number(zones, score))
        return found

    def number(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> int:
        """Stands for the pair scores, the nodes' names and their resources in keys."""
        known = self._known.get((zones, id(score)))
        if known is not None and known[0] is score:
            return known[2]
        ground = self._ground
        key = (ground.snapshot.network.version, ground.names(zones), score, ground.table.axis)
        number = ground.memo.surroundings_number(key)
        self._known[(zones, id(score))] = (score, None, number)
        return number

    def crossings(self) -> Crossings:
        """What leads from zone to zone, by their places in the run's `zones`; looked for when it is new."""
        ground = self._ground
        network, index, number = ground.snapshot.network, ground.table.index, ground.zone_number
        return remember(ground.memo.crossings, ground.layout, lambda: crossings(network, index, number), limit=2)

    def measured(self) -> NDArray[np.bool_]:
        """(nodes,): which nodes are measured anywhere, as `links.measured` has it. Not to be written."""
        table, network = self._ground.table, self._ground.snapshot.network

        def look() -> NDArray[np.bool_]:
            found = np.full(len(table.names), network.estimates)
            for ends in network.endpoint_of.values():
                found[[table.index[node] for node in ends if node in table.index]] = True
            return found

        return remember(self._ground.memo.measured, self._ground.layout, look, limit=2)

    def connected(self, ends: Collection[NodeName]) -> NDArray[np.bool_]:
        """(nodes,): nodes that may be linked to some of `ends` otherwise than one that is measured nowhere."""
        table, number = self._ground.table, self._ground.zone_number
        at = [table.index[node] for node in ends]
        found = self.measured().copy()
        if not self._ground.snapshot.network.estimates:
            near = set(number[at].tolist())
            linked = {zone for pair in self.crossings().ends if not near.isdisjoint(pair) for zone in pair}
            found &= np.isin(number, list(near | linked))
        found[at] = True
        return found

    def whole_rank(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats:
        """The rank of all pairs (n, n) of the zones' nodes. Cost: O(n²) when it is not kept any more."""
        number = self.number(zones, score)
        known = self._ground.memo.ranks.get(number)
        return known if known is not None else self._ground.memo.whole_rank(number, self.links(zones, score))

    def toward(self, names: tuple[NodeName, ...], ends: tuple[NodeName, ...], score: ScorePolicy) -> LinkPoints:
        """Pair scores between `names` and `ends`, shape (names, ends)."""
        network = self._ground.snapshot.network
        key = (network.version, names, ends, score)
        return self._ground.memo.links_toward(key, lambda: toward(network, names, ends, score))

    def anchors(self, wish: Wish, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats | None:
        """Gain (classes, nodes) towards the placed siblings, as `select` wants it; `None`: there are none."""
        if not wish.siblings:
            return None
        rank = self.toward(self._ground.names(zones), tuple(node for _, node in wish.siblings), score).rank
        return placed_gain(
            [member_class.role for member_class, _ in wish.classes],
            all_reduce=wish.all_reduce,
            placed=[role for role, _ in wish.siblings],
            rank=rank,
        )
