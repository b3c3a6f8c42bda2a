"""A gang plugin for kube-scheduler after PAPERS G: PreFilter, PostFilter, Permit, Unreserve and QueueSort.

Why: it is what netgang is compared with. Rules (G2 to G5): a pod whose group has fewer pods than its minimum is denied
without trying; one that found a node waits there until the minimum has found nodes, and calls its siblings; when one
waits too long, or loses its place, all waiting members of the group are rejected together; the queue sorts by priority,
then by the age of the group, so that members stand side by side. PostFilter is that of the plugin in
kubernetes-sigs/scheduler-plugins: a member that fits nowhere has the waiting ones of its group rejected at once, unless
at most a tenth of the minimum is missing; so room does not idle at Permit while younger gangs could use it. Instead of
that plugin's group backoff, which is a time, a rejected group is denied until room may have come.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from lab.simulator.pods.kube_scheduler.queue import Queued
from scoring.ids import GangKey, PodUid
from scoring.model import Pod

_NEARLY = 0.1
"""With at most this share of the minimum missing a group goes on waiting."""


@dataclass(slots=True, eq=False)
class _Group:
    """One gang as the scheduler's informers show it."""

    minimum: int
    since_s: float
    members: set[PodUid] = field(default_factory=set)
    """Pods that exist and have not ended."""
    placed: set[PodUid] = field(default_factory=set)
    """On a node, or assumed to be."""
    waiting: dict[PodUid, asyncio.Future[bool | None]] = field(default_factory=dict)
    """At Permit → whether it may go on; `None`: no, and no other pod was kept from its room."""
    denied: bool = False
    """One of it fitted nowhere, and no room has come since."""


class Gangs:
    """All groups of one scheduler. A group lives as long as it has members."""

    def __init__(self, *, permit_s: float) -> None:
        self._permit_s = permit_s
        self._groups: dict[GangKey, _Group] = {}
        self._of: dict[PodUid, GangKey] = {}

    def order(self, one: Queued) -> tuple[object, ...]:
        """QueueSort (G5)."""
        group = self._group(one.pod)
        if group is None or one.pod.group is None:
            return -one.pod.priority, one.since_s, ""
        return -one.pod.priority, group.since_s, one.pod.group.key

    def seen(self, pod: Pod, *, now_s: float) -> None:
        """The pod exists, on a node or not."""
        if pod.group is None:
            return
        group = self._groups.setdefault(pod.group.key, _Group(pod.group.min_available or 1, now_s))
        group.members.add(pod.uid)
        self._of[pod.uid] = pod.group.key
        if pod.node is not None:
            group.placed.add(pod.uid)

    def gone(self, uid: PodUid) -> None:
        """The pod does not exist any more, or has ended."""
        key = self._of.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        group.members.discard(uid)
        group.placed.discard(uid)
        if uid in group.waiting:
            self.lost(uid, key)
        if not group.members:
            del self._groups[key]

    def complete(self, pod: Pod) -> bool:
        """PreFilter (G2): whether as many members exist as must start together, and a try is not known to be vain."""
        group = self._group(pod)
        return group is None or (len(group.members) >= group.minimum and not group.denied)

    def refused(self, pod: Pod) -> None:
        """PostFilter: the pod fits nowhere, so those of its group that wait most likely do so in vain."""
        group = self._group(pod)
        if group is not None and group.minimum - len(group.placed) > _NEARLY * group.minimum:
            group.denied = True
            self._answer(group, may_go=None)

    def room_came(self) -> None:
        """Every group may be tried again."""
        for group in self._groups.values():
            group.denied = False

    def permit(self, pod: Pod) -> asyncio.Future[bool | None] | None:
        """Permit (G3): `None`: go on, and those that waited for it too; else what answers in time."""
        group = self._group(pod)
        if group is None:
            return None
        group.placed.add(pod.uid)
        if len(group.placed) >= group.minimum:
            self._answer(group, may_go=True)
            return None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool | None] = loop.create_future()
        group.waiting[pod.uid] = answer
        alarm = loop.call_later(self._permit_s, self.lost, pod.uid, self._of[pod.uid])
        answer.add_done_callback(lambda _: alarm.cancel())
        return answer

    def siblings(self, pod: Pod) -> Iterable[PodUid]:
        """Members that have no place yet, by name of their uid."""
        group = self._group(pod)
        return () if group is None else sorted(group.members - group.placed)

    def lost(self, uid: PodUid, key: GangKey | None = None) -> None:
        """Unreserve (G4): the pod has no place any more, and all of its group that wait are rejected."""
        key = self._of.get(uid) if key is None else key
        group = self._groups.get(key) if key is not None else None
        if group is None:
            return
        group.placed.discard(uid)
        self._answer(group, may_go=False)

    def _answer(self, group: _Group, *, may_go: bool | None) -> None:
        waiting, group.waiting = group.waiting, {}
        for uid, answer in waiting.items():
            if not may_go:
                group.placed.discard(uid)
            if not answer.done():
                answer.set_result(may_go)

    def _group(self, pod: Pod) -> _Group | None:
        return self._groups.get(pod.group.key) if pod.group is not None else None
