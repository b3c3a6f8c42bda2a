"""No tenant chooses the cost of a step: the largest objects that are read, 1,000 of them at once (docs/safety.md S15).

Times are CPU time, as multiples of what this machine takes for a reference loop at the moment.
"""

import gc
import json
from collections.abc import Callable
from functools import partial
from statistics import median
from time import thread_time
from typing import Any, Final, TypeVar

import numpy as np
import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.controllers.failure_budget import budget, decoded, forbidding
from extender.controllers.owners import quota_notes, said_by
from extender.convert import daemon_set_from_json, pod_from_json, pod_group_from_json
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planner_loop import Planner
from scoring.feasibility.filters import ANY_IP, allowed_nodes
from scoring.model import Constraints, Gang, HostPort, NodeSelectorTerm, Policy, Requirement, Taint, Toleration
from scoring.model.gang import runs_of
from scoring.model.pod import Phase, RunRef
from scoring.plan import Plan, plan
from tests.builders import gang, node, pod, snapshot
from tests.fakes.clock import LoopClock
from tests.scoring.plan.planned import dressed

T = TypeVar("T")

STEP_S: Final = 0.020
PLAN_S: Final = 0.5
REFERENCE_S: Final = 0.0045  # What `_reference` takes on the machine that the limits were written for
MANY: Final = 1000
LABELS = [{"kind": str(i % 7), "rack": str(i % 90), "pool": str(i % 3)} for i in range(5000)]
TAINTS = [Taint(f"t{i}", "", "NoSchedule") for i in range(10)]
NODES = [node(f"n{i}", zone="abcde"[i % 5], labels=LABELS[i], taints=[TAINTS[i % 10]]) for i in range(5000)]
MOST = Constraints(tolerations=tuple(Toleration(f"t{i}", "Exists") for i in range(64)))


def reference_s() -> float:
    """The usual one of several times: what else the machine does makes CPU time longer, too."""

    def once() -> float:
        begun_s, numbers = thread_time(), np.arange(1, 5001)
        for _ in range(20):
            (numbers // 7).sum()
            sum({str(i): i for i in range(1000)}.values())
        return thread_time() - begun_s

    return median(once() for _ in range(20))


def lines(number: int) -> list[dict[str, Any]]:
    """The most terms, expressions and values that are read."""
    keys = ("kind", "rack", "pool", "none")
    return [
        {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [f"{number}", f"{at}x"]} for key in keys]}
        for at in range(64)
    ]


def spec(number: int) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": lines(number)}}
    return {
        "schedulerName": "netgang",
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": f"t{i}", "operator": "Exists"} for i in range(64)],
        "containers": [{
            "name": "c", "resources": {"requests": {"cpu": f"{1000 + number}m"}},
            "ports": [{"containerPort": i, "hostPort": i + 1} for i in range(64)]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(500)],
    }  # fmt: skip


def raw(kind: str, number: int, **parts: Any) -> bytes:
    noted = {"netgang.io/zones": "a, b", "other": "x" * 200_000}
    head = {"name": f"{kind}{number}", "namespace": "t", "uid": f"{kind}-{number}", "annotations": noted}
    content = {"apiVersion": "v1", "kind": kind, **parts, "metadata": head | parts.get("metadata", {})}
    return json.dumps(content).encode()


@pytest.mark.slow
def test_no_step_of_the_loop_is_a_tenants() -> None:
    worst: dict[str, float] = {}

    def step(what: str, do: Callable[[], Any]) -> Any:
        begun_s = thread_time()
        result = do()
        worst[what] = max(worst.get(what, 0.0), thread_time() - begun_s)
        return result

    gc.disable()  # as the service does
    cache = ClusterCache()
    cache.nodes.replace(NODES)
    for number in range(MANY):  # at its start, of which a plan is part; the next table copies what it remembers of them
        allowed_nodes(cache.snapshot().table, replace(MOST, affinity=terms(MANY + number)))
    labels = {"pod-group.scheduling.sigs.k8s.io/min-available": "1"}
    for number in range(MANY):
        named = labels | {"pod-group.scheduling.sigs.k8s.io/name": f"g{number}"}
        text = raw("Pod", number, metadata={"labels": named}, spec=spec(number))
        one = step("pod: read", partial(pod_from_json, text))
        step("pod: put", partial(cache.pods.put, one))
    step("snapshot", cache.snapshot)
    for number in range(100):
        least = {"minMember": 2**31, "minResources": {f"r{i}": "1" for i in range(64)}}
        group = step("PodGroup: read", partial(pod_group_from_json, raw("PodGroup", number, spec=least)))
        step("PodGroup: put", partial(cache.pod_groups.put, group))
        template = {"template": {"metadata": {}, "spec": spec(number)}}
        text = raw("DaemonSet", number, metadata={"namespace": f"t{number // 64}"}, spec=template)
        daemon = step("DaemonSet: read", partial(daemon_set_from_json, text))
        step("DaemonSet: put", partial(cache.daemon_sets.put, daemon))
    for number in range(20):
        relabelled = replace(NODES[number], labels=(*NODES[number].labels, ("new", str(number))))
        step("node: put", partial(cache.nodes.put, relabelled))
        table = step("node: snapshot", cache.snapshot).table
        pods = list(cache.gangs.by_uid.values())[number::100]
        step("node: first look", partial(allowed_nodes, table, pods[0].member_class.constraints))
    looks = cache.daemon_sets.look_at_nodes()
    while step("DaemonSet: look", partial(next, looks, 0)) is None:
        pass
    selector = {"matchExpressions": [{"key": f"k{i}", "operator": "NotIn", "values": ["v"]} for i in range(256)]}
    members = [{"metadata": {"labels": {f"k{i}": "w" for i in range(256)}}, "spec": {"nodeName": "n"}}] * MANY
    protects = step("budget: read", partial(decoded, raw("PodDisruptionBudget", 0, spec={"selector": selector})))
    compared = forbidding([protects], members)
    while step("budget: compare", partial(next, compared, 0)) is None:
        pass
    hard = {"hard": {f"requests.r{i}": "1" for i in range(40_000)}}
    quota = step("quota: read", partial(decoded, raw("ResourceQuota", 0, status=hard)))
    step("quota: compare", lambda: quota_notes(quota, one.requests))
    for kind, api in (("Job", "batch/v1"), ("TFJob", "kubeflow.org/v1"), ("JobSet", "jobset.x-k8s.io/v1alpha2")):
        rules = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "T", "status": "True"}] * 20}] * 20}
        template = {"spec": spec(0) | {"containers": [{"name": "c" * 60}] * 9_000}}
        large = {"podFailurePolicy": rules, "template": template}
        owner = step(f"{kind}: read", partial(decoded, raw(kind, 0, apiVersion=api, spec=large)))
        step(f"{kind}: asked", partial(budget, owner, members[:1]))
        step(f"{kind}: its length", partial(said_by, owner))
    parts = [replace(pod(f"p{i}"), run=RunRef(f"u{i}", "Cluster.ray", f"c{i}")) for i in range(MANY)]
    step("a gang of as many owners", partial(runs_of, parts, least=lambda: MANY))
    ended = [pod(f"p{i}", phase=(Phase.FAILED, Phase.SUCCEEDED)[i % 2], created_s=0.0) for i in range(MANY)]
    step("a gang of ended pods", partial(runs_of, [*ended, pod("lives", created_s=9.0)], least=lambda: 1))
    gc.enable()
    factor = max(reference_s() / REFERENCE_S, 1.0)
    assert {what: took_s for what, took_s in worst.items() if took_s > STEP_S * factor} == {}, (factor, worst)


