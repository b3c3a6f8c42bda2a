"""The whole service against a small kube-scheduler in virtual time: whatever happens, the promises hold."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import looptime
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.kube.calls import NODES, PODS
from extender.ports import Binding
from scoring.feasibility.quorum import quorum_of
from scoring.plan import plan
from tests.example_counts import FEW
from tests.extender.scheduling.kube_scheduler import KubeScheduler, listed_nodes, millicores, objects
from tests.extender.scheduling.world import COMMIT_S, GATED, HOLD_S, World, node_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi
from tests.fuzz.consistency import assert_consistent
from tests.scoring.permit.auditor import validate_state

T = TypeVar("T")

NODES_MAX = ("n1", "n2", "n3", "n4")
GANGS = ("a", "b", "c")
FAULTS = (
    ApiUnavailableError("connection reset"),
    ConflictError(409, "is already assigned"),
    ApiError(500, "etcd is away"),
    ApiError(422, "is invalid"),
)
START_S = 1_700_000_000.0
LIVELY_S = 2000.0  # the longest a gang may be kept waiting by back-offs and half-bound neighbours after the last fault

PAUSES_S = st.sampled_from([0.0, 0.01, 0.06, 0.2, 0.2, 1.0, 3.0, 12.0, 40.0])


class Demand(msgspec.Struct, frozen=True):
    size: int
    spare: int  # members more than it needs
    cpu: str
    urgent: bool
    late: int  # how many of its pods come late to the extender
    gated: bool = False  # its pods wait at our gate


DEMANDS = st.builds(
    Demand,
    size=st.integers(1, 4),
    spare=st.integers(0, 1),
    cpu=st.sampled_from(["1", "2", "3"]),
    urgent=st.booleans(),
    late=st.integers(0, 1),
    gated=st.booleans(),
)


def step(**arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    def made(what: Callable[..., None]) -> Any:
        def acted(self: "ServiceMachine", pause_s: float, **values: Any) -> None:
            what(self, **values)
            self.run(self.world.settle(pause_s))

        acted.__name__ = what.__name__
        acted.__doc__ = what.__doc__
        with_time: dict[str, Any] = {"pause_s": PAUSES_S, **arguments}
        return rule(**with_time)(acted)  # type: ignore[no-untyped-call]

    return made


def promise(check: Callable[["ServiceMachine"], None]) -> Any:
    return invariant()(precondition(lambda self: hasattr(self, "world"))(check))


class WatchedApi(FakeClusterApi):
    """Remembers whose Bindings failed: only such gangs may be bound in part. Tells who is posted."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(*objects)
        self.on_post: Callable[[str], None] = lambda gang: None
        self.spoiled: set[str] = set()  # gangs of which a POST failed

    async def bind(self, binding: Binding) -> None:
        gang = binding.name.partition("-")[0]
        self.on_post(gang)
        try:
            await super().bind(binding)
        except (ApiError, ApiUnavailableError, asyncio.CancelledError):
            self.spoiled.add(gang)
            raise


