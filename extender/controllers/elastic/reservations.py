"""Reserve freed room for the gang that it was freed for, and no longer than that (docs/safety.md S13).

Rule: what is kept follows from the changes under way alone: a beneficiary with one has a claim, another has none. Where
its members would go is found by placing them as if the removed pods were gone, again whenever its members change.
"""

from collections.abc import Iterable, Mapping, Sequence

from extender.controllers.context import ControllerContext
from extender.controllers.elastic.records import Change
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Pod
from scoring.model.snapshot import Claim
from scoring.scaling.shrink.scale_in import without_workers


class Rooms:
    """The claims that we have set."""

    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._planner, self._clock = context.cache, context.planner, context.clock
        self._mine: dict[GangKey, Claim] = {}

    def keep(self, gang: GangKey, places: Mapping[PodUid, NodeName], givers: Iterable[GangKey]) -> None:
        """Reserve room for the gang from now on."""
        self._mine[gang] = Claim(gang, dict(places), tuple(sorted(set(givers))))
        self._cache.set_claim(self._mine[gang])

    def release(self, gang: GangKey) -> None:
        """Reserve none for it any more."""
        if self._mine.pop(gang, None) is not None:
            self._cache.clear_claim(gang)

    def forget(self) -> None:
        """Reserve nothing."""
        for gang in list(self._mine):
            self.release(gang)

    def agree_with(self, changes: Sequence[Change], givers: Mapping[str, GangKey]) -> None:
        """Reserve room for the beneficiaries of the open `changes`, for no others. `givers`: job's uid → its gang."""
        wanted: dict[GangKey, list[Change]] = {}
        for change in changes:
            if change.intent.beneficiary is not None and change.shrinks:
                wanted.setdefault(change.intent.beneficiary, []).append(change)
        for gang in self._mine.keys() - wanted.keys():
            self.release(gang)
        for gang, theirs in wanted.items():
            known, waiting = self._mine.get(gang), self._cache.gang(gang)
            uids = {pod.uid for pod in waiting.members} if waiting is not None else None
            if known is None or (uids is not None and not uids.issuperset(known.assignment)):
                going = [pod for one in theirs for uid in one.removed if (pod := self._cache.pod(uid)) is not None]
                places = self._places(gang, going)
                if places is not None:
                    self.keep(gang, places, (givers[one.uid] for one in theirs if one.uid in givers))

    def _places(self, key: GangKey, going: Sequence[Pod]) -> Mapping[PodUid, NodeName] | None:
        """Where the gang's minimum goes once these pods are gone; `None`: nowhere. Cost: one placement."""
        snapshot, plan, policy = self._cache.snapshot(), self._planner.current, self._planner.policy
        gang = snapshot.gangs.get(key)
        if gang is None or (key not in plan.waiting and self._planner.snapshot is not None):
            return None
        now_s, cache = self._clock.now_s(), self._planner.cache
        without = without_workers(snapshot, plan, gang, policy, now_s=now_s, cache=cache)
        placed = without.place([pod for pod in going if pod.node is not None])
        return placed.nodes if placed is not None else None
