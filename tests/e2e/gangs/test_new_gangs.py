"""Events FailedScheduling of a healthy gang while the Job controller still creates its pods."""

import re
from collections import Counter

import pytest
import yaml

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import ROOT
from scoring.model import GATE
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

MEMBERS, JOBS = 8, 6
(EXAMPLE,) = yaml.safe_load_all((ROOT / "examples/gang-job.yaml").read_text())

site = site_on(zone_nodes({"a": MEMBERS}, cpu="16", prefix="n"), {})


def job(name: str, site: Stage, *gates: str) -> Object:
    """The example with eight pods."""
    spec = EXAMPLE["spec"]
    labels = {"pod-group.scheduling.sigs.k8s.io/name": name, "pod-group.scheduling.sigs.k8s.io/min-available": "8"}
    pod = {**spec["template"]["spec"], "schedulingGates": [{"name": gate} for gate in gates]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    sized = {"completions": MEMBERS, "parallelism": MEMBERS, "template": template}
    return {**EXAMPLE, "metadata": {"name": name, "namespace": site.namespace}, "spec": {**spec, **sized}}


async def refusals(site: Stage) -> tuple[Counter[str], set[str]]:
    """Job → how often kube-scheduler said of one of its pods that it was not placed; and netgang's reasons in them."""
    events = await site.api.list_all("Event", namespace=site.namespace, api_version="events.k8s.io/v1")
    found: Counter[str] = Counter()
    reasons: set[str] = set()
    for one in events:
        if one["reason"] == "FailedScheduling":
            found[one["regarding"]["name"].rsplit("-", 2)[0]] += (one.get("series") or {}).get("count", 1)
            reasons.update(re.findall(r"netgang: [^.,]*", one["note"]))
    return found, reasons


async def started(site: Stage, *gates: str) -> tuple[Counter[str], set[str]]:
    for name in (f"resnet{number}" for number in range(JOBS)):
        await site.api.create(job(name, site, *gates))
        await site.until_running(name, MEMBERS)  # what kubelets write of the last gang is no event of the next one
    return await refusals(site)


@pytest.mark.timeout(240)
async def test_a_gated_gang_is_never_said_to_have_failed(site: Stage) -> None:
    assert await started(site, GATE) == (Counter(), set())