def terms(number: int) -> tuple[NodeSelectorTerm, ...]:
    every = [[(line["key"], (*line["values"],)) for line in term["matchExpressions"]] for term in lines(number)]
    return tuple(NodeSelectorTerm(tuple(Requirement(key, "NotIn", of) for key, of in term)) for term in every)


def unlike(number: int, affinity: tuple[NodeSelectorTerm, ...] | None = None, *, size: int = 1) -> Gang:
    more: dict[str, Any] = {"affinity": affinity, "tolerations": MOST.tolerations, "min_available": size}
    return gang(f"g{number}", size, cpu=f"{1000 + number}m", **more)


def ported(number: int) -> Gang:
    ports = tuple(HostPort("TCP", ANY_IP, at + 1) for at in range(64))
    return gang(f"g{number}", members=[dressed(one, host_ports=ports) for one in unlike(number).members])


GANGS: dict[str, Callable[[], list[Gang]]] = {
    "that ask for different amounts": lambda: [unlike(i) for i in range(MANY)],
    "of the longest affinity": lambda: [unlike(i, terms(i)) for i in range(MANY)],
    "of the most host ports": lambda: [ported(i) for i in range(MANY)],
    "of 64 members": lambda: [unlike(i, size=64) for i in range(MANY // 5)],
}


@pytest.mark.slow
@pytest.mark.parametrize("gangs", GANGS.values(), ids=GANGS)
async def test_no_plan_of_a_thousand_unlike_gangs_is_long(gangs: Callable[[], list[Gang]]) -> None:
    """The first ones, each of a part of them, one of all after a gang went, and one after a node's label changed."""
    times_s: list[float] = []

    async def timed(work: Callable[[], T]) -> T:
        begun_s = thread_time()
        made = work()
        times_s.append(thread_time() - begun_s)
        return made

    async def planned() -> Plan:
        for _ in range(30):
            await planner.run_once()
            if not planner.unfinished:
                break
        return planner.current

    gc.disable()
    cache, waiting = ClusterCache(), gangs()
    cache.nodes.replace(NODES)
    for pod_ in [pod_ for one in waiting for pod_ in one.members]:
        cache.pods.put(pod_)
    planner = Planner(cache, Policy(), LoopClock(), Telemetry(), DecisionLog(), worker=timed)
    assert len((await planned()).admitted) == len(waiting)
    for pod_ in waiting[0].members:
        cache.pods.remove(f"{pod_.namespace}/{pod_.name}")
    await planned()
    cache.nodes.put(replace(NODES[0], labels=(*NODES[0].labels, ("new", "yes"))))
    await planned()
    gc.enable()
    assert max(times_s) <= PLAN_S * max(reference_s() / REFERENCE_S, 1.0), times_s


@pytest.mark.slow
def test_a_gang_of_many_kinds_costs_no_more_than_many_gangs() -> None:
    """There is room for each kind of its 5,001 members, and not for all of them."""
    kinds = [pod(f"p{i}", gang="g", cpu=f"{3000 + i % 32}m", tolerations=MOST.tolerations) for i in range(5001)]
    gc.disable()
    state, begun_s = snapshot(NODES, [gang("g", members=kinds)]), thread_time()
    plan(state, Policy(), now_s=0.0)
    took_s = thread_time() - begun_s
    gc.enable()
    factor = max(reference_s() / REFERENCE_S, 1.0)
    assert took_s <= PLAN_S * factor
