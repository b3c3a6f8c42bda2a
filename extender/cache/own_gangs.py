"""The own gangs, built from pods, PodGroups and owners when a caller asks for them.

Rule: a change only notes that a gang is stale; it is built once, at the next question, and from its former record where
only its members' progress changed (`gangs.renewed`).
"""

from collections.abc import Collection, Iterable, Mapping, Set

from msgspec.structs import replace

from extender.cache.gangs import JobSays, build_gang, continued, declared_minimum, length_s, renewed
from extender.cache.pods import Pods
from scoring.feasibility.runs import runs_of
from scoring.ids import GangKey, PodUid
from scoring.lengths import EXPECTED_DURATION
from scoring.model import Gang, Pod, PodGroup, counts


class GangBook:
    """Every own gang by key; `pods` knows the members."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self.owners = Owners()  # What was read of jobs; after a change see `changed_owners`
        self.pod_groups: dict[tuple[GangKey, bool], PodGroup] = {}  # As `gangs.PodGroups`
        self._gangs: dict[GangKey, Gang] = {}
        self._partial: set[GangKey] = set()
        self._view: Mapping[GangKey, Gang] | None = None
        self._stale: set[GangKey] = set()  # Gangs that are to be built again
        self.noted: Mapping[PodUid, GangKey] = {}  # Members by which a gang is known to have started before us
        self._regrouped: set[GangKey] = set()  # Those of them for which more changed than their members

    def get(self, key: GangKey) -> Gang | None:
        """The gang as it is now, `None` when no own pod names it."""
        self._renew({key} & self._stale)
        return self._gangs.get(key)

    def all(self) -> Mapping[GangKey, Gang]:
        """All own gangs, in a dictionary that is not written again; the same one if none changed."""
        self.settle()
        if self._view is None:
            self._view = dict(self._gangs)
        return self._view

    def partial(self) -> Set[GangKey]:
        """Gangs that we start of which some members have nodes and that have not started."""
        self.settle()
        return self._partial

    def settle(self) -> None:
        """Build now what is to be built again."""
        self._renew(self._stale)

    def touch(self, key: GangKey, *, regrouped: bool) -> bool:
        """One of the gang's pods, or with `regrouped` more than that, changed; whether it is, or was, one of ours."""
        group = self._pods.groups.get(key)
        if group is None:
            self.owners.drop_minimum(key)
        if key not in self._gangs and (group is None or not group.own):
            return False
        self._stale.add(key)
        if regrouped:
            self._regrouped.add(key)
        return True

    def shown(self, key: GangKey) -> bool:
        """One more of the gang's pods counts by the watch; whether the gang has started by that (docs/safety.md S23).

        Seen at once: a member may go before the next question, and that the gang was whole would be lost.
        Cost: O(1); O(members) for each from its minimum on, until it has started.
        """
        group, known = self._pods.groups[key], self._gangs.get(key)
        if not group.own or (known is not None and (known.started or known.problem is not None)):
            return False  # An invalid gang does not start, however many pods a tenant puts on nodes
        if known is not None and len(group.shown) < known.min_member:
            return False
        self._renew({key})
        return self._gangs[key].started

    def put_pod_group(self, group: PodGroup, *, native: bool) -> bool:
        """Take over a PodGroup; whether it is news."""
        news = self.pod_groups.get((group.key, native)) != group
        self.pod_groups[group.key, native] = group
        return news

    def changed_owners(self) -> list[GangKey]:
        """Gangs whose age, or runs, may be others by what is known of owners now. Cost: O(pods of gangs)."""
        return [
            key
            for key, gang in self.all().items()
            if gang.later or self.owners.created_s(gang.members) not in (None, gang.created_s) or self._says_news(gang)
        ]

    def _says_news(self, gang: Gang) -> bool:
        if (said := self.owners.says(gang.members)) is None:
            return False
        unread = said.expected != "" and EXPECTED_DURATION not in dict(gang.options)
        return unread or length_s(gang, said) != gang.length_s

    def _renew(self, keys: set[GangKey]) -> None:
        for key in keys:
            known = self._gangs.pop(key, None)
            self._partial.discard(key)
            group = self._pods.groups.get(key)
            if group is not None and group.own:
                gang = continued(self._renewed(known) or self._build(key), known, group.shown, self.noted)
                self._gangs[key] = gang
                if gang.actionable and not gang.started and any(map(counts, gang.members)):
                    self._partial.add(key)
        if keys:
            self._regrouped -= keys
            self._stale = self._stale - keys
            self._view = None

    def _renewed(self, known: Gang | None) -> Gang | None:
        """The gang as it was with its members' newer records, if nothing else can have changed."""
        if known is None or known.key in self._regrouped:
            return None
        return renewed(known, {pod.uid: pod for pod in self._pods.members(known.key)})

    def _build(self, key: GangKey) -> Gang:
        members = self._pods.members(key)
        runs = runs_of(members, least=lambda: declared_minimum(members, self.pod_groups), wanted=self.owners.wanted)
        said = self.owners.says(runs.current)
        built = build_gang(
            runs.current,
            self.pod_groups,
            is_own=self._pods.is_own,
            owner_created_s=self.owners.created_s(runs.current),
            most_needed=self.owners.minimum(key, runs.current),
            owner_options=((EXPECTED_DURATION, said.expected),) if said is not None and said.expected else (),
            beside=runs,
        )
        seconds = length_s(built, said) if built.own else None
        return built if seconds is None else replace(built, length_s=seconds)


