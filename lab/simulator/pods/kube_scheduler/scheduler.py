"""A kube-scheduler: hears of pods and nodes, tries one pod at a time, binds in the background.

Modelled from kube-scheduler 1.36 (facts and an agreement test beside the real one: `lab.simulator.agreement`). Rules:
the cycle of one pod is in-tree filters → extender filter → scores → assumed; it waits for the extender's answers, and
after a refusal until the pod's condition is written, if that is a new one. Binding runs beside it; a failed one gives
the place back, which is an event, and the pod waits for its error backoff. `SECOND` says what
scheduler-config/second-scheduler.yaml and its Deployment say; a test compares them.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extender.convert import node_from_json, pod_from_json
from extender.errors import ApiError
from extender.kube.calls import NODES, PODS
from extender.ports import Binding
from lab.simulator.apiserver.api import StoreApi
from lab.simulator.apiserver.store import Change, ChangeType, Object, with_condition
from lab.simulator.pods.kube_scheduler.coscheduling import Gangs
from lab.simulator.pods.kube_scheduler.extender import Extender
from lab.simulator.pods.kube_scheduler.filters import Filters
from lab.simulator.pods.kube_scheduler.nodes import Nodes
from lab.simulator.pods.kube_scheduler.queue import Queued, SchedulingQueue, by_priority
from lab.simulator.pods.kube_scheduler.queueing_hints import Event, Happened, Plugin
from lab.simulator.pods.record import Record
from lab.simulator.pods.virtual_time import Latencies
from scoring.ids import NodeName, PodUid
from scoring.model import Node, Pod


@dataclass(frozen=True, slots=True)
class SchedulerProfile:
    """One kube-scheduler with one profile."""

    name: str
    """`spec.schedulerName` of its pods."""
    extender: bool = False
    """Netgang is asked: filter, prioritize, bind."""
    weight: int = 12
    """Of the extender's scores."""
    http_timeout_s: float = 60.0
    """Of the extender entry with the bind verb."""
    percentage: int | None = None
    """percentageOfNodesToScore; `None`: its own sampling."""
    pops_backoff: bool = True
    """Feature gate SchedulerPopFromBackoffQ."""
    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    gangs: bool = False
    """A plugin after PAPERS G gangs the pods: PreFilter, Permit, Unreserve, QueueSort."""
    rejects_early: bool = False
    """Besides, PostFilter: members at Permit are rejected once one of their group fits nowhere."""
    permit_s: float = 60.0
    """How long a member waits at Permit."""


SECOND = SchedulerProfile("netgang", extender=True, percentage=100)
"""The second scheduler of the recommended configuration."""
DEFAULT = SchedulerProfile("default-scheduler")
"""kube-scheduler as it comes."""
COSCHEDULING = SchedulerProfile("coscheduling", gangs=True, rejects_early=True)
"""kube-scheduler with a coscheduling plugin."""


_POINTS = 10
"""MaxNodeScore / MaxExtenderPriority: what one point of an extender is worth, before its weight."""
_BOUND, _CHANGED, _GONE = (Happened(one) for one in (Event.POD_BOUND, Event.POD_CHANGED, Event.POD_GONE))


