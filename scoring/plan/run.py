"""One planner run: the room left, and how to place one demand in one set of zones.

Commitments are taken out of the room before anything else (docs/safety.md S4). Everything that can be reused between
runs goes through the memo; what is mutable lives here and ends with the run. Its parts, each over the ones before:
`ground` (the snapshot by zones), `taken` (what is given away), `fits` (how many members fit where), `scored` (pair
scores), `search`.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import Room
from scoring.ids import NodeName, ZoneName
from scoring.model import Gang, MemberClass, Role
from scoring.model.policy import Policy, ScorePolicy, Selection
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.fit_counts import Nodes
from scoring.plan.fits import Fits
from scoring.plan.footprints import Footprint
from scoring.plan.ground import Ground
from scoring.plan.memo import Memo
from scoring.plan.scored import Scored
from scoring.plan.search import Search
from scoring.plan.taken import Taken
from scoring.plan.wish import When, Wish, with_ratios
from scoring.score.links import Links
from scoring.selection import Selected

__all__ = ["Run", "When", "Wish", "with_ratios"]


class Run:
    """The parts of one run, and what is asked of them most."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memo: Memo) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.memo = memo
        self.ground = Ground(snapshot, policy, memo)
        self.taken = Taken(self.ground)
        self.fits = Fits(self.ground, self.taken)
        self.scored = Scored(self.ground)
        self.search = Search(self.ground, self.taken, self.fits, self.scored)
        self.table: NodeTable = snapshot.table
        self.zones: tuple[ZoneName, ...] = self.ground.zones
        self.room: Room = self.taken.room
        self.start: Ints = self.taken.start
        self.common_scores: dict[object, ScorePolicy] = {}
        """(zones, score policy) → the same policy with one reference rate for all of them"""
        self.kinds: dict[object, object] = {}
        """What gangs that ask for the same share: `scoring.plan.zones.Kind`; also under the id of a demand, with it"""
        self.token = object()
        """Stands for the snapshot's room and filters in what is kept from run to run"""
        names, zone_of = self.table.names, self.ground.zone_number
        self.nodes = Nodes(self.ground.layout, names, zone_of, self.zones, self.table.axis)

    def pause(self) -> Iterator[None]:
        """A moment in which others may have their turn, and plan with the memo from other network data.

        docs/safety.md S15.
        """
        yield
        self.memo.renew(self.snapshot.network.version)  # theirs would be taken for ours

    # -- ground -----------------------------------------------------------------------------------------------------

    def ask(self, gang: Gang) -> Ask:
        """What the gang asks of the planner now."""
        return self.ground.ask(gang)

    def candidate_zones(self, ask: Ask) -> tuple[ZoneName, ...]:
        """Zones the gang may use."""
        return self.ground.candidate_zones(ask)

    def vector(self, member_class: MemberClass) -> Ints | None:
        """The class's request over the table's axis; `None` when no node has one of its resources."""
        return self.ground.vector(member_class)

    def rows(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes, ascending."""
        return self.ground.rows(zones)

    def names(self, zones: tuple[ZoneName, ...]) -> tuple[NodeName, ...]:
        """Names of the zones' nodes, in the order of `rows`."""
        return self.ground.names(zones)

    def columns(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Where these zones are among all, in their order."""
        return self.ground.columns(zones)

    def zones_of(self, nodes: Iterable[NodeName]) -> tuple[ZoneName, ...]:
        """Zones of those of `nodes` that exist, sorted."""
        return self.ground.zones_of(nodes)

    # -- what is taken ----------------------------------------------------------------------------------------------

    def take(self, member_class: MemberClass, nodes: Iterable[NodeName]) -> None:
        """Take room for one member of the class on each node; unknown nodes and resources take nothing."""
        self.taken.take(member_class, nodes)

    def take_places(self, places: Sequence[Footprint]) -> None:
        """Take the room of places that are known to stand; none has host ports."""
        self.taken.take_places(places)

    def shift(self, amounts: Ints) -> None:
        """Take (negative: give back) amounts (nodes, resources) everywhere at once."""
        self.taken.shift(amounts)

    # -- what fits --------------------------------------------------------------------------------------------------

    def wish(self, members: ByClass, ask: Ask, extra_siblings: Sequence[tuple[Role, NodeName]] = ()) -> Wish:
        """The demand to place `members` beside the gang's placed ones."""
        classes = tuple((member_class, len(pods)) for member_class, pods in members)
        siblings = tuple(sorted((*ask.siblings, *extra_siblings)))
        numbers = tuple((self.memo.number(member_class), count) for member_class, count in classes)
        return Wish(classes, siblings, ask.all_reduce, (numbers, siblings, ask.all_reduce))

    def mask(self, member_class: MemberClass, when: When = When.NOW) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        return self.fits.mask(member_class, when)

    def zone_fits(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of each class that each zone could hold without regard to other classes; shape (classes, zones)."""
        return self.fits.zone_fits(wish, when)

    def zone_rooms(self, wish: Wish, when: When = When.NOW) -> Ints:
        """By how much each zone could take the demand (zones,); below `wish.size` there is for sure no room."""
        return self.fits.zone_rooms(wish, when)

    def zone_members(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of the demand that fit into each zone, each class for itself, at most all of them; (zones,)."""
        return self.fits.zone_members(wish, when)

    # -- placing ----------------------------------------------------------------------------------------------------

    def scores(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Links:
        """Pair scores among the zones' nodes. Cost: as `links.among` when the network data is new, else nothing."""
        return self.scored.links(zones, score)

    def place(
        self, wish: Wish, zones: tuple[ZoneName, ...], *, method: Selection, score: ScorePolicy
    ) -> Selected | None:
        """Choose a node (as an index into `rows(zones)`) for every member of the demand, or `None`."""
        return self.search.place(wish, zones, method=method, score=score)

    def estimate(self, wish: Wish, zone: ZoneName, *, score: ScorePolicy) -> float | None:
        """A quick estimate of the best value in the zone; `None`: there is no room."""
        return self.search.estimate(wish, zone, score=score)

    def fits_empty(self, wish: Wish, zones: tuple[ZoneName, ...]) -> bool:
        """Whether the demand fits the zones when no pod runs there."""
        return self.search.fits_empty(wish, zones)