class Owners:
    """What was read of the owners of gangs' pods, by uid (docs/safety.md S8, S14, S23).

    A job that is resumed has new pods and often no PodGroup, and keeps its place; only the Jobs show whether two of
    them are one gang or two runs of it; and pods that succeeded on a deleted node are collected. Bounded by the gangs.
    """

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}  # owner → creation, Unix seconds
        self.wanted: Mapping[str, int] = {}  # owner → pods it wants; only of those that are not one of a series
        self._minimums: dict[GangKey, tuple[str, int]] = {}  # gang → its owner, and the minimum that follows from it
        self._says: dict[str, JobSays] = {}  # owner → what it says of its length; only of those that say something

    def note(self, created_s: Mapping[str, float], wanted: Mapping[str, int], says: Mapping[str, JobSays]) -> None:
        """Take over what was read."""
        self._created_s.update(created_s)
        self._says.update(says)
        self.wanted = {**self.wanted, **wanted}

    def knows(self, uid: str) -> bool:
        """Whether this owner was read."""
        return uid in self._created_s

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget owners without pods."""
        self._created_s = {uid: at_s for uid, at_s in self._created_s.items() if uid in uids}
        self.wanted = {uid: count for uid, count in self.wanted.items() if uid in uids}
        self._says = {uid: said for uid, said in self._says.items() if uid in uids}

    def says(self, members: Iterable[Pod]) -> JobSays | None:
        """What the first owner of these pods that says something says of its length. Cost: O(n)."""
        if not self._says:
            return None
        uids = {pod.owner.uid for pod in members if pod.owner is not None}
        return next((self._says[uid] for uid in sorted(uids & self._says.keys())), None)

    def created_s(self, members: Iterable[Pod]) -> float | None:
        """Creation of the oldest owner of these pods; `None`: none was read, or there is none. Cost: O(n)."""
        if not self._created_s:
            return None
        uids = {pod.owner.uid for pod in members if pod.owner is not None}
        return min((self._created_s[uid] for uid in uids if uid in self._created_s), default=None)

    def note_minimum(self, gang: GangKey, uid: str, count: int) -> bool:
        """The gang's owner needs no more than `count` members by now, and never more again; whether that is news."""
        news = self._minimums.get(gang) != (uid, count)
        self._minimums[gang] = uid, count
        return news

    def drop_minimum(self, gang: GangKey) -> None:
        """The gang's last pod is gone."""
        self._minimums.pop(gang, None)

    def minimum(self, gang: GangKey, members: Iterable[Pod]) -> int | None:
        """The most that the gang needs; `None`: not asked, or its pods are another owner's. Cost: O(n) if known."""
        uid, count = self._minimums.get(gang, ("", None))
        if count is None or not all(pod.owner is not None and pod.owner.uid == uid for pod in members):
            return None
        return count
