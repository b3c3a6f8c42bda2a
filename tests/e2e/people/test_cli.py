"""People ask netgang through a real API server and a kubelet's port-forward, by `netgang` and by `kubectl netgang`."""

import json
from pathlib import Path

from lab.testbed.cluster import INSTALLED_IN
from lab.testbed.parts.forward import pod_of
from tests.e2e.person import person
from tests.e2e.stage import Stage


async def test_people_ask_through_the_api_server(stage: Stage, tmp_path: Path) -> None:
    """With the installed rights and no others."""
    running = await stage.netgang(on={"a": 1}, cpu="4")
    await stage.create_gang("g", 2, cpu="3")
    ann = await person(stage.cluster, tmp_path, namespace=stage.namespace)
    await stage.api.until(lambda: stage.waiting(running), bool, what="the gang is in the queue")
    async with pod_of(stage.cluster, stage.api, running):
        said = await ann.netgang("queue", "--context", "site", code=1)
        assert f'cannot list resource "pods" in API group "" in the namespace "{INSTALLED_IN}"' in said
        await ann.granted("netgang-port-forward")
        found = json.loads(await ann.netgang("queue", "--context", "site", "--json", "-n", stage.namespace))
        assert [one["gang"] for one in found["gangs"]] == [f"{stage.namespace}/g"]
        assert "would not fit into the empty cluster" in await ann.plugin("explain", "g")
        assert "g  waiting  gone" in await ann.plugin("what-if", "--remove-job", f"{stage.namespace}/g")
        completed = await ann.says(ann.kubectl, "__complete", "netgang", "expl")
        assert completed.startswith("explain\tSay why a gang is where it is")
        await ann.granted("netgang-service-proxy")
        refused = await ann.netgang("queue", "--through", "service-proxy", code=1)
        assert 'services "netgang" not found' in refused
