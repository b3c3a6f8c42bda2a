"""The gang's labels on the Job instead of its pod template: half of it does not start, on a real control plane."""

import time
from functools import partial

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL, gang_labels, zone_nodes
from tests.e2e.objects import indexed_job, not_scheduled
from tests.e2e.site import site_on
from tests.e2e.stage import Stage, document, say

site = site_on(zone_nodes({"a": 2, "b": 2, "c": 2}, cpu="1500m", prefix="n"), {})


def job_of(stage: Stage, name: str, **metadata: object) -> Object:
    made = indexed_job(name, stage.namespace, 4, gated=False)
    made["spec"]["template"]["metadata"]["labels"] = {"app": name}
    made["metadata"].update(metadata)
    return made


async def starts(stage: Stage, name: str, began_s: float) -> float:
    await stage.until_bound(name, 4)
    return time.monotonic() - began_s


@pytest.mark.timeout(200)
async def test_half_a_job_does_not_start_alone(site: Stage) -> None:
    began_s = time.monotonic()
    await site.api.create(job_of(site, "plain"))
    say(f"a plain Job of 4 has its nodes after {await starts(site, 'plain', began_s):.1f} s")
    await site.end_job("plain")

    await site.api.create(job_of(site, "train", labels=gang_labels("train", 4)))
    advice = "move the labels to spec.template.metadata.labels, and create the Job again"
    told = partial(site.events, "ProbableMistake", kind="Job")
    await site.api.until(told, lambda found: advice in found.get("train", ""), what="the Job has the Event")

    def refused(found: list[Object]) -> bool:
        return len(found) == 4 and all("are missing, bad or contradict" in (not_scheduled(one) or "") for one in found)

    await site.until_pods(refused, "all four are refused", begin="train")
    assert await site.bound("train") == {}
    assert any(advice in note for note in (await site.events("ProbableMistake")).values()), "a pod has it, too"
    assert advice in (await document(site.service, f"/v1/explain/{site.namespace}/train"))["detail"]

    began_s = time.monotonic()
    removed = {"metadata": {"labels": {GROUP_NAME_LABEL: None, MIN_AVAILABLE_LABEL: None}}}
    await site.api.patch("Job", "train", removed, namespace=site.namespace)
    say(f"corrected, it has its nodes after {await starts(site, 'train', began_s):.1f} s")
