"""Child processes, ports, credentials, kwok's stages, operators' jobs: what a cluster is put together from."""

import asyncio
import base64
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.testbed.errors import ControlPlaneError, NotReady, PartDied
from lab.testbed.parts.operator import condition, pytorch_job, tf_job
from lab.testbed.processes.credentials import User, kubeconfig, service_account, signing_key, token_file
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child
from lab.testbed.processes.stages import DELETE_AFTER, HOLD, REJECT, with_handle, write_stages
from tests.liveness import LIVENESS_S

WAITS = "import signal; print('up', flush=True); signal.pause()"
IGNORES_TERM = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile 1: signal.pause()"
)


def python(code: str, tmp_path: Path) -> Child:
    return Child("part", [sys.executable, "-c", code], log=tmp_path / "logs" / "part.log")


async def up(child: Child) -> None:
    async def said() -> bool:
        return "up" in child.tail()

    child.start()
    await child.ready(said, limit_s=LIVENESS_S)


def state(pid: int) -> str:
    """State letter of a process: S sleeping, R running, T stopped, Z zombie; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def until_state(pid: int, accepted: tuple[str, ...]) -> None:
    """Wait until a process is in one of these states; bounded by the test's own limit."""
    while state(pid) not in accepted:  # noqa: ASYNC110 - another process sets no asyncio event
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("code", [WAITS, IGNORES_TERM], ids=["obeys SIGTERM", "ignores SIGTERM"])
async def test_stop_ends_the_process(code: str, tmp_path: Path) -> None:
    child = python(code, tmp_path)
    await up(child)
    first = child.pid
    await child.stop(grace_s=0.2)
    assert not child.alive
    assert first is not None
    assert state(first) == ""

    child.start()
    assert child.alive
    assert child.pid != first
    await child.kill()
    assert child.pid is None


async def test_freeze_stops_the_clock_and_stop_works_frozen(tmp_path: Path) -> None:
    child = python(WAITS, tmp_path)
    await up(child)
    assert child.pid is not None
    child.freeze()
    await until_state(child.pid, ("T",))
    assert child.alive
    child.unfreeze()
    await until_state(child.pid, ("S", "R"))
    child.freeze()
    await child.stop()
    assert not child.alive


async def test_ended_part_is_reported_with_its_log(tmp_path: Path) -> None:
    child = python("raise SystemExit('no such flag')", tmp_path)

    async def never() -> bool:
        return False

    child.start()
    with pytest.raises(PartDied, match="no such flag"):
        await child.ready(never, limit_s=LIVENESS_S)
    await child.stop()


async def test_a_silent_part_is_reported_and_is_not_started_twice(tmp_path: Path) -> None:
    child = python(WAITS, tmp_path)

    async def never() -> bool:
        return False

    await up(child)
    with pytest.raises(NotReady, match="part was not ready"):
        await child.ready(never, limit_s=0.1)
    with pytest.raises(ControlPlaneError, match="runs already"):
        child.start()
    await child.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
