"""The demo that lives: a cluster in memory, jobs that come and go, and stand-ins for what a real cluster has.

Stand-ins: controllers of jobs, kubelets, a mesh of measurements, kube-scheduler. Rule: they know the objects of the API
server in memory and nothing of netgang, which they meet where the real ones do: the controllers make the pods that a
Job asks for, whoever changed it; kube-scheduler asks netgang's three verbs over HTTP, one pod at a time, waits for
/bind beside that, and tries a refused pod again when it changed, or after a pause. examples/demo.yaml is the story.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from operator import itemgetter
from pathlib import Path
from random import Random
from secrets import token_bytes
from typing import Any, Final, TypeAlias, cast

import msgspec

from extender import bootstrap
from extender.bootstrap import Service
from extender.errors import ApiError, ApiUnavailableError, ConfigError, NotFoundError
from extender.kube import calls
from extender.kube.client import KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.transport import Transport
from extender.network.meshfile import parse_mesh
from extender.network.refresh import Polled
from extender.ports import Batch, Clock, SystemClock
from extender.settings.settings import Settings
from extender.signed_notes import Notes
from lab.testbed.apiserver.server import InProcess, LoopbackApi
from lab.testbed.apiserver.store import ApiStore, Object

Ask: TypeAlias = Callable[[str, Object], Awaitable[Any]]
"""Verb and arguments → netgang's answer. Errors: ApiError, ApiUnavailableError."""
WORDS: Final = "a stand-in for kube-scheduler asks, and a second stands for a minute"
NAMESPACE: Final = "demo"
_JOBS: Final = calls.OWNERS["batch", "Job"]
_KINDS: Final = {"Pod": calls.PODS, "Node": calls.NODES, "PodGroup": calls.POD_GROUPS, "Job": _JOBS}
_HISTORY: Final = 1000  # Changes of a kind, and Events, that are kept
_LOOK_S: Final = 0.25
_STARTS_S: Final = 1.5  # From a Binding to a container that runs
_REFUSED_S, _FAILED_S = 15.0, 1.0  # Until a pod is tried again that did not change
_MEASURED_S: Final = 10.0  # Between two measurements
_NO_ANSWER: Final = (ApiError, ApiUnavailableError, msgspec.DecodeError, KeyError, TypeError)
"""Whatever else has the port until the server fails to get it answers something else"""


class BadNodes(msgspec.Struct, frozen=True):
    """When the links of which node are bad."""

    first_s: float
    every_s: float
    lasts_s: float
    loss_ratio: float
    nodes: tuple[str, ...]

    def node(self, age_s: float) -> str | None:
        """The node whose links are bad when the demo is so old; `None`: all are as usual.

        >>> [BadNodes(20, 120, 60, 0.03, ("a", "b")).node(age_s) for age_s in (0, 20, 80, 140, 260)]
        [None, 'a', None, 'b', 'a']
        """
        number, since_s = divmod(age_s - self.first_s, self.every_s)
        return self.nodes[int(number) % len(self.nodes)] if number >= 0 and since_s < self.lasts_s else None


class JobObjects(msgspec.Struct, frozen=True):
    """What stands above the pods of a job, and what is special about these, with names to be filled in."""

    owner: Object | None = None
    pod: Object = {}  # Of their metadata


class StoryJob(msgspec.Struct, frozen=True):
    """A job that comes again and again."""

    name: str
    kind: str = ""  # "": its objects are saved
    pods: Mapping[str, tuple[int, Object]] = {}  # Role → how many, what each requests
    least: int | None = None  # Workers that it may be shrunk to
    most: int | None = None
    lasts_s: float = inf  # From its start to its end
    first_s: float = 0.0  # When it comes first
    pause_s: float = 10.0  # Between its end and the next one's coming


class Story(msgspec.Struct, frozen=True):
    """examples/demo.yaml."""

    settings: Mapping[str, Any]
    bad_links: BadNodes
    jobs: tuple[StoryJob, ...]
    kinds: Mapping[str, JobObjects]


