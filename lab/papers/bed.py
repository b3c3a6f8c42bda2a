"""Where rows run: nodes that are network namespaces, netgang as its chart installs it, and TFJobs that train.

Rule: kube-scheduler, the controllers and training-operator are the real ones. A job's pods run `lab.papers.train`, each
in a network of its own behind its node's; they share a folder for checkpoints, and the chief reports to netgang with
its pod's own token. Rows may give the chart limits as settings (`lab.testbed.netgang`). One installation serves all
rows: each says how much its nodes have and how fast their links are, and each job has a name and a checkpoint of its
own; the next one begins when no pod of it is left.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec

from lab.bench.testbed.nodes import NODES, Bed, examine
from lab.bench.testbed.site import Site, installed
from lab.testbed.api import Object
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import HOST_LABEL, namespace, node, pod
from lab.testbed.parts.node_kubelet import POD_CONTROLLERS, STAGES
from lab.testbed.parts.operator import start_operator, tf_job
from lab.testbed.parts.pod_process import Image
from lab.testbed.processes import contained
from lab.testbed.processes.groups import Group
from lab.testbed.programs import build
from lab.testbed.programs.catalogue import E2E

SYSTEM: Final = ("node1", "node2")
"""Where netgang and its kube-scheduler run"""
_CODE: Final = "import lab.testbed.netgang, extender.bootstrap.serve, probe.__main__, lab.papers.train.__main__"
_ZONES: Final = {"system": SYSTEM, "D": NODES}
TEAM: Final = "papers"
_ENV: Final = {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "OPENBLAS_NUM_THREADS": "1"}
_IMAGES: Final = {
    "registry.invalid/trainer": Image(
        env=_ENV, loaded=(contained.__name__, "argparse", "lab.papers.train.ranks", "netgang_report")
    ),
    "netgang": Image(("python", "-m", "lab.testbed.netgang"), env=_ENV | {"PYTHONDONTWRITEBYTECODE": "1"}),
}
_FOLDER, _AUTHORITY = "/checkpoints", "netgang-ca"
_AGENT_M: Final = 50
"""What an agent asks for, in millicores"""
_REPORTS: Final = f"https://netgang.{INSTALLED_IN}.svc:8891/v1/jobs/{TEAM}/"
_ENDS: Final = ("Succeeded", "Failed")


def examine_machine() -> None:
    """Errors: BedUnavailable or ControlPlaneError, with what this machine lacks."""
    examine()
    Group("trial", cpus=1.0).remove()
    if build.missing(E2E):
        build.find_go()


class TrainingSite(Site, frozen=True):
    """With training-operator, and what is known of its jobs."""

    _told: dict[str, tuple[int, list[dict[str, Any]]]] = msgspec.field(default_factory=dict, name="told")
    """Pod → how many bytes of its log are read, and the lines in them"""

    async def set_rooms(self, nodes: Sequence[str], *, cpu_m: int, gpus: Mapping[str, int] = {}) -> None:
        """Let each of these nodes have so many millicores for jobs, and GPUs; all others have nothing."""
        for one in NODES:
            room_m = _AGENT_M + (cpu_m if one in nodes else 0)
            room = {"cpu": f"{room_m}m", "nvidia.com/gpu": str(gpus.get(one, 0))}
            await self.api.patch("Node", one, {"status": {"capacity": room, "allocatable": room}}, subresource="status")

    async def until_ended(self, job: str, count: int, *, limit_s: float) -> list[Object]:
        """So many pods of it, once all have ended. Errors: ControlPlaneError."""

        def ended(pods: list[Object]) -> bool:
            return len(pods) == count and all(one["status"]["phase"] in _ENDS for one in pods)

        return await self.api.until(partial(self.pods, job), ended, what=f"the end of {job}", limit_s=limit_s)

    def job(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        workers: int,
        cpu: str = "1",
        ps_cpu: str = "",
        gpu: int = 0,
        limited: bool = False,
        scheduler: str = "",
        ps_on: Sequence[str] = (),
        workers_on: Sequence[str] = (),
    ) -> Object:
        """A TFJob of one ps that trains, on these nodes alone if some are named.

        The GPUs are each worker's, as is `cpu` with `ps_cpu`, else each pod's; both are limits if it is `limited`.
        """
        made = tf_job(name, workers=workers, namespace=TEAM, cpu=cpu, dynamic=False)
        checkpoints = {"name": "checkpoints", "hostPath": {"path": str(self.cluster.directory / "checkpoints")}}
        volumes = [checkpoints, {"name": "ca", "configMap": {"name": _AUTHORITY}}]
        command = ["python", "-m", "lab.papers.train", f"--checkpoint-dir={_FOLDER}/{name}", *arguments]
        env = {"NETGANG_REPORT_URL": f"{_REPORTS}{name}/metrics", "NETGANG_CA_FILE": f"/{_AUTHORITY}/ca.crt"}
        places = {"checkpoints": _FOLDER, "ca": f"/{_AUTHORITY}"}
        mounted = {
            "command": command,
            "env": [{"name": key, "value": value} for key, value in env.items()],
            "volumeMounts": [{"name": one, "mountPath": place} for one, place in places.items()],
        }
        for role, nodes, own_cpu, gpus in (("PS", ps_on, ps_cpu or cpu, 0), ("Worker", workers_on, cpu, gpu)):
            replicas, plain = made["spec"]["tfReplicaSpecs"][role], pod("unused", cpu=own_cpu, gpu=gpus)["spec"]
            spec = {**replicas["template"]["spec"], "volumes": volumes}
            spec |= {"schedulerName": scheduler} if scheduler else {}
            resources = plain["containers"][0]["resources"]
            resources["limits"] |= {"cpu": own_cpu} if limited else {}
            spec["containers"] = [{**spec["containers"][0], **mounted, "resources": resources}]
            if nodes:
                term = {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": list(nodes)}]}
                required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
                spec["affinity"] = {"nodeAffinity": required}
            made["spec"]["tfReplicaSpecs"][role] = {**replicas, "restartPolicy": "Never", "template": {"spec": spec}}
        return made

    async def remove(self, job: str) -> None:
        """Until none of its pods is there."""
        await self.api.delete("TFJob", job, namespace=TEAM)
        await self.api.until(partial(self.pods, job), lambda found: not found, what=f"{job} gone", limit_s=60.0)

    async def pods(self, job: str) -> list[Object]:
        """A job's."""
        return await self.api.list_all("Pod", namespace=TEAM, labels=f"training.kubeflow.org/job-name={job}")

    def lines(self, pod: str) -> list[dict[str, Any]]:
        """What a pod said (see `lab.papers.train`), nothing if it has not begun; all pods of this name count."""
        log, (read, told) = self.cluster.directory / "logs" / f"{TEAM}-{pod}.log", self._told.get(pod, (0, []))
        if log.exists():
            with log.open("rb") as file:
                file.seek(read)
                new = file.read().rpartition(b"\n")[0]
            told += [json.loads(line) for line in new.splitlines() if line.startswith(b"{")]
            self._told[pod] = read + len(new), told
        return told


