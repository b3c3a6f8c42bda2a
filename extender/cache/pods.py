"""The pods, with the ways to find them; a change of one is carried into room, gangs and commitments.

Rule: a Binding that the API server confirmed counts as bound before the watch shows it (*assumed*), until the watch
shows a node, or that it finished or went.
"""

from collections.abc import Iterator
from operator import attrgetter

from msgspec.structs import replace

from extender.cache.gangs import Gangs
from extender.cache.room import Daemons, Usage
from extender.cache.state import ClusterState, Watched
from scoring import JobKey, NodeName, PodUid
from scoring.model import GangSource, MemberClass, Pod

_SAYS_NOTHING = ("resource_version", "refusal", "parked", "told", "misspelt", "started")
DECIDING = attrgetter(*(name for name in Pod.__struct_fields__ if name not in _SAYS_NOTHING))
"""Everything of a pod that can decide anything; our note on it says only what is known while we run."""


class Pods(Watched[Pod]):
    """Every pod by uid, by name and by job."""

    def __init__(self, state: ClusterState, usage: Usage, daemons: Daemons, gangs: Gangs) -> None:
        self._usage, self._daemons, self._gangs = usage, daemons, gangs
        self.by_uid = gangs.by_uid
        self._names: dict[str, PodUid] = {}  # namespace/name → uid
        super().__init__(state, self._names)
        self._jobs: dict[JobKey, set[PodUid]] = {}
        self.assumed: dict[PodUid, NodeName] = {}  # pods that are bound by our word alone → their node
        self.misspelt: dict[PodUid, None] = {}  # Pods with keys that are probably misspelt, the first seen first

    def __iter__(self) -> Iterator[Pod]:
        return iter(self.by_uid.values())

    def by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name."""
        return self.by_uid.get(self._names.get(f"{namespace}/{name}", PodUid("")))

    def of_job(self, job: JobKey) -> tuple[Pod, ...]:
        """Pods of the job, sorted by name."""
        return tuple(sorted((self.by_uid[uid] for uid in self._jobs.get(job, ())), key=attrgetter("name")))

    def node_of(self, pod: Pod) -> NodeName | None:
        """The node whose room the pod takes: its own, else the one that it is nominated for (docs/safety.md S12).

        Waiting members of own gangs take none yet: the planner gives them room. Nor does a pod that is only pinned to a
        node (docs/safety.md S26); nominations are kube-scheduler's, as tenants may not write pods/status.
        """
        if pod.terminal:
            return None
        if pod.node is not None or pod.deleting:
            return pod.node
        if pod.group is not None and pod.group.source is not GangSource.NATIVE and self._gangs.is_own(pod):
            return None
        return pod.nominated_node

    def _room_of(self, pod: Pod | None) -> tuple[NodeName, MemberClass] | None:
        if pod is None or (node := self.node_of(pod)) is None:
            return None
        return node, pod.member_class

    def assume(self, uid: PodUid, node: NodeName) -> None:
        """Count an unbound pod as bound: the API server confirmed its Binding, and the watch will show it soon."""
        before = self.by_uid.get(uid)
        if before is not None and before.node is None and not before.terminal:
            self.assumed[uid] = node
            self._state.note(self._change(uid, before, replace(before, node=node)))

    def _take(self, item: Pod) -> bool:
        uid = item.uid
        replaced = self._names.get(item.key, uid) != uid and self._drop(item.key)
        if item.misspelt:
            self.misspelt[uid] = None
        elif self.misspelt:
            self.misspelt.pop(uid, None)
        before, after = self.by_uid.get(uid), item
        if uid in self.assumed:
            if item.node is not None or item.terminal:
                del self.assumed[uid]
            else:
                after = replace(item, node=self.assumed[uid])
        elif before is not None and DECIDING(before) == DECIDING(item):
            self.by_uid[uid] = item
            if item.group is not None:
                self._gangs.groups[item.group.key].pods[uid] = item
            return False
        decides = self._change(uid, before, after)
        self._state.expected = self._state.expected and not replaced
        return decides or replaced

    def _drop(self, key: str) -> bool:
        uid = self._names.get(key)
        return uid is not None and self._change(uid, self.by_uid[uid], None)

    def _change(self, uid: PodUid, before: Pod | None, after: Pod | None) -> bool:
        """Take over a record in place of the one before; whether that can decide anything."""
        left, entered = self._room_of(before), self._room_of(after)
        foreseen = before is not None and after is not None and self._foreseen(before, after)
        shown = self._file(uid, before, after)
        decides = left != entered
        if decides and left is not None:
            self._usage.count(*left, uid, -1)
        if decides and entered is not None:
            self._usage.count(*entered, uid, 1)
        if (before is not None and before.daemon) or (after is not None and after.daemon):
            decides = self._daemons.pod_changed(before, after) or decides
        if after is None or not needs_node(after):
            decides = self._state.release(uid) or decides
        if before is None or after is None or DECIDING(before) != DECIDING(after):
            for pod in (before, after):
                if pod is not None and pod.group is not None:
                    decides = self._gangs.touch(pod.group.key, regrouped=False) or decides
        if shown and after is not None and after.group is not None:
            decides = self._gangs.shown(after.group.key) or decides
        self._state.expected = foreseen and decides
        return decides

    def _file(self, uid: PodUid, before: Pod | None, after: Pod | None) -> bool:
        """Find it by what it is now; whether a member counts from now on by what the watch shows."""
        if before is not None and (after is None or before.group is not after.group or before.job != after.job):
            self._gangs.leave(before)
            if before.job is not None:
                self._jobs[before.job].discard(uid)
                if not self._jobs[before.job]:
                    del self._jobs[before.job]
        if after is None:
            if before is not None:
                del self.by_uid[uid], self._names[before.key]
                self.assumed.pop(uid, None)
                self.misspelt.pop(uid, None)
            return False
        self.by_uid[uid] = after
        self._names[after.key] = uid
        if after.job is not None:
            self._jobs.setdefault(after.job, set()).add(uid)
        return self._gangs.join(after, assumed=uid in self.assumed)

    def _foreseen(self, before: Pod, after: Pod) -> bool:
        """Whether a member went where it was committed to go, came to run there, or lost the gate that we removed."""
        if before.terminal or after.terminal or after.deleting or after.group is None:
            return False
        if before.node is None and after.node is not None:
            return self._state.committed_node(after.group.key, after.uid) == after.node
        if before.node is None:
            return before.gated and not after.gated and after.admitted_to is not None
        return before.node == after.node and before.member_class == after.member_class


def needs_node(pod: Pod | None) -> bool:
    """Whether a commitment still has something to do for the pod; one that is not known yet may come."""
    return pod is None or not (pod.node is not None or pod.terminal or pod.deleting)