def told(
    settings: Settings, examples: Path, clock: Clock | None = None, ask: Ask | None = None
) -> tuple[Settings, AbstractAsyncContextManager[Service]]:
    """The story of `examples`: settings by which a second is a minute, and the service. OSError, ConfigError: a file.

    `ask`: another way to its verbs than HTTP to its port.
    """
    file = examples / "demo.yaml"
    try:
        story = msgspec.yaml.decode(file.read_bytes(), type=Story)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: {error}") from error
    if unknown := {job.kind for job in story.jobs} - {"", *story.kinds}:
        raise ConfigError(f"{file}: jobs: no kind is called {' or '.join(sorted(unknown))}")
    settings = settings.changed(story.settings, fixed=True)
    cluster, mesh = ((examples / what / "paper-testbed.json").read_bytes() for what in ("snapshot", "mesh"))
    return settings, living(settings, story, cluster, mesh, clock or SystemClock(), ask)


@asynccontextmanager
async def living(
    settings: Settings, story: Story, cluster: bytes, mesh: bytes, clock: Clock, ask: Ask | None
) -> AsyncIterator[Service]:
    """The service, with its stand-ins, over nodes like the saved ones and the links of a mesh file."""
    store, jobs = ApiStore(history=_HISTORY), list[Object]()
    store.install(*calls.READ, *calls.OWNERS.values(), *calls.PATCHED.values(), calls.BUDGETS, calls.QUOTAS)
    for one in msgspec.json.decode(cluster)["items"]:
        one["metadata"]["creationTimestamp"] = _rfc3339(clock.now_s())
        if one["metadata"].get("namespace") == NAMESPACE:
            jobs.append(one)
        else:
            store.put(_KINDS[one["kind"]], one)
    rng = Random()  # noqa: S311 - jitter, nothing secret
    server = ApiServer(f"http://127.0.0.1:{settings.port}", Authorization(partial(Token, ""), clock=clock))
    async with Transport(server, concurrency=256, agent="kube-scheduler-stand-in") as http:

        async def over_http(verb: str, args: Object) -> Any:
            body = msgspec.json.encode(args)
            return msgspec.json.decode(await http.send("POST", f"/{verb}", body=body, timeout_s=60.0))

        api = KubeClient(cast(Transport, InProcess(LoopbackApi(store))), clock, rng)
        sources, notes = [Polled(StoryMesh(mesh, story.bad_links, clock), 2.0)], Notes(token_bytes(32))
        service = bootstrap.following(settings, api, clock, rng, notes, sources=sources, demo=WORDS)
        service.tasks["stand-in for controllers"] = JobStandIns(store, clock, story, jobs).run
        service.tasks["stand-in for kube-scheduler"] = SchedulerStandIn(store, clock, ask or over_http).run
        yield service


class JobRun(msgspec.Struct):
    """A job as it is by now."""

    job: StoryJob
    comes_s: float | None  # When it comes next; `None`: it is here
    number: int = 0  # Times that it has come
    started_s: float | None = None

    @property
    def name(self) -> str:
        """Of its gang."""
        return f"{self.job.name}-{self.number}" if self.job.kind else self.job.name

    def filled_in(self) -> dict[str, Any]:
        """What the names in its objects stand for."""
        job, minimum = self.job, sum(count for count, _ in self.job.pods.values())
        names = {"run": self.name, "kind": job.kind.lower(), "most": str(job.most)}
        workers = job.pods.get("worker", (0, {}))[0]
        return {**names, "least": str(job.least or minimum), "minimum": minimum, "workers": workers}


