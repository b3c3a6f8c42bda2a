"""Run the commands of Jobs, as a kubelet and the job controller would: for Helm's hooks, which wait for their Jobs.

Why: the test bed has no kubelet, and an uninstall that is tested without its hook is not tested.
Rule: the command is the one in the Job, with the rights of the Job's own service account; how it ended is written into
the Job's status. What a Job said is kept.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.cluster import Cluster


class Ran(msgspec.Struct):
    """What ran: Job → how its command ended, and what it said."""

    codes: dict[str, int] = {}
    said: dict[str, str] = {}


@asynccontextmanager
async def jobs_by_hand(cluster: Cluster, namespace: str) -> AsyncIterator[Ran]:
    """While the block runs, every new Job of the namespace is run once. The accounts must be users of the cluster."""
    ran = Ran()
    async with cluster.api() as api, beside(_follow(cluster, api, namespace, ran)):
        yield ran


async def _follow(cluster: Cluster, api: Api, namespace: str, ran: Ran) -> None:
    seen: set[str] = set()
    async for change, job in api.watch("Job", namespace=namespace):
        uid = job["metadata"]["uid"]
        if change == "ADDED" and uid not in seen:
            seen.add(uid)
            await _run(cluster, api, job, ran)


async def _run(cluster: Cluster, api: Api, job: Object, ran: Ran) -> None:
    meta, pod = job["metadata"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    started = _now()
    code = 1
    for _ in range(1 + job["spec"].get("backoffLimit", 6)):  # its rights may be younger than what the API server knows
        access = f"--kubeconfig={cluster.kubeconfig(pod['serviceAccountName'])}"
        command = (sys.executable, "-m", "cli.main", *container["args"], access)
        to = asyncio.subprocess
        process = await asyncio.create_subprocess_exec(*command, stdout=to.PIPE, stderr=to.STDOUT)
        out, _ = await process.communicate()
        code = process.returncode or 0
        ran.codes[meta["name"]] = code
        ran.said[meta["name"]] = ran.said.get(meta["name"], "") + out.decode()
        if code == 0:
            break
    ends = ("SuccessCriteriaMet", "Complete") if code == 0 else ("FailureTarget", "Failed")
    status = {
        "startTime": started,
        **({"completionTime": _now(), "succeeded": 1} if code == 0 else {"failed": 1}),
        "conditions": [{"type": one, "status": "True", "lastTransitionTime": _now()} for one in ends],
    }
    await api.patch("Job", meta["name"], {"status": status}, namespace=meta["namespace"], subresource="status")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 - what a kubelet writes
