"""Pods that are real: processes in their nodes' networks, with what their objects say that they have."""

import asyncio
from base64 import b64encode
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.bench.testbed.nodes import Bed
from lab.testbed.api import Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import namespace, node
from lab.testbed.parts.node_kubelet import node_kubelet
from lab.testbed.parts.pod_process import Image
from lab.testbed.processes import contained
from tests.e2e.objects import kind, name_of

TEAM, NODES = "team", ("node1", "node2")
SEES = """set -ex
test "$(cat /etc/team/word)" = secret
test "$(cut -c 1-3 /var/run/secrets/team/token)" = eyJ
ip -4 -o addr show eth0 | grep -F " $(ADDRESS)/"
test "$(id -u)" = 65532
! touch /etc/team/new
echo $(WORD) > /data/$(ADDRESS)
exit 3"""
FORKED = f"import os, sys; assert '{contained.__name__}' in sys.modules; os.execvp('sh', ['sh', '-c', {SEES!r}])"
SPINS = "trap 'exit 0' TERM; while true; do :; done"


def runs(script: str, **more: Any) -> Object:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], **more.pop("container", {})}
    return {"restartPolicy": "Never", "containers": [container], **more}


@pytest.mark.nightly
async def test_pods_are_processes_of_their_nodes(own_cluster: Cluster, nodes: Bed, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)  # noqa: ASYNC240 - a pod's user is not ours
    await own_cluster.add_nodes(node(one) for one in NODES)
    await own_cluster.start_scheduler()
    images = {"forked": Image(loaded=("timeit",))}
    async with own_cluster.api() as api, node_kubelet(own_cluster, nodes, images) as kubelet:
        await api.create(namespace(TEAM))
        await api.until(partial(api.list_all, "ServiceAccount", namespace=TEAM), bool, what="an account")

        async def until(name: str, phase: str) -> Object:
            read = partial(api.get, "Pod", name, namespace=TEAM)
            return await api.until(read, lambda pod: pod["status"]["phase"] == phase, what=f"{name} {phase}")

        volumes = [
            {"name": "word", "secret": {"secretName": "word"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "us"}}]}},
            {"name": "data", "hostPath": {"path": str(tmp_path)}},
        ]
        where = {"word": "/etc/team", "token": "/var/run/secrets/team", "data": "/data"}
        mounts = [{"name": name, "mountPath": path, "readOnly": name == "word"} for name, path in where.items()]
        address_of_pod = {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        given = {"volumeMounts": mounts, "env": [address_of_pod, {"name": "WORD", "value": "on $(ADDRESS)"}]}
        python, forked = ("python", "-m", "timeit"), {"image": "forked:1"}
        commands = {"sees": given, "forked": given | forked | {"command": [*python, FORKED]}}
        for name, container in commands.items():
            sees = runs(SEES, container=container, volumes=volumes, securityContext={"runAsUser": 65532})
            await api.create(kind("v1", "Pod", name, TEAM, spec=sees))
        await api.create(kind("v1", "Secret", "word", TEAM, data={"word": b64encode(b"secret").decode()}))
        for name in commands:
            status = (await until(name, "Failed"))["status"]
            log = (own_cluster.directory / "logs" / f"{TEAM}-{name}.log").read_text()
            assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3, log
            assert (tmp_path / status["podIP"]).read_text() == f"on {status['podIP']}\n"

        spec = {"template": {"spec": runs("exit 0")}, "completions": 2}
        await api.create(kind("batch/v1", "Job", "job", TEAM, spec=spec))
        job = partial(api.get, "Job", "job", namespace=TEAM)
        await api.until(job, lambda found: found["status"].get("succeeded") == 2, what="the pods of a Job succeed")
        ended = await api.list_all("Pod", namespace=TEAM, labels="job-name=job")
        assert len({one["status"]["podIP"] for one in ended}) == 2, "also on one node"

        spins = {"command": [*python, "while True: pass"], **forked}
        await api.create(kind("v1", "Pod", "spins", TEAM, spec=runs(SPINS, container=spins)))
        await until("spins", "Running")
        running = kubelet.running[TEAM, "spins"]
        usage = partial(asyncio.to_thread, running.group.usage)
        # The kernel counts a few pages seconds later.
        used = await api.until(usage, lambda found: found.cpu_s > 0.2 and found.own_bytes > 0, what="its use")
        assert used.own_bytes < used.working_set_bytes < 50e6
        await api.delete("Pod", "spins", namespace=TEAM)
        pods = partial(api.list_all, "Pod", namespace=TEAM)
        await api.until(pods, lambda found: "spins" not in map(name_of, found), what="a deleted pod gone")
        assert not any(place.exists() for place in running.group.places)

        await api.create(kind("v1", "Pod", "again", TEAM, spec=runs(SPINS)))
        await until("again", "Running")
        former = kubelet.running[TEAM, "again"]
        await api.delete("Pod", "again", namespace=TEAM, grace_s=0)
        await api.create(kind("v1", "Pod", "again", TEAM, spec=runs(SPINS)))
        await until("again", "Running")
        groups = partial(asyncio.to_thread, lambda: [place.exists() for place in former.group.places])
        await api.until(groups, lambda found: not any(found), what="a pod that was deleted by force gone")
        assert kubelet.running[TEAM, "again"].child.alive, "its successor has the same name, and stays"
        await until("again", "Running")
