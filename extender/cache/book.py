"""The own gangs, put together from pods, PodGroups and owners when a caller asks for them.

Why apart from the cache: a gang of n changes with each of its n pods' events, and is looked at far less often. Rule: a
change only notes that a gang is to be built again; it is built once, at the next question, and from its former record
where nothing but its members' progress changed (`gangs.renewed`).
"""

from collections.abc import Mapping, Set

from extender.cache.gangs import build_gang, continued, minimum_told, renewed
from extender.cache.owners import Owners
from extender.cache.pods import Pods
from scoring.feasibility.runs import runs_of
from scoring.ids import GangKey, ResourceName
from scoring.model import Gang, GangSource, PodGroup, counts


class GangBook:
    """Every own gang by key; `pods` knows the members."""

    def __init__(self, pods: Pods, *, managed_resource: ResourceName | None) -> None:
        self._pods = pods
        self._managed_resource = managed_resource
        self.owners = Owners()
        """What was read of jobs; after a change see `told_otherwise`."""
        self._pod_groups: dict[GangSource, dict[GangKey, PodGroup]] = {
            GangSource.POD_GROUP: {},
            GangSource.NATIVE: {},
            GangSource.ANNOTATION: {},
        }
        self._gangs: dict[GangKey, Gang] = {}
        self._partial: set[GangKey] = set()
        self._view: Mapping[GangKey, Gang] | None = None
        self._stale: set[GangKey] = set()
        """Gangs that are to be built again"""
        self._regrouped: set[GangKey] = set()
        """Those of them for which more changed than their members"""

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

    def touch(self, key: GangKey) -> bool:
        """One of the gang's pods changed; whether the gang is, or was, one of ours."""
        group = self._pods.groups.get(key)
        if group is None:
            self.owners.drop_minimum(key)
        if key not in self._gangs and (group is None or not group.own):
            return False
        self._stale.add(key)
        return True

    def rebuild(self, key: GangKey) -> None:
        """More than its pods changed; after `touch`."""
        if key in self._stale:
            self._regrouped.add(key)

    def pod_groups(self, source: GangSource) -> Mapping[GangKey, PodGroup]:
        """PodGroups of one kind."""
        return self._pod_groups.get(source, {})

    def put_pod_group(self, source: GangSource, group: PodGroup) -> bool:
        """Take over a PodGroup; whether it is news."""
        groups = self._pod_groups[source]
        news = groups.get(group.key) != group
        groups[group.key] = group
        return news

    def drop_pod_group(self, source: GangSource, key: GangKey) -> bool:
        """Forget a PodGroup; whether it was known."""
        return self._pod_groups[source].pop(key, None) is not None

    def count_pod_groups(self) -> int:
        """PodGroups of all kinds."""
        return sum(len(groups) for groups in self._pod_groups.values())

    def told_otherwise(self) -> list[GangKey]:
        """Gangs whose age, or runs, may be others by what is known of owners now. Cost: O(pods of gangs)."""
        ages_s = {key: self.owners.created_s(gang.members) for key, gang in self.all().items()}
        return [
            key
            for key, age_s in ages_s.items()
            if self._gangs[key].later or age_s not in (None, self._gangs[key].created_s)
        ]

    def _renew(self, keys: set[GangKey]) -> None:
        for key in keys:
            group = self._pods.groups.get(key)
            if group is None or not group.own:
                self._gangs.pop(key, None)
                self._partial.discard(key)
            else:
                gang = continued(self._renewed(key) or self._build(key), self._gangs.get(key))
                self._gangs[key] = gang
                if not gang.started and _may_be_partial(gang):
                    self._partial.add(key)
                else:
                    self._partial.discard(key)
        if keys:
            self._regrouped -= keys
            self._stale = self._stale - keys
            self._view = None

    def _renewed(self, key: GangKey) -> Gang | None:
        """The gang as it was with its members' newer records, if nothing else can have changed."""
        known = self._gangs.get(key)
        if known is None or key in self._regrouped or self._managed_resource is not None:
            return None
        return renewed(known, self._pods.members_by_uid(key))

    def _build(self, key: GangKey) -> Gang:
        members = self._pods.members(key)
        runs = runs_of(members, least=lambda: minimum_told(members, self._pod_groups), wanted=self.owners.wanted)
        return build_gang(
            runs.current,
            self._pod_groups,
            is_own=self._pods.is_own,
            managed_resource=self._managed_resource,
            owner_created_s=self.owners.created_s(runs.current),
            most_needed=self.owners.minimum(key, runs.current),
            beside=runs,
        )


def _may_be_partial(gang: Gang) -> bool:
    """Whether members of a gang that we start have nodes."""
    return gang.actionable and any(map(counts, gang.members))
