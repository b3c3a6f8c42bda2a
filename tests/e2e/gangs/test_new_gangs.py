"""A healthy gang is never said to have failed while the Job controller still creates its pods."""

import pytest
import yaml

from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL, zone_nodes
from lab.testbed.parts.service import ROOT
from tests.e2e.objects import GATE
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

MEMBERS, JOBS = 8, 6
site = site_on(zone_nodes({"a": MEMBERS}, cpu="16", prefix="new"), {})  # names that the node controller never knew


@pytest.mark.timeout(240)
async def test_a_gated_gang_is_never_said_to_have_failed(site: Stage) -> None:
    text = (ROOT / "examples/gang-job.yaml").read_text()
    for name in (f"resnet{number}" for number in range(JOBS)):
        (job,) = yaml.safe_load_all(text)
        job["metadata"] = {"name": name, "namespace": site.namespace}
        job["spec"] |= {"completions": MEMBERS, "parallelism": MEMBERS}
        job["spec"]["template"]["metadata"] = {"labels": {GROUP_NAME_LABEL: name, MIN_AVAILABLE_LABEL: str(MEMBERS)}}
        job["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]
        await site.api.create(job)
        await site.until_running(name, MEMBERS)  # what kubelets write of the last gang is no event of the next one
    assert await site.events("FailedScheduling") == {}