def name_of(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def gang_of(pod: dict[str, Any]) -> str:
    return name_of(pod).partition("-")[0]


class ServiceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(noop_cycles=1)
        self.stack = AsyncExitStack()
        self.scheduler = KubeScheduler()
        self.scheduling = True
        self.spoiled: set[str] = set()  # gangs that people or faults have broken: they may be bound in part
        self.gated: dict[str, bool] = {}
        self.strangers = 0
        self.violated: list[str] = []

    def run(self, what: Awaitable[T]) -> T:
        return self.loop.run_until_complete(what)

    @initialize(
        cpus=st.lists(st.sampled_from(["2", "4", "6"]), min_size=1, max_size=4),
        demands=st.lists(DEMANDS, min_size=1, max_size=len(GANGS)),
    )
    def start(self, cpus: list[str], demands: list[Demand]) -> None:
        self.api = WatchedApi(*(node_json(name, cpu=cpu) for name, cpu in zip(NODES_MAX, cpus, strict=False)))
        self.api.on_post = self._posted
        self.run(self._start())
        self.keeper = self.loop.create_task(self._schedule())
        for name, demand in zip(GANGS, demands, strict=False):
            self.create(name, demand)

    async def _start(self) -> None:
        self.world: World = await self.stack.enter_async_context(unfinished(api=self.api))

    async def _schedule(self) -> None:
        while True:
            if self.scheduling:
                self.scheduler.step(self.world)
            await asyncio.sleep(0.1)

    @step(name=st.sampled_from(GANGS), demand=DEMANDS)
    def create_gang(self, name: str, demand: Demand) -> None:
        self.delete(name)
        self.create(name, demand)

    def create(self, name: str, demand: Demand) -> None:
        self.spoiled.discard(name)
        self.api.spoiled.discard(name)
        more = {"priority": 10 if demand.urgent else 0, **(GATED if demand.gated else {})}
        names = self.world.gang(name, demand.size + demand.spare, minimum=demand.size, cpu=demand.cpu, **more)
        self.gated[name] = demand.gated
        self.scheduler.late.update(names[: demand.late])

    def delete(self, name: str) -> None:
        self.world.delete(*(name_of(pod) for pod in self._pods_of(name)))

    @step(name=st.sampled_from(GANGS), number=st.integers(0, 3), recreate=st.booleans())
    def delete_pod(self, name: str, number: int, recreate: bool) -> None:
        for pod in [pod for pod in self._pods_of(name) if name_of(pod) == f"{name}-{number}"]:
            self.spoiled.add(name)
            self.world.delete(name_of(pod))
            if recreate:
                for field in ("uid", "resourceVersion"):
                    del pod["metadata"][field]
                for field in ("nodeName", "affinity", "schedulingGates"):
                    pod["spec"].pop(field, None)
                pod["metadata"]["annotations"] = {}
                pod["status"] = {}
                if self.gated[name]:
                    pod["spec"] |= GATED
                self.api.add(pod)

    @step(name=st.none() | st.sampled_from(GANGS), number=st.integers(0, 3))
    def a_pod_is_late(self, name: str | None, number: int) -> None:
        """kube-scheduler has other things to do for a pod first, so its gang is held; `None`: all late ones come."""
        if name is None:
            self.scheduler.late.clear()
        else:
            self.scheduler.late.add(f"{name}-{number}")

    @step(node=st.sampled_from(NODES_MAX), cpu=st.sampled_from(["1", "2", "4"]), comes=st.booleans())
    def stranger(self, node: str, cpu: str, comes: bool) -> None:
        """Another scheduler uses room, also such as is held for a gang, but not where we are posting; or leaves."""
        posting = {post.node for state in self._states() for post in state.posting.values()}
        if not comes:
            names = sorted(name_of(one) for one in objects(self.world, PODS) if gang_of(one) == "stranger")
            self.world.delete(*names[:1])
        elif node not in posting and self._free().get(node, -1) >= 1000 * int(cpu):
            self.strangers += 1
            self.world.occupy(node, cpu=cpu, name=f"stranger-{self.strangers}")
            self.run(self.world.settle(0.0))

    @step(name=st.sampled_from(NODES_MAX), state=st.sampled_from(["ready", "ready", "not ready", "gone"]))
    def node_changes(self, name: str, state: str) -> None:
        if state != "gone":
            self.world.node(name, cpu="6", ready=state == "ready")
        elif name in self.world.node_names():
            self.api.remove(name, kind="Node")
            for pod in objects(self.world, PODS):
                if pod["spec"].get("nodeName") == name:
                    self.spoiled.add(gang_of(pod))
                    self.world.delete(name_of(pod))

    @step(error=st.sampled_from(FAULTS), applied=st.booleans(), times=st.integers(1, 3))
    def posts_fail(self, error: Exception, applied: bool, times: int) -> None:
        self.api.fail_next("bind", error, times=times, applied=applied)

    @step(
        verb=st.sampled_from(["patch", "admit", "evict", "get"]),
        latency_s=st.sampled_from([0.0, 0.05, 1.0, 20.0]),
        applied=st.booleans(),
    )
    def the_api_server_has_a_bad_day(self, verb: str, latency_s: float, applied: bool) -> None:
        self.api.fail_next(verb, FAULTS[0], applied=applied)
        self.api.latency_s["bind"] = latency_s
        self.api.latency_s["admit"] = min(latency_s, 1.0)

    @step(what=st.sampled_from(["watches", "history", "kube-scheduler", "netgang"]))
    def breaks(self, what: str) -> None:
        if what == "watches":
            self.api.break_watches(ApiUnavailableError("connection reset"))
        elif what == "history":
            self.api.store.compact()
        elif what == "kube-scheduler":
            for call in self.scheduler.calls.values():
                call.hang_up()
            late = self.scheduler.late
            self.scheduler = KubeScheduler()
            self.scheduler.late = late
        else:
            self.scheduling = False
            self.run(self._restart())
            self.scheduling = True

    async def _restart(self) -> None:
        await self.world.service.shut_down()
        await self.world.settle(0.01)
        assert not [call for call in self.world.calls if call.waits], "a call survives the process"
        await self.stack.aclose()
        await self._start()

    @step()
    def nothing_happens(self) -> None:
        """Time alone."""

    def _posted(self, gang: str) -> None:
        """No Binding before quorum: with all that are posted now the gang is whole."""
        state = self.world.state(gang)
        pods = self._pods_of(gang)
        if state is None or not pods or gang in self.spoiled | self.api.spoiled:
            return
        there = {pod["metadata"]["uid"] for pod in pods if "nodeName" in pod["spec"]} | state.posting.keys()
        if not state.started and len(there) < _minimum(pods):
            self.violated.append(f"{len(there)} of {_minimum(pods)} members of {gang} are bound or posted")

    @promise
    def nothing_is_posted_before_quorum(self) -> None:
        assert not self.violated

    @promise
    def nodes_are_not_over_committed(self) -> None:
        assert all(amount >= 0 for amount in self._free().values())

    @promise
    def gangs_are_whole_or_not_at_all(self) -> None:
        broken = self.spoiled | self.api.spoiled
        for name in GANGS:
            pods = self._pods_of(name)
            state = self.world.state(name)
            if name in broken or not pods or (state is not None and state.posting):
                continue
            minimum = _minimum(pods)
            count = sum("nodeName" in pod["spec"] for pod in pods)
            assert count == 0 or count >= minimum, f"{count} of {minimum} members of {name} are bound"

    @promise
    def only_pods_with_a_place_are_ungated(self) -> None:
        for pod in objects(self.world, PODS):
            if self.gated.get(gang_of(pod)) and not pod["spec"].get("schedulingGates"):
                node = pod["metadata"]["annotations"]["netgang.io/admitted"].partition(" ")[0]
                listed = listed_nodes(pod)
                assert listed is not None
                assert node in listed
                assert pod["spec"].get("nodeName") in {None, *listed}

    @promise
    def calls_are_answered_in_time(self) -> None:
        """The hold limit for who is held, the commit limit more for who is posted, and not a moment longer."""
        held = {uid for state in self._states() for uid in state.held}
        for uid, call in self.scheduler.calls.items():
            limit_s = HOLD_S if uid in held else HOLD_S + COMMIT_S
            assert not call.waits or self.loop.time() - call.began_s <= limit_s + 0.01

    @promise
    def commitments_belong_to_gangs_that_come(self) -> None:
        """Held room without a held call would be dead, unless the gang is just being admitted."""
        for key in self.world.service.cache.snapshot().commitments:
            if key in self.world.service.binds.admissions.open:
                continue
            state = self.world.service.binds.state(key)
            assert state is not None, f"{key} is committed without need"
            assert state.held or state.posting, f"{key} is committed without need"
        for state in self._states():
            validate_state(state)
        assert_consistent(self.world.service.cache)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            self.loop.close()
            return
        try:
            self.scheduler.late.clear()
            self.api.heal()
            self.api.latency_s.clear()
            for _ in range(int(LIVELY_S / 50.0)):
                self.run(self.world.settle(50.0))
                open_ones = self._could_start()
                if not open_ones and not self.world.service.binds.gangs_under_way():
                    break
            assert not open_ones, f"could start and does not: {open_ones}"
            self.nodes_are_not_over_committed()
            self.run(self.world.finish())
        finally:
            self.run(self._end())
            self.loop.close()

    async def _end(self) -> None:
        self.keeper.cancel()
        await self.stack.aclose()
        for call in self.world.calls:
            call.task.cancel()
        await asyncio.gather(self.keeper, *(call.task for call in self.world.calls), return_exceptions=True)
        me = asyncio.current_task()
        while rest := [task for task in asyncio.all_tasks() if task is not me]:
            for task in rest:  # an eviction that has just started, and what its end begins
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    def _states(self) -> list[Any]:
        return [state for name in GANGS if (state := self.world.state(name)) is not None]

    def _pods_of(self, gang: str) -> list[dict[str, Any]]:
        return [pod for pod in objects(self.world, PODS) if gang_of(pod) == gang]

    def _free(self) -> dict[str, int]:
        free = {name_of(one): 1000 * int(one["status"]["allocatable"]["cpu"]) for one in objects(self.world, NODES)}
        for pod in objects(self.world, PODS):
            if pod["spec"].get("nodeName") in free:
                free[pod["spec"]["nodeName"]] -= millicores(pod)
        return free

    def _could_start(self) -> list[str]:
        """Gangs that a netgang without memory would start now; lost nodes do not count (docs/safety.md S12)."""
        snapshot = self.world.service.cache.snapshot()
        bare = replace(snapshot, commitments={}, exclusions={}, backing_off_until_s={})
        admitted = plan(bare, self.world.service.planner.policy, now_s=START_S + self.loop.time()).admitted
        lost = frozenset(node.name for node in snapshot.table.nodes if not node.ready)
        return sorted(key for key in admitted if not quorum_of(snapshot.gangs[key], lost_nodes=lost).incomplete)


def _minimum(pods: list[dict[str, Any]]) -> int:
    return int(pods[0]["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"])


ServiceMachine.TestCase.settings = settings(FEW, stateful_step_count=25)
TestService = pytest.mark.slow(pytest.mark.timeout(240)(ServiceMachine.TestCase))
