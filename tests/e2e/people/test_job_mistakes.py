"""Mistakes in jobs of the training operator, JobSet and Trainer on a real control plane: each is named, none is silent.

What is wrong is said by `kubectl apply` (a dry run here), or, once the operators have made the pods, in an Event, the
pods' condition and /v1/explain. Mistakes of single pods: tests/scoring/explain, tests/extender/controllers/events.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.errors import ApiRefused, ControlPlaneError, WaitExpired
from lab.testbed.objects import priority_class, zone_nodes
from lab.testbed.parts.installed import installed
from lab.testbed.parts.jobset import end_jobset, start_jobset
from lab.testbed.parts.operator import start_operator
from lab.testbed.programs.build import ensure_asset
from tests.authority import Authority
from tests.e2e.objects import name_of
from tests.e2e.people.job_mistakes import (
    ADMITTED,
    APPLIED,
    EVENT,
    EXPLAIN,
    JOBS,
    ON_JOB,
    RIGHT,
    Heard,
    Make,
    Mistake,
    cause_of,
    named,
)
from tests.e2e.site import controlled_site
from tests.e2e.stage import Stage

DEFINED = ("trainer-crds", "mpi-crds")  # kinds whose controllers are not in the test bed
LIMIT_S = 90.0
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs",
}


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api, tmp_path: Path) -> AsyncIterator[Stage]:
    """Four nodes of zone a, the operators, the warnings, and netgang with elastic jobs."""
    authority = Authority.made(tmp_path, "ours")
    authority.server("jobset").into(tmp_path)
    applied = [one for one in installed() if one["metadata"]["name"].endswith("warnings")]
    applied.append(priority_class("mistake-high", 10))
    try:
        await start_jobset(controlled_cluster, certificates=tmp_path, authority=authority.cert)
        await start_operator(controlled_cluster)
        for asset in DEFINED:
            await apply(controlled_cluster, controlled_api, asset)
        await controlled_api.apply(applied)
        async with controlled_site(
            controlled_cluster, controlled_api, "job-mistakes", nodes=zone_nodes({"a": 4}, prefix="n"),
            settings={"elastic": {"enabled": True}}, kinds=("Job", "PyTorchJob", "TFJob"),
        ) as there:  # fmt: skip
            yield there
            await controlled_api.delete_all("JobSet", namespace=there.namespace)
    finally:
        for one in reversed(applied):
            await controlled_api.delete(one["kind"], name_of(one))
        for asset in DEFINED:
            with suppress(ControlPlaneError):
                await controlled_cluster.kubectl("delete", "--ignore-not-found", "--filename", str(ensure_asset(asset)))
        await end_jobset(controlled_cluster)


def documents(path: Path) -> list[Object]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


async def apply(cluster: Cluster, api: Api, asset: str) -> None:
    """Apply definitions, wait until their kinds are served; `kubectl wait` fails on one without any condition yet."""
    place = ensure_asset(asset)
    await cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(place))
    wanted = {name_of(one) for path in place.iterdir() for one in documents(path)}

    def served(found: list[Object]) -> bool:
        return wanted <= {name_of(one) for one in found if ("Established", "True") in conditions(one)}

    await api.until(partial(api.list_all, "CustomResourceDefinition"), served, what=f"{asset} are served")


def conditions(one: Object) -> set[tuple[str, str]]:
    return {(two["type"], two["status"]) for two in one.get("status", {}).get("conditions") or []}


@pytest.mark.timeout(300)
async def test_each_mistake_is_answered_in_words_that_name_it(site: Stage) -> None:
    for name, row in JOBS.items():
        await site.api.create_all(row.make(name, site.namespace))
    in_force = next(iter(APPLIED.values()))
    await site.api.until(partial(answer, site, in_force.make), bool, what="the warnings are in force")
    silent: dict[str, object] = {}
    for name, row in APPLIED.items():
        if not named(row.says, heard := await answer(site, row.make)):
            silent[name] = heard
    loud = {name: said for name, make in RIGHT.items() if (said := await answer(site, make))}
    silent |= await silent_jobs(site, JOBS)
    assert (silent, loud) == ({}, {}), yaml.safe_dump([silent, loud])


async def answer(site: Stage, make: Make) -> list[str]:
    """What the API server says to a client that applies the objects: warnings, or the words of its refusal."""
    heard: list[str] = []
    for one in make("mistake", site.namespace):
        path = PATHS[one["kind"]].format(site.namespace)
        try:
            heard += await site.api.warnings("POST", path, body=one, params={"dryRun": "All"})
        except ApiRefused as refused:
            heard.append(refused.message)
    return heard


async def silent_jobs(site: Stage, rows: dict[str, Mistake]) -> dict[str, object]:
    """Jobs of which something is not said within the time, where, and what is said of them instead."""
    left = {name: set(row.where) for name, row in rows.items()}
    heard: Heard = {}

    async def read() -> bool:
        heard.clear()
        heard.update(await heard_of(site, rows))
        for name, places in left.items():
            if places == {EXPLAIN}:  # asked once the rest is said: it costs a plan
                heard[EXPLAIN, name] = await cause_of(site.service, f"{site.namespace}/{name}")
            places -= {at for at in places if named(rows[name].says, heard.get((at, name), ()))}
        return not any(left.values())

    with suppress(WaitExpired):
        await site.api.until(read, bool, what="all is said", limit_s=LIMIT_S)
    return {name: {at: heard.get((at, name), []) for at in places} for name, places in left.items() if places}


async def heard_of(site: Stage, rows: dict[str, Mistake]) -> Heard:
    """(where, job) → what netgang says of it and its pods."""
    heard: Heard = {}

    def note(where: str, about: str, text: str) -> None:
        for job in rows:
            if about == job or about.startswith(f"{job}-"):
                heard.setdefault((where, job), []).append(text)

    for one in await site.api.list_all("Event", namespace=site.namespace):
        if one.get("reportingComponent") == "netgang.io/extender":
            about = one["involvedObject"]
            note(EVENT if about["kind"] == "Pod" else ON_JOB, about["name"], one["message"])
    for one in await site.pods():
        for condition in one["status"].get("conditions", []):
            if condition["type"] == "netgang.io/Admitted" and condition["status"] == "False":
                note(ADMITTED, name_of(one), condition["message"])
    return heard