class JobStandIns:
    """Users who submit jobs, the controllers that make their pods, and the kubelets that run them."""

    def __init__(self, store: ApiStore, clock: Clock, story: Story, saved: Sequence[Object]) -> None:
        self._store, self._clock, self._kinds, self._saved = store, clock, story.kinds, saved
        self._runs = [JobRun(job, clock.now_s() + job.first_s) for job in story.jobs]

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Let happen what is due by now."""
        now_s, of_run, store = self._clock.now_s(), defaultdict[str, list[Object]](list), self._store
        for pod in _all(store, calls.PODS):
            of_run[_run_of(pod)].append(pod)
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                self._start(pod, now_s)
        if len(events := store.all(calls.EVENTS)) > _HISTORY:
            events.sort(key=lambda one: int(one.new["metadata"]["resourceVersion"]))
        for event in events[:-_HISTORY]:
            store.remove(calls.EVENTS, event.namespace, event.new["metadata"]["name"])
        for book in (store.bindings, store.evictions, store.patches):
            book.clear()
        for run in self._runs:
            if run.comes_s is None and self._is_over(run, of_run[run.name], now_s):
                for pod in of_run[run.name]:
                    store.remove(calls.PODS, NAMESPACE, pod["metadata"]["name"])
                for kind in (_JOBS, calls.POD_GROUPS):
                    with suppress(NotFoundError):
                        store.remove(kind, NAMESPACE, run.name)
                run.comes_s, run.started_s = now_s + run.job.pause_s, None
            if run.comes_s is not None and now_s >= run.comes_s:
                run.comes_s, run.number = None, run.number + 1
                self._submit(run, now_s)
            elif run.comes_s is None and run.job.most is not None:
                self._resize(run, of_run[run.name], now_s)

    def _start(self, pod: Object, now_s: float) -> None:
        """What a kubelet does: it says when it begins, and after a moment that the pod runs."""
        status = {"startTime": _rfc3339(now_s), **pod["status"]}
        if now_s >= datetime.fromisoformat(status["startTime"]).timestamp() + _STARTS_S:
            status["phase"] = "Running"
        status["conditions"] = [{"lastTransitionTime": status["startTime"], **one} for one in status["conditions"]]
        if status != pod["status"]:
            self._store.put(calls.PODS, {**pod, "status": status})

    def _is_over(self, run: JobRun, pods: Sequence[Object], now_s: float) -> bool:
        least = run.job.least or len(pods)
        if run.started_s is None and sum(pod["status"]["phase"] == "Running" for pod in pods) >= least:
            run.started_s = now_s
        return run.started_s is not None and now_s >= run.started_s + run.job.lasts_s

    def _submit(self, run: JobRun, now_s: float) -> None:
        for one in self._saved if not run.job.kind else ():
            if one["metadata"]["name"].startswith(run.name):
                created = {**one["metadata"], "creationTimestamp": _rfc3339(now_s)}
                self._store.put(_KINDS[one["kind"]], {**one, "metadata": created})
        for role, (count, _) in run.job.pods.items():
            for pod in self._made(run, role, range(count), now_s):
                self._store.put(calls.PODS, pod)
        if run.job.kind and (owner := self._kinds[run.job.kind].owner):
            about = {"name": run.name, "namespace": NAMESPACE, "uid": f"uid-of-{run.name}"}
            filled = _filled(owner, run.filled_in())
            self._store.put(_KINDS[filled["kind"]], {**filled, "metadata": {**filled.get("metadata", {}), **about}})

    def _made(self, run: JobRun, role: str, indexes: Iterable[int], now_s: float) -> Iterator[Object]:
        template, names = self._kinds[run.job.kind].pod, run.filled_in() | {"role": role}
        container = {"name": "main", "resources": {"requests": run.job.pods[role][1]}}
        length = {"netgang.io/expected-duration": f"{run.job.lasts_s:g}s"}
        for index in indexes:
            name, filled = f"{run.name}-{role}-{index}", _filled(template, {**names, "index": str(index)})
            about = {"name": name, "namespace": NAMESPACE, "uid": f"{name}-{now_s:.2f}"}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **filled,
                    **about,
                    "annotations": filled.get("annotations", {}) | length,
                    "creationTimestamp": _rfc3339(now_s),
                },
                "spec": {"schedulerName": "netgang", "containers": [container]},
                "status": {"phase": "Pending"},
            }

    def _resize(self, run: JobRun, pods: Sequence[Object], now_s: float) -> None:
        """What the Job controller does: pods of the indexes that its Job has, and no others."""
        [job] = [job for job in _all(self._store, _JOBS) if job["metadata"]["name"] == run.name]
        there, wanted = {int(pod["metadata"]["labels"][_INDEX]): pod for pod in pods}, range(job["spec"]["parallelism"])
        for index in there.keys() - set(wanted):
            self._store.remove(calls.PODS, NAMESPACE, there[index]["metadata"]["name"])
        for pod in self._made(run, "worker", sorted(set(wanted) - there.keys()), now_s):
            self._store.put(calls.PODS, pod)


_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_GROUPS: Final = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")


def _run_of(pod: Object) -> str:
    labels, name = pod["metadata"].get("labels") or {}, str(pod["metadata"]["name"])
    return str(next((labels[key] for key in _GROUPS if key in labels), name.rpartition("-notebook-")[0]))


def _all(store: ApiStore, resource: calls.Resource) -> list[Object]:
    return [one.new for one in store.all(resource)]


def _rfc3339(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _filled(template: Any, names: Mapping[str, Any]) -> Any:
    """The same with names filled in; a text that is a name alone becomes the value, which may be a number."""
    if isinstance(template, dict):
        return {key: _filled(value, names) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, names) for value in template]
    return names.get(template[1:-1], template.format_map(names)) if isinstance(template, str) else template


class StoryMesh:
    """A source of the links of a mesh file, measured again and again; now and then those of one node are bad."""

    name = "demo"

    def __init__(self, links: bytes, bad_links: BadNodes, clock: Clock) -> None:
        self._links: list[dict[str, Any]] = msgspec.json.decode(links)
        self._bad_links, self._began_s = bad_links, clock.now_s()
        self._last: tuple[float, str | None] = -inf, None

    async def fetch(self, *, now_s: float) -> Batch | None:
        """The links as they are; `None`: nothing was measured since the last call."""
        bad, (last_s, before) = self._bad_links.node(now_s - self._began_s), self._last
        if bad == before and now_s < last_s + _MEASURED_S:
            return None
        self._last, loss = (now_s, bad), {"loss_ratio": self._bad_links.loss_ratio}
        links = [link | loss if bad in (link["source"], link["target"]) else link for link in self._links]
        return parse_mesh(msgspec.json.encode(links), "the demo's mesh", written_at_s=now_s, now_s=now_s)


class SchedulerStandIn:
    """A stand-in for kube-scheduler with an entry of netgang's; its own filters refuse nothing."""

    def __init__(self, store: ApiStore, clock: Clock, ask: Ask) -> None:
        self._store, self._clock, self._ask = store, clock, ask
        self._tried: dict[str, tuple[str, float]] = {}  # Pod's uid → its version, and when to try again
        self._binding: dict[str, asyncio.Task[None]] = {}  # Pod's uid → its /bind that is under way

    async def run(self) -> None:
        """Try what waits, again and again, until cancelled."""
        async with asyncio.TaskGroup() as binds:
            while True:
                pods = _all(self._store, calls.PODS)
                waiting = {pod["metadata"]["uid"]: pod for pod in pods if not pod["spec"].get("nodeName")}
                self._tried = {uid: tried for uid, tried in self._tried.items() if uid in waiting}
                self._binding = {uid: task for uid, task in self._binding.items() if not task.done()}
                for uid, pod in waiting.items():
                    version, again_s = self._tried.get(uid, ("", 0.0))
                    changed = version != pod["metadata"]["resourceVersion"]
                    due = uid not in self._binding and (changed or self._clock.now_s() >= again_s)
                    if due and (node := await self._node_for(pod)):
                        self._binding[uid] = binds.create_task(self._bind(pod, node), name=f"bind {uid}")
                await asyncio.sleep(_LOOK_S)

    async def _node_for(self, pod: Object) -> str | None:
        names = [node["metadata"]["name"] for node in _all(self._store, calls.NODES)]
        args: dict[str, Any] = {"Pod": pod, "Nodes": None, "NodeNames": names}
        try:
            passed = (await self._ask("filter", args))["NodeNames"]
            if passed and len(passed) > 1:  # one is taken without a score
                scores = await self._ask("prioritize", {**args, "NodeNames": passed})
                passed = [max(scores, key=itemgetter("Score"))["Host"]]
        except _NO_ANSWER:  # the server has not begun, or is about to end
            passed = None
        if not passed:
            self._put_off(pod, _FAILED_S if passed is None else _REFUSED_S)
        return str(passed[0]) if passed else None

    async def _bind(self, pod: Object, node: str) -> None:
        about = pod["metadata"]
        named = {"PodName": about["name"], "PodNamespace": about["namespace"], "PodUID": about["uid"]}
        answer = {"Error": "no answer"}
        with suppress(*_NO_ANSWER):
            answer = await self._ask("bind", {**named, "Node": node})
        if answer["Error"]:
            self._put_off(pod, _FAILED_S)

    def _put_off(self, pod: Object, pause_s: float) -> None:
        self._tried[pod["metadata"]["uid"]] = pod["metadata"]["resourceVersion"], self._clock.now_s() + pause_s
