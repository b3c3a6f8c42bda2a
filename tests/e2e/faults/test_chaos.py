"""Ten minutes in which everything happens at once, and what must hold all the same: `make chaos`.

CHAOS_MINUTES says how long the storm is (default 1; `make chaos`: 10), CHAOS_SEED which things happen (default: by
chance; it is printed). Two replicas of netgang, its kube-scheduler and the default one, controllers and simulated
kubelets are real; honest tenants, a hostile one and faults act at random moments.
"""

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic

import httpx
import pytest

from lab.testbed.api import Api
from lab.testbed.cluster import CONTROLLERS, NETGANG, Cluster
from lab.testbed.errors import NotReady
from lab.testbed.objects import ZONE_LABEL, namespace, pod, zone_nodes
from lab.testbed.parts.replicas import Replicas, replicas
from lab.testbed.parts.service import Netgang, install_rights, start_second_scheduler
from lab.testbed.processes.network import LOOPBACK
from lab.testbed.processes.pace import slowness
from lab.testbed.pytest_plugin import ARTIFACTS
from tests.e2e.faults.chaos.faults import Faults
from tests.e2e.faults.chaos.hostile import BYSTANDER, Mallory
from tests.e2e.faults.chaos.tenants import Tenants
from tests.e2e.faults.chaos.witness import PARTIAL_TIMEOUT_S, QUIET_S, Witness
from tests.e2e.objects import kind
from tests.e2e.stage import say

MINUTES = float(os.environ.get("CHAOS_MINUTES", "1"))
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
AFTER_S = 30.0  # whatever fits is bound within so many seconds after the storm
_AFTERWARDS = 12  # gangs and pods that are created after both replicas were killed at once
HONEST, HOSTILE = "honest", "hostile"
SETTINGS = {"leader_election": "on", "partial_timeout_s": PARTIAL_TIMEOUT_S, "node_lost_s": 5}


@pytest.mark.timeout(600 + 60 * MINUTES)
async def test_random_chaos() -> None:
    """No gang stays in part or over two zones, no pod of others is touched, and what fits starts after the storm."""
    chance = random.Random(SEED)
    say(f"seed {SEED}: CHAOS_SEED={SEED} takes the same decisions again")
    nodes = {one["metadata"]["name"]: one for one in zone_nodes({"a": 7, "b": 7, "c": 7}, cpu="8")}
    zone_of = {name: one["metadata"]["labels"][ZONE_LABEL] for name, one in nodes.items()}
    async with Cluster(controllers=CONTROLLERS, audited=(NETGANG,)) as cluster, cluster.api() as api:
        await cluster.install("podgroup-crd")
        await install_rights(cluster)
        await api.create_all([namespace(HONEST), namespace(HOSTILE)])
        await cluster.add_nodes(nodes.values())
        async with _service(cluster) as (group, port):
            faults: Faults
            witness = Witness(api, zone_of, lambda: faults.calm_since())
            faults = Faults(cluster, api, witness, group, nodes, _another(chance))
            tenants = Tenants(api, witness, HONEST, _another(chance))
            mallory = Mallory(api, witness, HOSTILE, HONEST, sorted(nodes), port, _another(chance))
            template = {"spec": {**pod("unused", cpu="100m")["spec"], "restartPolicy": "Never"}}
            spec = {"completions": 1, "template": template}
            await api.create(kind("batch/v1", "Job", BYSTANDER, HONEST, spec=spec))
            background = [asyncio.create_task(one) for one in (witness.follow(), witness.tick(), tenants.collect())]
            nights = asyncio.create_task(tenants.rerun())
            try:
                await _storm(chance, tenants, faults, mallory)
                await faults.mend()
                nights.cancel()
                tenants.hurried = True
                took_s = await _until_all_were_whole(tenants, witness)
                await _keep_evidence(cluster, api, port, tenants)
                try:
                    await faults.kill_all_replicas()
                except NotReady as never:
                    witness.problems.append(f"a new process never got ready: {str(never)[:200]}")
                for _ in range(_AFTERWARDS):
                    await tenants.create()
                again_s = await _until_all_were_whole(tenants, witness)
                await _keep_evidence(cluster, api, port, tenants)
                await asyncio.sleep(QUIET_S + PARTIAL_TIMEOUT_S + 5.0)  # the time in which a wrong eviction would come
            finally:
                for task in (*background, nights):
                    task.cancel()
                ended = await asyncio.gather(*background, nights, return_exceptions=True)
            broken = [one for one in ended if isinstance(one, Exception)]
            touched = witness.others_touched(cluster.audit_log)
            too_full = witness.too_full(await api.list_all("Node"))
            bystander = await api.get("Job", BYSTANDER, namespace=HONEST)
            ready = [await _ready(one) for one in group.running.values()]
        figures = {
            "chaos": "everything",
            "minutes": MINUTES,
            "seed": SEED,
            "made": dict(tenants.made),
            "finished": tenants.finished,
            "faults": dict(faults.done),
            "attacks": dict(mallory.done),
            "attacks_refused_by_the_api_server": dict(mallory.refused),
            "longest_partial_s": round(witness.longest_partial_s, 1),
            "problems": witness.problems,
            "pods_of_others_touched": touched,
            "nodes_too_full": too_full,
            "all_bound_after_s": round(took_s, 1),
            "all_bound_after_new_start_s": round(again_s, 1),
        }
        say(json.dumps(figures))
        assert (broken, witness.problems, touched) == ([], [], [])
        assert (bystander["spec"].get("suspend", False), ready) == (False, [True, True])
        assert tenants.finished > 0
        assert sum(mallory.done.values()) > 0
        assert max(took_s, again_s) <= AFTER_S * slowness()


