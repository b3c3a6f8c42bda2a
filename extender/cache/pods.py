"""The pods, as the planner sees them, with the ways to find them.

Rule: a Binding that the API server confirmed counts as bound before the watch shows it (*assumed*), until the watch
shows a node, or that it finished or went.
"""

from collections.abc import Iterator
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from scoring.ids import GangKey, JobKey, NodeName, PodUid
from scoring.model import GangSource, Pod, counts

_SAYS_NOTHING = ("resource_version", "refusal", "parked", "told", "misspelt", "started")
DECIDING = attrgetter(*(name for name in Pod.__struct_fields__ if name not in _SAYS_NOTHING))
"""Everything of a pod that can decide anything; our note on it says only what is known while we run."""


def same_but_version(one: Pod, other: Pod) -> bool:
    """Whether two records differ in nothing but the resourceVersion, our note, and words that decide nothing."""
    return bool(DECIDING(one) == DECIDING(other))


class Group(msgspec.Struct):
    """The pods that name one gang, and how many of them are ours."""

    uids: set[PodUid] = set()
    shown: set[PodUid] = set()  # Those that count by what the watch shows, not assumed
    own: int = 0


class PodChange(msgspec.Struct, frozen=True):
    """A pod's change: its record before and after, and the node whose room it gave up and takes now."""

    before: Pod | None
    after: Pod | None
    left: NodeName | None
    entered: NodeName | None
    shown: bool = False  # A member counts from now on by what the watch shows


class Pods:
    """Every pod by uid, by name, by gang and by job."""

    def __init__(self, *, scheduler_names: frozenset[str], extender: bool = True) -> None:
        self._scheduler_names = scheduler_names
        self._extender = extender
        self._by_uid: dict[PodUid, Pod] = {}
        self.names: dict[str, PodUid] = {}  # namespace/name → uid
        self.groups: dict[GangKey, Group] = {}  # gang → the pods that name it
        self._jobs: dict[JobKey, set[PodUid]] = {}
        self.assumed: dict[PodUid, NodeName] = {}  # pods that are bound by our word alone → their node
        self.misspelt: dict[PodUid, None] = {}  # Pods with keys that are probably misspelt, the first seen first

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._by_uid.values())

    def get(self, uid: PodUid) -> Pod | None:
        """The pod, or `None`."""
        return self._by_uid.get(uid)

    def members(self, gang: GangKey) -> tuple[Pod, ...]:
        """Pods that name the gang, in no particular order."""
        group = self.groups.get(gang)
        return tuple(self._by_uid[uid] for uid in group.uids) if group is not None else ()

    def foreign_groups(self) -> list[GangKey]:
        """Names of gangs that only pods of other schedulers have. Cost: O(gangs)."""
        return [key for key, group in self.groups.items() if not group.own]

    def of_job(self, job: JobKey) -> tuple[Pod, ...]:
        """Pods of the job, sorted by name."""
        return tuple(sorted((self._by_uid[uid] for uid in self._jobs.get(job, ())), key=lambda pod: pod.name))

    def is_own(self, pod: Pod) -> bool:
        """Whether netgang may gate, hold, patch or evict the pod (docs/safety.md S1); the pod need not be known.

        Where kube-scheduler does not ask us, only what it starts as a whole by itself, once admitted, can be ours.
        """
        if pod.scheduler_name not in self._scheduler_names:
            return False
        return self._extender or (pod.group is not None and pod.group.source is GangSource.GATED_NATIVE)

    def refresh(self, pod: Pod) -> bool:
        """Take over a record that differs from the known one in nothing that can decide; whether it was one."""
        known = self._by_uid.get(pod.uid)
        if known is None or pod.uid in self.assumed or not same_but_version(known, pod):
            return False
        self._by_uid[pod.uid] = pod
        self._note_misspelt(pod)
        return True

    def put(self, pod: Pod) -> PodChange:
        """Take over a record as watched."""
        before = self._by_uid.get(pod.uid)
        left = self.claim(before) if before is not None else None
        after = pod
        if pod.uid in self.assumed:
            if pod.node is not None or pod.terminal:
                del self.assumed[pod.uid]
            else:
                after = replace(after, node=self.assumed[pod.uid])
        self._keep(before, after)
        self._note_misspelt(after)
        return PodChange(before, after, left, self.claim(after), self._show(after))

    def assume(self, uid: PodUid, node: NodeName) -> PodChange | None:
        """Count the pod as bound to `node`; `None` when it is unknown, finished, or known to be bound already."""
        before = self._by_uid.get(uid)
        if before is None or before.node is not None or before.terminal:
            return None
        left = self.claim(before)
        self.assumed[uid] = node
        after = self._by_uid[uid] = replace(before, node=node)
        return PodChange(before, after, left, node)

    def drop(self, uid: PodUid) -> PodChange:
        """Forget a known pod."""
        before = self._by_uid[uid]
        left = self.claim(before)
        self._unfile(before)
        del self._by_uid[uid], self.names[before.key]
        self.assumed.pop(uid, None)
        self.misspelt.pop(uid, None)
        return PodChange(before, None, left, None)

    def claim(self, pod: Pod) -> NodeName | None:
        """The node whose room the pod takes: its own, else the one that it is nominated for (docs/safety.md S12).

        Waiting members of own gangs take none yet: the planner gives them room. Nor does a pod that is only pinned to a
        node (docs/safety.md S26); nominations are kube-scheduler's, as tenants may not write pods/status.
        """
        if pod.terminal:
            return None
        if pod.node is not None or pod.deleting:
            return pod.node
        if pod.group is not None and pod.group.source is not GangSource.NATIVE and self.is_own(pod):
            return None
        return pod.nominated_node

    def _keep(self, before: Pod | None, after: Pod) -> None:
        self._by_uid[after.uid] = after
        self.names[after.key] = after.uid
        if before is not None:
            if before.group is after.group and before.job == after.job:
                return
            self._unfile(before)
        if after.group is not None:
            group = self.groups.setdefault(after.group.key, Group())
            group.uids.add(after.uid)
            group.own += self.is_own(after)
        if after.job is not None:
            self._jobs.setdefault(after.job, set()).add(after.uid)

    def _note_misspelt(self, pod: Pod) -> None:
        if pod.misspelt:
            self.misspelt[pod.uid] = None
        elif self.misspelt:
            self.misspelt.pop(pod.uid, None)

    def _show(self, pod: Pod) -> bool:
        """Note whether a member that was watched counts; whether it does from now on."""
        if pod.group is None:
            return False
        shown = self.groups[pod.group.key].shown
        if pod.uid in self.assumed or not counts(pod):
            shown.discard(pod.uid)
            return False
        before = len(shown)
        shown.add(pod.uid)
        return len(shown) > before

    def _unfile(self, pod: Pod) -> None:
        if pod.group is not None:
            group = self.groups[pod.group.key]
            group.uids.discard(pod.uid)
            group.shown.discard(pod.uid)
            group.own -= self.is_own(pod)
            if not group.uids:
                del self.groups[pod.group.key]
        if pod.job is not None:
            self._jobs[pod.job].discard(pod.uid)
            if not self._jobs[pod.job]:
                del self._jobs[pod.job]
