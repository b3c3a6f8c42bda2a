"""The whole service over a cluster in memory, in virtual time, and a few words for what happens around it.

Only the API server, the clock and kube-scheduler are played. When a test's block ends, all calls are answered, nothing
is committed, and the cache agrees with itself; so every test is also a test that nothing leaks.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import httpx
import msgspec

from extender.bootstrap import Service, following
from extender.convert import pod_from_json
from extender.convert.wire import BindArgs, FilterAnswer, FilterArgs, Passed, PodRef, Refused
from extender.errors import ApiError
from extender.kube.calls import NODES, PODS
from extender.leadership.lease_loop import Candidacy
from extender.settings.settings import Settings
from lab.testbed.netgang import split, with_limits
from scoring import GangKey, Namespace, NodeName, PodName, PodUid
from scoring.model import GATE
from scoring.model.gang import gang_key
from scoring.model.reasons import Reason
from scoring.network.matrix import NetworkMatrix
from scoring.permit import PermitState
from scoring.plan import Plan
from scoring.records import Explained
from tests.extender.beside import at_once
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process
from tests.fuzz.consistency import assert_consistent

HOLD_S = 25.0  # the default hold limit
COMMIT_S = 15.0  # the default commit timeout
ADMIT_S = 60.0  # the default time after which an admitted gang that does not come to bind lapses
PARTIAL_S = 120.0  # the default time after which a gang that never started is evicted
NO_BUDGET = ApiError(429, "Cannot evict pod as it would violate the pod's disruption budget.")

GATED: dict[str, Any] = {"schedulingGates": [{"name": GATE}]}  # fields of a pod that waits at our gate

Object = dict[str, Any]


def node_json(name: str, *, zone: str = "a", cpu: str = "4", ready: bool = True, **spec: Any) -> Object:
    """A v1.Node; `zone` "" means no zone label."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def pod_json(
    name: str,
    *,
    gang: str | None = None,
    size: int = 1,
    group: str | None = None,
    cpu: str = "1",
    scheduler: str = "netgang",
    annotations: dict[str, str] | None = None,
    uid: str | None = None,
    owner: Object | None = None,
    phase: str | None = None,
    **spec: Any,
) -> Object:
    """A v1.Pod that asks for `cpu`; `gang` and `size` are its labels, or `group` its PodGroup; `owner` a reference."""
    labels = {"scheduling.x-k8s.io/pod-group": group} if group is not None else {}
    if gang is not None:
        labels["pod-group.scheduling.sigs.k8s.io/name"] = gang
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(size)
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations or {},
            **({"uid": uid} if uid is not None else {}),
            **({"ownerReferences": [owner]} if owner is not None else {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        **({"status": {"phase": phase}} if phase is not None else {}),
    }


def group_json(name: str = "g", least: int = 2) -> Object:
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": least}}


async def unasked(_: object) -> tuple[str, ...]:
    return ()


def pinned_to(node: str) -> Object:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def required_terms(pod: Object) -> list[Object]:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(required["nodeSelectorTerms"])


def listed(pod: Object) -> set[str]:
    """The nodes that an admission has named in a pod."""
    return {name for term in required_terms(pod) for name in term["matchFields"][0]["values"]}


class Call(msgspec.Struct, frozen=True, eq=False):
    pod: str
    node: str
    task: asyncio.Task[Reason | None]
    gone: asyncio.Future[None]
    began_s: float

    @property
    def waits(self) -> bool:
        return not self.task.done()

    @property
    def answer(self) -> Reason | None:
        """What was answered; `None` is success."""
        return self.task.result()

    def hang_up(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)


class World(msgspec.Struct):
    service: Service
    api: FakeClusterApi
    clock: LoopClock
    calls: list[Call] = []
    namespace: str = "default"  # Of the pods that its words are about

    def node(self, name: str, **fields: Any) -> None:
        self.api.add(node_json(name, **fields))

    def pod(self, name: str, **fields: Any) -> None:
        pod = pod_json(name, **fields)
        self.api.add(pod | {"metadata": pod["metadata"] | {"namespace": self.namespace}})

    def gang(self, name: str, size: int, *, minimum: int | None = None, **fields: Any) -> tuple[str, ...]:
        names = tuple(f"{name}-{i}" for i in range(size))
        for one in names:
            self.pod(one, gang=name, size=size if minimum is None else minimum, **fields)
        return names

    def owner(
        self, name: str, *, kind: str = "Job", api_version: str = "batch/v1", created: str | None = None, **fields: Any
    ) -> Object:
        metadata = {"name": name} | ({"creationTimestamp": created} if created is not None else {})
        stored = self.api.add({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})
        uid = stored["metadata"]["uid"]
        return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}

    def change(self, name: str, **spec: Any) -> None:
        """Write to a pod's spec, as another client may do; `phase` goes to its status, `deleting` marks it."""
        pod = self.api.pod(name)
        if "phase" in spec:
            pod.setdefault("status", {})["phase"] = spec.pop("phase")
        if spec.pop("deleting", False):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pod["spec"].update(spec)
        self.api.add(pod)

    def says(self, message: str, *pods: str) -> None:
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        for name in pods:
            pod = self.api.pod(name)
            pod.setdefault("status", {})["conditions"] = [said]
            self.api.add(pod)

    def delete(self, *pods: str) -> None:
        for pod in pods:
            self.api.remove(pod)

    def occupy(self, node: str, *, cpu: str = "4", name: str = "stranger") -> None:
        self.pod(name, cpu=cpu, scheduler="default-scheduler", nodeName=node)

    def occupy_unseen(self, node: str) -> None:
        """A stranger is there as soon as this returns, and nobody was told."""
        stranger = pod_json("stranger", cpu="4", scheduler="other", nodeName=node)
        self.service.cache.pods.put(pod_from_json(msgspec.json.encode(stranger)))

    def uid(self, pod: str) -> PodUid:
        return PodUid(self.api.pod(pod, namespace=self.namespace)["metadata"]["uid"])

    def node_of(self, pod: str) -> str | None:
        found = self.api.pod(pod, namespace=self.namespace)["spec"].get("nodeName")
        return None if found is None else str(found)

    def bound(self) -> dict[str, str]:
        pods = [one.new for one in self.api.store.all(PODS)]
        ours = [pod for pod in pods if pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == "netgang"]
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in ours}

    def node_names(self) -> list[NodeName]:
        return sorted(NodeName(name) for _, name in self.api.store.bodies(NODES))

    def asking(self, pod: str, *, nodes: Iterable[str] | None = None, debug: bool = False) -> FilterArgs:
        asked = self.api.pod(pod, namespace=self.namespace)
        return args_of(asked, nodes=self.node_names() if nodes is None else nodes, debug=debug)

    def filter(self, pod: str, *, nodes: Iterable[str] | None = None, debug: bool = False) -> FilterAnswer:
        """Ask /filter as the HTTP side does, with a quick worker and nothing that the watch is behind with."""
        args, verbs = self.asking(pod, nodes=nodes, debug=debug), self.service.verbs
        for _ in range(2):
            if not debug and (wait := verbs.planned(args)) is not None:
                wait.close()
                at_once(self.service.planner.run_once())
        return verbs.filter(args)

    async def ask(self, pod: str, **how: Any) -> FilterAnswer:
        """Ask /filter as the HTTP side does, with a moment for the watch."""
        args = self.asking(pod, **how)
        if (wait := self.service.verbs.caught_up(args)) is not None:
            await wait
        return self.service.verbs.filter(args)

    def offered(self, pod: str, **how: Any) -> str:
        answer = self.filter(pod, **how)
        assert isinstance(answer, Passed), answer
        [node] = answer.names
        return node

    def refusal(self, pod: str, **how: Any) -> Reason:
        answer = self.filter(pod, **how)
        assert isinstance(answer, Refused), answer
        return answer.reason

    def passed(self, pod: str, *, unless: Reason, **how: Any) -> list[str]:
        """Ask /filter; the nodes that the pod may use, none if it is refused for this reason."""
        answer = self.filter(pod, **how)
        assert isinstance(answer, Passed) or answer == Refused(unless), answer
        return list(answer.names) if isinstance(answer, Passed) else []

    def scores(self, pod: str, **how: Any) -> dict[str, int]:
        args = self.asking(pod, **how)
        return dict(zip(args.node_names, self.service.verbs.prioritize(args), strict=True))

    def bind(self, pod: str, node: str, *, uid: str | None = None) -> Call:
        known = PodUid(uid) if uid is not None else self.uid(pod)
        args = BindArgs(PodName(pod), Namespace(self.namespace), known, NodeName(node))
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self.service.verbs.bind(args, gone), name=f"bind {pod}")
        call = Call(pod, node, task, gone, self.clock.monotonic_s())
        self.calls.append(call)
        return call

    async def bind_answer(self, pod: str, node: str, *, uid: str | None = None) -> Reason | None:
        call = self.bind(pod, node, uid=uid)
        await self.settle()
        return call.answer

    def bind_offered(self, *pods: str) -> list[Call]:
        return [self.bind(pod, self.offered(pod)) for pod in pods]

    async def settle(self, seconds: float = 0.5) -> None:
        await asyncio.sleep(seconds)

    async def planned_gang(self, name: str, size: int, *, minimum: int | None = None, **fields: Any) -> tuple[str, ...]:
        names = self.gang(name, size, minimum=minimum, **fields)
        await self.settle()
        return names

    async def planned_pod(self, name: str, **fields: Any) -> None:
        self.pod(name, **fields)
        await self.settle()

    async def bind_and_settle(self, *pods: str) -> list[Call]:
        calls = self.bind_offered(*pods)
        await self.settle()
        return calls

    async def starts(self, *pods: str, beside: Iterable[Call] = ()) -> list[Call]:
        calls = await self.bind_and_settle(*pods)
        assert [(call.pod, call.answer) for call in (*beside, *calls) if call.answer is not None] == []
        assert all(map(self.node_of, pods))
        return calls

    async def until(self, moment_s: float) -> None:
        await asyncio.sleep(moment_s - self.clock.monotonic_s())

    @property
    def now_s(self) -> float:
        return self.clock.monotonic_s()

    @property
    def plan(self) -> Plan:
        return self.service.planner.current

    @property
    def committed(self) -> dict[str, dict[str, str]]:
        commitments = self.service.cache.snapshot().commitments
        return {key: {str(u): str(n) for u, n in one.assignment.items()} for key, one in commitments.items()}

    def state(self, gang: str) -> PermitState | None:
        return self.service.binds.state(gang_key("default", gang))

    def waits_for(self, gang: str) -> Reason:
        return self.plan.waiting[gang_key("default", gang)].reason

    def set_network(self, matrix: NetworkMatrix) -> None:
        self.service.cache.set_network(matrix)

    def counted(self, name: str, **labels: str) -> float:
        return self.service.telemetry.registry.get_sample_value(f"netgang_{name}", labels) or 0.0

    def told(self, reason: str) -> list[str]:
        return [one["note"] for one in self.api.events if one["reason"] == reason]

    def told_to(self, reason: str) -> dict[str, str]:
        return {one["regarding"]["name"]: one["note"] for one in self.api.events if one["reason"] == reason}

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.service.debug_app), base_url="http://netgang")

    async def get(self, path: str) -> httpx.Response:
        async with self.client() as client:
            return await client.get(path)

    def explained(self, name: str) -> Explained:
        document = at_once(replace(self.service.views, circumstances=unasked).explain("default", name))
        assert isinstance(document, Explained)
        return document

    async def finish(self) -> None:
        await self.settle(max(HOLD_S + COMMIT_S, ADMIT_S) + 5.0)
        assert not [call for call in self.calls if call.waits], "a call was never answered"
        await self.settle(0.2)
        assert self.service.binds.held_count == 0
        assert self.committed == {}, "a commitment leaks"
        assert_consistent(self.service.cache)


