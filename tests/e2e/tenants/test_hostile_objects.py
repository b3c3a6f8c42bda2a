"""No tenant's object stops netgang: not one that starts beside it, and not one that runs (docs/safety.md S21)."""

from functools import partial
from typing import Any

from lab.testbed.api import Object
from lab.testbed.objects import pod_group, zone_nodes
from tests.e2e.stage import Stage, document, metric

DIGITS = "1" * 1_000_000
HOSTILE: dict[str, dict[str, Any]] = {  # name of the PodGroup → its minResources
    "digits": {"cpu": DIGITS},
    "digits-of-a-unit": {"memory": DIGITS + "Ki"},
    "fraction": {"cpu": "0." + DIGITS},
    "exponent": {"cpu": "1e" + "9" * 1000},
    "resources": {f"example.com/r{number}": 1 for number in range(20_000)},
}
SIZE = 3


def group(namespace: str, name: str, least: dict[str, Any]) -> Object:
    made = pod_group(name, 1, namespace=namespace)
    made["spec"]["minResources"] = least
    return made


async def starts(stage: Stage, name: str) -> None:
    await stage.create_gang(name, SIZE)
    await stage.end(*await stage.until_bound(name, SIZE, limit_s=20.0))


async def test_pod_groups_that_cannot_be_read_stop_nobody(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    first, *later = HOSTILE
    await stage.api.create(group(stage.namespace, first, HOSTILE[first]))
    netgang = await stage.netgang()
    await starts(stage, "fresh")
    for name in later:
        await stage.api.create(group(stage.namespace, name, HOSTILE[name]))
    [waits] = stage.gang("waits", 1)
    waits["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": first}
    await stage.api.create(waits)
    await starts(stage, "running")
    await stage.until_events("Unreadable", lambda found: found.keys() == set(HOSTILE))
    notes = [one for one in (await stage.explain(netgang, first))["notes"] if "cannot be read and is left out" in one]
    assert notes[0].startswith(f"PodGroup {stage.namespace}/{first} cannot be read and is left out: ")
    ready = await document(netgang, "/readyz")
    assert ready["ready"], ready["reasons"]
    sync = ready["detail"]["sync"]["podgroups"]
    assert (sync["relists"], sync["errors"], sync["unreadable_now"]) == (1, 0, len(HOSTILE))
    count = partial(metric, netgang, "netgang_unreadable_objects", kind="podgroups")
    await stage.api.until(count, lambda found: found == len(HOSTILE), what="all are counted")
    await stage.api.delete("PodGroup", first, namespace=stage.namespace)
    await stage.api.create(group(stage.namespace, first, {"cpu": "1"}))
    await stage.until_bound(waits["metadata"]["name"], 1, limit_s=20.0)