@asynccontextmanager
async def training_site(bed: Bed) -> AsyncIterator[TrainingSite]:
    """Netgang on nodes of its own, and the bed's others for jobs, in one zone.

    Byte code is written before: a pod's files are a copy on write, in which each would compile its program anew. Ranks
    are forked from a process that has numpy: on two cores, its imports would be most of what ten jobs do.
    """
    os.environ |= _ENV  # of that process: BLAS with threads cannot be forked
    compiling, env = (sys.executable, "-c", _CODE), os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    await asyncio.to_thread(subprocess.run, compiling, env=env, check=True)
    system, others = ([node(one, cpu="1500m", zone=zone) for one in of] for zone, of in _ZONES.items())
    async with Cluster(controllers=POD_CONTROLLERS, stage_names=STAGES) as cluster:
        (cluster.directory / "checkpoints").mkdir()
        async with installed(cluster, bed, first=system, then=others, images=_IMAGES) as site:
            await start_operator(cluster)
            await site.api.create(namespace(TEAM))
            authority = await site.api.get("ConfigMap", _AUTHORITY, namespace=INSTALLED_IN)
            own = {"name": _AUTHORITY, "namespace": TEAM}
            await site.api.create({**authority, "metadata": own})
            accounts = partial(site.api.list_all, "ServiceAccount", namespace=TEAM)
            await site.api.until(accounts, bool, what="an account for pods")
            yield TrainingSite(**msgspec.structs.asdict(site))