@asynccontextmanager
async def running(*objects: Object, api: FakeClusterApi | None = None, **settings: Any) -> AsyncIterator[World]:
    """The service over these objects, synced and planned; at the end everything must be answered and released."""
    async with unfinished(*objects, api=api, **settings) as world:
        yield world
        await world.finish()


@asynccontextmanager
async def unfinished(
    *objects: Object, api: FakeClusterApi | None = None, stands: Candidacy | None = None, **settings: Any
) -> AsyncIterator[World]:
    """The same, for tests that end in the middle (of a shutdown, say); with `stands` it is one of several replicas."""
    api = api if api is not None else FakeClusterApi()
    for one in objects:
        api.add(one)
    clock = LoopClock()
    settings, given = split({"elastic": {"enabled": False}, **settings})  # jobs are of no kind that is followed here
    (chosen, limits), rng = with_limits(Settings().changed(settings), given), random.Random(0)
    notes = notes_of_a_former_process()
    service = following(
        chosen, api, clock, rng, notes,
        reviews=api.reviews, stands=stands, started_store=api.started, limits=limits,
    )  # fmt: skip
    work = asyncio.create_task(service.run(), name="service")
    try:
        world = World(service, api, clock)
        await world.settle()
        yield world
        if work.done():
            work.result()
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


def args_of(
    pod: Object, *, nodes: Iterable[str], debug: bool = False, nodes_json: list[bytes] | None = None
) -> FilterArgs:
    meta = pod["metadata"]
    ref = PodRef(PodUid(meta.get("uid", "")), Namespace(meta.get("namespace", "default")), PodName(meta["name"]))
    return FilterArgs(ref, msgspec.json.encode(pod), [NodeName(name) for name in nodes], nodes_json, debug=debug)


def answers(calls: Sequence[Call]) -> list[Reason | None]:
    return [call.answer for call in calls]


def key(gang: str) -> GangKey:
    return gang_key("default", gang)