@asynccontextmanager
async def _service(cluster: Cluster) -> AsyncIterator[tuple[Replicas, int]]:
    async with replicas(cluster, SETTINGS) as (group, address):
        first = await group.start("netgang-a")
        await group.start("netgang-b")
        service = Netgang(part=first.part, url=f"http://127.0.0.1:{address.port}", debug_url=first.debug_url)
        await start_second_scheduler(cluster, service.url)
        await cluster.start_scheduler()
        yield group, address.port


async def _storm(chance: random.Random, tenants: Tenants, faults: Faults, mallory: Mallory) -> None:
    ends_s = monotonic() + 60.0 * MINUTES

    async def again_and_again(every_s: float, act: Callable[[], object]) -> None:  # with pauses of this mean
        moments = _another(chance)
        while monotonic() < ends_s:
            await asyncio.sleep(moments.expovariate(1.0 / every_s))
            done = act()
            if asyncio.iscoroutine(done):
                await done

    async with asyncio.TaskGroup() as group:
        for every_s, act in ((0.6, tenants.act), (6.0, faults.act), (1.5, mallory.act)):
            group.create_task(again_and_again(every_s, act))


async def _until_all_were_whole(tenants: Tenants, witness: Witness) -> float:
    began_s = monotonic()
    while left := tenants.unfinished():
        if monotonic() - began_s > 2 * AFTER_S:
            witness.problems.append(f"never started: {sorted(str(one) for one in left)}")
            break
        await asyncio.sleep(0.25)
    return monotonic() - began_s


async def _keep_evidence(cluster: Cluster, api: Api, port: int, tenants: Tenants) -> None:
    left = tenants.unfinished()
    if not left and not tenants.witness.problems:
        return
    target = ARTIFACTS / f"chaos-{SEED}-{len(tenants.witness.problems)}"
    cluster.dump_logs(target)
    (target / "pods.json").write_text(json.dumps(await api.list_all("Pod"), indent=1))
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", timeout=10.0) as client:
        for page in ("v1/plan", "v1/queue", "readyz", *(f"v1/explain/{run.namespace}/{run.gang}" for run in left)):
            with suppress(httpx.HTTPError):
                (target / page.replace("/", "-")).write_text((await client.get(f"/{page}")).text)


async def _ready(one: Netgang) -> bool:
    with suppress(httpx.HTTPError):
        async with httpx.AsyncClient(timeout=10.0) as client:
            return (await client.get(f"{one.url}/readyz")).status_code == 200
    return False


def _another(chance: random.Random) -> random.Random:
    """A stream of its own, so that one actor's pauses change no other's choices."""
    return random.Random(chance.randrange(2**32))
