"""What a gated pod costs the API server at least: a patch that removes its gate, and a Binding, with no scheduler.

Why: a gated pod needs one write more than a pod without a gate, so no gated way can cost less than these two writes.
Rule: every form of the patch does the same to an equal pod; the forms take turns, and every second round goes
backwards. Forms are sent by an administrator, but for the last: by netgang's own account, which the policies of
manifests/base/confinement.yaml check. Figures are CPU of kube-apiserver and etcd from /proc, in ms per call, median and
range of the rounds.

    python -m lab.bench.gate_floor [--rounds 4] [--pods 250] [--named 12] [--at-once 32]
"""

import argparse
import asyncio
import json
import statistics
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from time import perf_counter

from lab.bench.peers.meters import parsed
from lab.testbed import objects
from lab.testbed.api import Api, Object
from lab.testbed.cluster import NETGANG, Cluster
from lab.testbed.parts.service import install_rights
from lab.testbed.programs.catalogue import parse_version

GATE = "netgang.io/gang"
SERVERS = ("kube-apiserver", "etcd")
TODAY = "strategic, nodes"
CONFINED = "strategic, nodes, confined"
_STRATEGIC = "application/strategic-merge-patch+json"
_PODS = "/api/v1/namespaces/default/pods"


def patches(named: int) -> dict[str, tuple[str, Object | list[Object]]]:
    """Form → content type and body: today's form names `named` nodes, one term each."""
    by_name = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{number}"]}]}
        for number in range(named)
    ]
    by_label = [{"matchExpressions": [{"key": objects.ZONE_LABEL, "operator": "In", "values": ["a"]}]}]

    def affinity(terms: list[Object]) -> Object:
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    def strategic(spec: Object) -> tuple[str, Object | list[Object]]:
        gate = {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
        return _STRATEGIC, {"metadata": {"annotations": {"netgang.io/admitted": "n0"}}, "spec": {**gate, **spec}}

    operations: list[Object] = [
        {"op": "add", "path": "/metadata/annotations", "value": {"netgang.io/admitted": "n0"}},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/spec/affinity", "value": affinity(by_name)},
    ]
    return {
        TODAY: strategic({"affinity": affinity(by_name)}),
        "JSON patch, nodes": ("application/json-patch+json", operations),
        "strategic, zone": strategic({"affinity": affinity(by_label)}),
        "strategic, gate only": strategic({}),
    }


def _cpu_s(cluster: Cluster) -> dict[str, float]:
    pids = {name: cluster.parts[name].pid for name in SERVERS}
    return {name: parsed(Path(f"/proc/{pid}/stat").read_text()).cpu_s for name, pid in pids.items()}


async def _phase(
    cluster: Cluster, names: list[str], call: Callable[[str], Awaitable[object]], *, at_once: int
) -> dict[str, float]:
    """Make one call per pod, `at_once` at a time: ms of CPU per call by server, and calls per second."""
    places = asyncio.Semaphore(at_once)

    async def one(name: str) -> None:
        async with places:
            await call(name)

    before, begun_s = _cpu_s(cluster), perf_counter()
    await asyncio.gather(*map(one, names))
    wall_s, after = perf_counter() - begun_s, _cpu_s(cluster)
    cpu_ms = {f"{name} ms": (after[name] - before[name]) / len(names) * 1e3 for name in SERVERS}
    return {**cpu_ms, "calls/s": len(names) / wall_s}


async def _turn(
    cluster: Cluster, api: Api, admitting: Api, names: list[str], patch: tuple[str, object], *, at_once: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Create gated pods (not measured), patch them, bind them, delete them (not measured)."""
    await api.create_all([objects.pod(name, gates=[GATE]) for name in names])
    kind, body = patch

    async def admit(name: str) -> None:
        await admitting.request("PATCH", f"{_PODS}/{name}", body=body, content_type=kind)

    async def bind(name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "n0"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await api.request("POST", f"{_PODS}/{name}/binding", body=binding)

    admitted = await _phase(cluster, names, admit, at_once=at_once)
    bound = await _phase(cluster, names, bind, at_once=at_once)
    await api.delete_all("Pod", namespace="default", grace_s=0)
    await api.until(lambda: api.list_all("Pod", namespace="default"), lambda found: not found, what="pods gone")
    return admitted, bound


def _line(what: str, found: list[dict[str, float]], *, body_bytes: int | None = None) -> Mapping[str, object]:
    spread = {
        key: [round(pick([one[key] for one in found]), 2) for pick in (statistics.median, min, max)] for key in found[0]
    }
    return {"call": what, "body_bytes": body_bytes, "rounds": len(found), **spread}


async def measure(*, rounds: int, pods: int, named: int, at_once: int, version: str) -> list[Mapping[str, object]]:
    """All forms in turns, after one turn that does not count; then the Bindings of all turns."""
    forms = patches(named)
    forms[CONFINED] = forms[TODAY]
    admitted: dict[str, list[dict[str, float]]] = {form: [] for form in forms}
    bound: list[dict[str, float]] = []
    names = [f"p{number}" for number in range(pods)]
    async with (
        Cluster(stage_names=(), version=parse_version(version)) as cluster,
        cluster.api() as api,
        cluster.api(NETGANG) as own,
    ):
        await install_rights(cluster)
        await cluster.remove("kwok")
        await api.create(objects.node("n0", pods=pods, zone="a"))
        await _turn(cluster, api, own, names, forms[CONFINED], at_once=at_once)
        for number in range(rounds):
            for form in list(forms)[:: -1 if number % 2 else 1]:
                admitting = own if form == CONFINED else api
                patch, binding = await _turn(cluster, api, admitting, names, forms[form], at_once=at_once)
                admitted[form].append(patch)
                bound.append(binding)
    sizes = {form: len(json.dumps(body, separators=(",", ":"))) for form, (_, body) in forms.items()}
    lines = [_line(form, found, body_bytes=sizes[form]) for form, found in admitted.items()]
    return [*lines, _line("Binding", bound)]


def _main() -> None:
    parser = argparse.ArgumentParser(description="CPU of the API server for a gate's removal and a Binding.")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pods", type=int, default=250, help="in each turn")
    parser.add_argument("--named", type=int, default=12, help="nodes in the affinity of the form that names nodes")
    parser.add_argument("--at-once", type=int, default=32, help="calls in flight")
    parser.add_argument("--kubernetes", default="1.37.2")
    given = parser.parse_args()
    found = asyncio.run(
        measure(
            rounds=given.rounds,
            pods=given.pods,
            named=given.named,
            at_once=given.at_once,
            version=given.kubernetes,
        )
    )
    for line in found:
        print(json.dumps(line))


if __name__ == "__main__":
    _main()
