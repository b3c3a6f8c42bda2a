"""What people do wrong on a real control plane, and the words that name it: no mistake is silent.

One test on one control plane: all mistakes are made at the same time, and the answer of each is waited for where people
look: in an Event of the pod, its condition netgang.io/Admitted, /v1/explain, a warning or refusal of the API server,
and what a command prints.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.errors import ApiRefused, WaitExpired
from lab.testbed.objects import namespace, node, priority_class
from lab.testbed.parts.installed import installed
from lab.testbed.parts.service import ROOT, Netgang
from lab.testbed.processes.stages import HOLD
from tests.e2e.objects import kind, name_of
from tests.e2e.people.mistakes import (
    ADMITTED,
    APPLIED,
    COMMANDS,
    EVENT,
    EXPLAIN,
    GANGS,
    Command,
    Heard,
    Mistake,
    cause_of,
    named,
)
from tests.e2e.stage import Stage

CONDITION = "netgang.io/Admitted"
LIMIT_S = 120.0
PATHS = {"Pod": "/api/v1/namespaces/{}/pods", "Job": "/apis/batch/v1/namespaces/{}/jobs"}
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups"
AT_ONCE = 4  # Commands that run at the same time
TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
TEAM = "mistakes-team"  # A namespace with a quota


@pytest.fixture
async def site(stage: Stage) -> AsyncIterator[Stage]:
    """Zones a and b with room, zones whose nodes are cordoned, tainted, full or down, and a node without a zone."""
    api = stage.api
    applied = [
        *(one for one in installed() if one["metadata"]["name"] == "netgang-warnings"),
        priority_class("mistake-high", 10),
        namespace(TEAM),
    ]
    for one in applied:
        await api.apply(one)
    await api.create(kind("v1", "ResourceQuota", "team", TEAM, spec={"hard": {"pods": "1"}}))
    status = {"hard": {"pods": "1"}, "used": {"pods": "0"}}  # as kube-controller-manager writes it
    await api.patch("ResourceQuota", "team", {"status": status}, namespace=TEAM, subresource="status")
    places = {"a": 3, "b": 2, "cordoned": 2, "tainted": 2, "full": 1, "zoneless": 1}
    await stage.add_nodes(*(_node(pool, number) for pool, count in places.items() for number in range(count)))
    await api.create(_silent_node())
    await api.patch("Node", "down0", {"spec": {"taints": []}})
    for number in range(places["tainted"]):
        await api.patch("Node", f"tainted{number}", {"spec": {"taints": [TAINT]}})
    await stage.create_pod("filler", on="full0", cpu="7")
    yield stage
    for one in reversed(applied):
        await api.delete(one["kind"], name_of(one))


def _node(pool: str, number: int) -> Object:
    zone = "" if pool == "zoneless" else pool
    made = node(f"{pool}{number}", zone=zone, gpu=int(pool == "a"), labels={"pool": pool, "disk": "ssd"})
    return {**made, "spec": {"unschedulable": pool == "cordoned"}}


def _silent_node() -> Object:
    """A node whose kubelet has never answered."""
    made = _node("down", 0)
    made["metadata"]["annotations"] = {HOLD: "node-initialize"}
    made["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}]
    return made


def _objects(path: Path) -> list[Object]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


@pytest.mark.timeout(300)
async def test_each_mistake_is_answered_in_words_that_name_it(site: Stage, tmp_path: Path) -> None:
    netgang = await site.netgang()
    for name, row in GANGS.items():
        await site.api.create_all(row.make(name, _namespace(site, name)))
    in_force = next(iter(APPLIED.values()))
    await site.api.until(lambda: _answer(site, in_force), bool, what="the policy of warnings is in force")
    silent: dict[str, object] = {}
    for name, row in APPLIED.items():
        if not named(row.says, heard := await _answer(site, row)):
            silent[name] = heard
    places = asyncio.Semaphore(AT_ONCE)
    printed, silent_gangs = await asyncio.gather(
        asyncio.gather(*(_printed(site, netgang, one, tmp_path, places) for one in COMMANDS.items())),
        _silent_gangs(site, netgang),
    )
    for (name, command), text in zip(COMMANDS.items(), printed, strict=True):
        if not named(command.says, [text]):
            silent[name] = text
    silent |= silent_gangs
    assert not silent, yaml.safe_dump(silent)


def _namespace(site: Stage, name: str) -> str:
    return TEAM if name == "quota" else site.namespace


async def _answer(site: Stage, row: Mistake) -> list[str]:
    """What the API server says to a client that applies the objects: warnings, or the words of its refusal."""
    heard: list[str] = []
    for one in row.make("mistake", site.namespace):
        path = {"PodGroup": GROUPS, **PATHS}[one["kind"]].format(site.namespace)
        try:
            heard += await site.api.warnings("POST", path, body=one, params={"dryRun": "All"})
        except ApiRefused as refused:
            heard.append(refused.message)
    return heard


async def _printed(
    site: Stage, netgang: Netgang, row: tuple[str, Command], tmp_path: Path, places: asyncio.Semaphore
) -> str:
    """What a command prints that ends as one that failed."""
    name, command = row
    known = {"URL": netgang.url, "NAMESPACE/nothing": f"{site.namespace}/nothing"}
    words = [known.get(word, word) for word in command.words]
    for option, content in command.files.items():
        file = tmp_path / f"{name.replace(' ', '-')}.yaml"
        file.write_text(yaml.safe_dump(content))
        words += [option, str(file)] if option else [str(file)]
    env = {key: text for key, text in os.environ.items() if not key.startswith("NETGANG_")}
    env |= {"COLUMNS": "200"}
    pipe = asyncio.subprocess.PIPE
    async with places:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli.main", *words), stdout=pipe, stderr=pipe, env=env, cwd=ROOT
        )
        out, err = await process.communicate()
    text = (out + err).decode()
    assert process.returncode, f"{words} ended well: {text}"
    assert "Traceback" not in text
    return text


async def _silent_gangs(site: Stage, netgang: Netgang) -> dict[str, object]:
    """Gangs of which something is not said within the time, where, and what is said of them instead."""
    left = {name: set(row.where) for name, row in GANGS.items()}
    heard: Heard = {}

    async def read() -> bool:
        heard.clear()
        heard.update(await _heard(site.api))
        for name, places in left.items():
            if places == {EXPLAIN}:  # asked once the rest is said: it costs a plan
                heard[EXPLAIN, name] = await cause_of(netgang, f"{_namespace(site, name)}/{name}")
            places -= {at for at in places if named(GANGS[name].says, heard.get((at, name), ()))}
        return not any(left.values())

    with suppress(WaitExpired):
        await site.api.until(read, bool, what="all is said", limit_s=LIMIT_S)
    return {name: {at: heard.get((at, name), []) for at in places} for name, places in left.items() if places}


async def _heard(api: Api) -> Heard:
    heard: Heard = {}
    for one in await api.list_all("Event"):
        if one.get("reportingComponent") == "netgang.io/extender" and one["involvedObject"]["kind"] == "Pod":
            gang = one["involvedObject"]["name"].rpartition("-worker-")[0]
            heard.setdefault((EVENT, gang), []).append(one["message"])
    for one in await api.list_all("Pod"):
        for condition in one["status"].get("conditions", []):
            if condition["type"] == CONDITION and condition["status"] == "False":
                gang = name_of(one).rpartition("-worker-")[0]
                heard.setdefault((ADMITTED, gang), []).append(condition["message"])
    return heard