class KubeScheduler:
    """One scheduler process. `start` it before there are pods, then keep `run` running."""

    def __init__(
        self,
        api: StoreApi,
        profile: SchedulerProfile,
        latencies: Latencies,
        rng: random.Random,
        record: Record,
        *,
        extender: Extender | None = None,
    ) -> None:
        self._api = api
        self._profile = profile
        self._latencies = latencies
        self._rng = rng
        self._record = record
        self._extender = extender
        self._gangs = Gangs(permit_s=profile.permit_s) if profile.gangs else None
        self.queue = SchedulingQueue(
            order=self._gangs.order if self._gangs is not None else by_priority,
            initial_backoff_s=profile.initial_backoff_s,
            max_backoff_s=profile.max_backoff_s,
            pops_backoff=profile.pops_backoff,
        )
        self.nodes = Nodes()
        self._filters = Filters(self.nodes, percentage=profile.percentage)
        self._bodies: dict[PodUid, Change] = {}
        """unbound pod of ours → its last state"""

    def start(self) -> None:
        """Follow nodes and pods, from the very first."""
        self._api.store.follow(NODES, self._hear_node, since=1)
        self._api.store.follow(PODS, self._hear_pod, since=1)

    async def run(self) -> None:
        """Try pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run())
            while True:
                await self._cycle(await self.queue.pop(), group)

    # -- the cycle of one pod -----------------------------------------------------------------------------------------

    async def _cycle(self, one: Queued, binding: asyncio.TaskGroup) -> None:
        pod = one.pod
        if self._gangs is not None and not self._gangs.complete(pod):
            await asyncio.sleep(self._latencies.cycle.draw(self._rng))
            await self._refused(one, frozenset({Plugin.GANG}), "less than the group's minimum of pods exist")
            return
        found = self._filters.find(pod)
        await asyncio.sleep(self._latencies.cycle.draw(self._rng) + found.looked_at * self._latencies.node_s)
        names = found.names
        left: Sequence[NodeName] = names
        refused_by, said = found.refused_by, dict(found.said)
        if self._extender is not None and names:
            reply = await self._extender.filter(pod, self._body(pod), names)
            if reply.error:
                await self._failed(one, reply.error)
                return
            left = reply.names
            if len(left) != len(names):
                refused_by |= {Plugin.EXTENDER}
                said[reply.reason] = len(names) - len(left)
        if not left:
            if self._gangs is not None and self._profile.rejects_early:
                self._gangs.refused(pod)
            await self._refused(one, refused_by, _message(self.nodes.count, said))
            return
        node = left[0] if len(left) == 1 else await self._best(pod, left)
        if self.queue.get(pod.uid) is not one:
            return  # deleted, or bound by another client, while it was tried
        if node is None:
            await self._failed(one, "the nodes are gone")
            return
        self.nodes.take(pod, node)
        waiting = self._gangs.permit(pod) if self._gangs is not None else None
        if self._gangs is not None and waiting is not None:
            self.queue.activate(self._gangs.siblings(pod))
        self._record.tries["placed"] += 1
        binding.create_task(self._bind(one, node, waiting))

    async def _best(self, pod: Pod, names: Sequence[NodeName]) -> NodeName | None:
        """The node with most points; a seeded choice among equals; `None`: all of them have gone meanwhile."""
        scores: Sequence[int] = ()
        if self._extender is not None:
            scores = await self._extender.prioritize(pod, self._body(pod), list(names))
        by_extender = dict(zip(names, scores, strict=True)) if scores else {}
        there = [name for name in names if name in self.nodes.table.index]
        if not there:
            return None
        points = self._filters.score(pod, there)
        if by_extender:
            points = points + np.array([by_extender[name] for name in there]) * (self._profile.weight * _POINTS)
        best = np.flatnonzero(points == points.max()).tolist()
        return there[best[0] if len(best) == 1 else self._rng.choice(best)]

    async def _bind(self, one: Queued, node: NodeName, waiting: asyncio.Future[bool | None] | None) -> None:
        """The binding cycle: Permit, then bind through the extender or directly."""
        pod = one.pod
        if waiting is not None and not (answer := await waiting):
            self.nodes.give_back(pod.uid)
            if answer is not None:
                self._room_came(but=pod.uid)
            await self._refused(one, frozenset({Plugin.GANG}), "the group did not get together in time")
            return
        self.queue.done(one)
        if self._extender is not None:
            error = await self._extender.bind(pod, node)
        else:
            error = await self._post(Binding(pod.namespace, pod.name, pod.uid, node))
        if not error:
            return
        if self.queue.get(pod.uid) is one:  # else the watch has shown it bound, or it is gone
            self.nodes.give_back(pod.uid)
            if self._gangs is not None:
                self._gangs.lost(pod.uid)
            self._room_came()
        await self._failed(one, error)

    async def _post(self, binding: Binding) -> str:
        try:
            await self._api.bind(binding)
        except ApiError as error:
            return str(error)
        return ""

    async def _refused(self, one: Queued, refused_by: frozenset[Plugin], message: str) -> None:
        self._record.tries["refused"] += 1
        self.queue.back(one, refused_by)
        await self._say(one, "Unschedulable", message)

    async def _failed(self, one: Queued, error: str) -> None:
        self._record.tries["failed"] += 1
        self.queue.back(one, frozenset())
        await self._say(one, "SchedulerError", error)

    async def _say(self, one: Queued, reason: str, message: str) -> None:
        """Write the pod's condition, unless it says so already. The patch is itself a change of the pod."""
        said = f"{reason}: {message}"
        if self.queue.get(one.uid) is not one or one.said == said:
            return
        one.said = said
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        async with self._api.call("condition"):
            store, pod = self._api.store, self._api.store.find(PODS, one.pod.namespace, one.pod.name)
            if pod is None or pod["metadata"]["uid"] != one.uid:
                return
            if not any(condition.items() <= there.items() for there in pod["status"].get("conditions", ())):
                store.replace(PODS, {**pod, "status": with_condition(pod, store.dated(condition))})

    def _body(self, pod: Pod) -> bytes:
        known = self._bodies.get(pod.uid)
        return known.body if known is not None else b"{}"

    # -- what the informers bring -------------------------------------------------------------------------------------

    def _hear_node(self, change: Change) -> None:
        node = node_from_json(change.body)
        if change.type is ChangeType.DELETED:
            self.queue.happened(Happened(Event.NODE_GONE))
            self.nodes.drop(node.name)
            return
        before = self.nodes.put(node)
        if self._gangs is not None:
            self._gangs.room_came()
        if before is None:
            self.queue.happened(Happened(Event.NODE_ADDED, node))
        elif _decides(node) != _decides(before):
            self.queue.happened(Happened(Event.NODE_CHANGED, node, before))

    def _hear_pod(self, change: Change) -> None:
        new = change.new
        uid = PodUid(new["metadata"]["uid"])
        ours = new["spec"]["schedulerName"] == self._profile.name
        was_there = change.old is not None and not _ended(change.old)
        if change.type is ChangeType.DELETED or _ended(new):
            if was_there:
                self._forget(uid, ours=ours)
        elif new["spec"].get("nodeName"):
            if was_there and change.old is not None and change.old["spec"].get("nodeName"):
                self.queue.happened(_CHANGED)
                return
            pod = pod_from_json(change.body)
            self.nodes.take(pod, NodeName(new["spec"]["nodeName"]))
            if self._gangs is not None and ours:
                self._gangs.seen(pod, now_s=asyncio.get_running_loop().time())
            self._leave_queue(uid, ours=ours)
            self.queue.happened(_BOUND)
        elif ours:
            self._waits(change, uid)

    def _waits(self, change: Change, uid: PodUid) -> None:
        """A pod of ours without a node is new or has changed."""
        known = self.queue.get(uid)
        self._bodies[uid] = change
        if known is not None and change.old is not None and change.old["spec"] is change.new["spec"]:
            pod = known.pod  # whatever changed, it is nothing that a cycle reads
        else:
            pod = pod_from_json(change.body)
        if self._gangs is not None:
            self._gangs.seen(pod, now_s=asyncio.get_running_loop().time())
        if known is not None and self.nodes.node_of(uid) is not None:
            known.pod = pod  # assumed: its binding is under way
            return
        self.queue.update(pod)

    def _room_came(self, but: PodUid | None = None) -> None:
        """A pod's place is free."""
        if self._gangs is not None:
            self._gangs.room_came()
        self.queue.happened(_GONE, but=but)

    def _forget(self, uid: PodUid, *, ours: bool) -> None:
        """The pod is gone, or has ended; so is its room."""
        self._leave_queue(uid, ours=ours)
        if self._gangs is not None and ours:
            self._gangs.gone(uid)
        if self.nodes.give_back(uid):
            self._room_came()

    def _leave_queue(self, uid: PodUid, *, ours: bool) -> None:
        if ours:
            self._bodies.pop(uid, None)
            self.queue.remove(uid)


def _message(nodes: int, said: dict[str, int]) -> str:
    """What kube-scheduler says of a pod that fits nowhere.

    >>> _message(3, {"netgang: no room": 2, "Insufficient cpu": 1})
    '0/3 nodes are available: 1 Insufficient cpu, 2 netgang: no room.'
    """
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{count} {text}' for text, count in said.items()))}."


def _decides(node: Node) -> tuple[object, ...]:
    """What of a node an event is made for."""
    return node.allocatable, node.labels, node.taints, node.unschedulable, node.ready


def _ended(obj: Object) -> bool:
    return (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