async def test_children_die_with_their_parent(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from lab.testbed.processes.process import Child
child = Child("part", [sys.executable, "-c", {WAITS!r}], log=Path({str(tmp_path / "part.log")!r}))
child.start()
while "up" not in child.tail():
    pass
print("child", child.pid, "up", flush=True)
while True:
    asyncio.run(asyncio.sleep(60))
"""
    parent = python(code, tmp_path)
    await up(parent)
    pid = int(parent.tail().split()[1])
    assert state(pid) == "S"
    await parent.kill()
    await until_state(pid, ("", "Z"))


def test_ports_differ_and_are_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(20_000 <= port < 32_000 for port in ports)
    taken, free = ports[:2]
    with socket.create_server((LOOPBACK, taken)):
        assert free_ports(1, candidates=iter([taken, free])) == (free,)
        with pytest.raises(OSError, match="no 1 free ports"):
            free_ports(1, candidates=iter([taken]))


def test_a_service_account_is_a_user_of_that_name() -> None:
    """Role bindings to a service account apply to its token, because name and groups are the account's."""
    account = service_account("netgang", "reader")
    assert account.username == "system:serviceaccount:netgang:reader"
    assert set(account.groups) >= {"system:serviceaccounts:netgang", "system:authenticated"}
    assert account.token != service_account("netgang", "reader").token


def test_kubeconfig_and_tokens_agree() -> None:
    account = User(name="a", username="alice", groups=("g1", "g2"), token="secret")
    document = yaml.safe_load(kubeconfig("https://x:1", account, certificate_authority=Path("/ca")))

    assert document["users"] == [{"name": "a", "user": {"token": "secret"}}]
    assert document["clusters"][0]["cluster"] == {"server": "https://x:1", "certificate-authority": "/ca"}
    assert token_file([account]) == 'secret,alice,alice,"g1,g2"\n'


def test_signing_keys_are_fresh_p256_keys() -> None:
    lines = signing_key().splitlines()
    content = base64.b64decode("".join(lines[1:-1]))

    assert lines[0] == "-----BEGIN EC PRIVATE KEY-----"
    assert content[:7] == bytes([0x30, len(content) - 2, 2, 1, 1, 4, 32])
    assert content[39:] == bytes.fromhex("a00a06082a8648ce3d030107")
    assert signing_key() != signing_key()


def stage(name: str) -> dict[str, dict[str, Any]]:
    condition = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchExpressions": [condition]}, "next": {}}}


def test_every_stage_can_be_held_back() -> None:
    held = with_handle(stage("pod-delete"))["spec"]["selector"]["matchExpressions"]
    ready = with_handle(stage("pod-ready"))["spec"]["selector"]["matchExpressions"]

    assert held == [
        {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        {"key": f'.metadata.annotations["{HOLD}"]', "operator": "NotIn", "values": ["pod-delete"]},
    ]
    assert {"key": f'.metadata.annotations["{REJECT}"]', "operator": "DoesNotExist"} in ready


def test_stages_are_one_file_each(tmp_path: Path) -> None:
    for name in ("pod-ready", "pod-complete"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(stage(name)))
    written = write_stages(tmp_path, tmp_path / "out", ["pod-ready"])

    assert [path.name for path in written] == ["pod-ready.yaml", "pod-reject.yaml"]
    assert all(yaml.safe_load(path.read_text())["spec"] for path in written)


def test_signals_reach_the_group_only(tmp_path: Path) -> None:
    child = python(WAITS, tmp_path)
    child.start()
    assert child.pid is not None
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
    os.killpg(child.pid, signal.SIGKILL)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(child.stop())


def test_a_pod_says_how_long_it_takes_to_end() -> None:
    delay = with_handle(stage("pod-delete"))["spec"]["delay"]
    assert delay["durationMilliseconds"] == 0
    assert delay["durationFrom"] == {"expressionFrom": f'.metadata.annotations["{DELETE_AFTER}"]'}
    assert "delay" not in with_handle(stage("pod-ready"))["spec"]


def test_a_tf_job_leaves_the_scheduler_to_the_operator() -> None:
    job = tf_job("low", workers=4, ends_after="3s")
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 5}
    assert {role: one["replicas"] for role, one in job["spec"]["tfReplicaSpecs"].items()} == {"PS": 1, "Worker": 4}
    template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    assert "schedulerName" not in template["spec"]
    assert template["spec"]["containers"][0]["name"] == "tensorflow"
    assert template["metadata"]["annotations"] == {DELETE_AFTER: "3s"}


def test_a_pytorch_job_is_elastic() -> None:
    job = pytorch_job("low", workers=4, min_workers=2)
    policy = job["spec"]["elasticPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (2, 4)
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 2}


def test_conditions() -> None:
    job = {"status": {"conditions": [{"type": "Running", "status": "False"}, {"type": "Failed", "status": "True"}]}}
    assert [condition(job, kind) for kind in ("Running", "Failed", "Created")] == [False, True, False]
    assert not condition({}, "Running")
