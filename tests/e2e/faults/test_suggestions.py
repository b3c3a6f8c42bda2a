"""What explain suggests of a gang's own pods is true on a real control plane: a gang that asks for less starts."""

from typing import Any

from lab.testbed.api import Object
from tests.e2e.stage import Stage


async def test_a_gang_that_asks_for_less_starts(stage: Stage) -> None:
    """One without the label that no node has, one with the smaller request; both wait as they were first."""
    netgang = await stage.netgang(on={"a": 2}, cpu="8")
    picky = stage.gang("picky", 1, cpu="1")
    for one in picky:
        one["spec"]["nodeSelector"] = {"disk": "sdd"}
    await stage.api.create_all(picky)
    assert (await suggested(stage, netgang, "picky", "ignore-node-label"))["key"] == "disk"
    await stage.create_gang("free", 1, cpu="1")
    await stage.until_bound("free", 1)
    await stage.create_gang("large", 2, cpu="10")
    less = await suggested(stage, netgang, "large", "lower-request")
    assert (less["resource"], less["asked"], less["to"]) == ("cpu", "10", "7")
    await stage.create_gang("smaller", 2, cpu=less["to"])
    await stage.until_bound("smaller", 2)
    assert not await stage.bound("large")


async def suggested(stage: Stage, netgang: Any, gang: str, kind: str) -> Object:
    """The change of that kind, once it is offered."""
    path = f"/v1/explain/{stage.namespace}/{gang}"

    def offered(explained: Object) -> list[Object]:
        found = explained["would_help"] or {"suggestions": []}
        return [change for one in found["suggestions"] for change in one["changes"] if change["change"] == kind]

    return offered(await stage.until_document(netgang, path, lambda one: bool(offered(one)), f"{gang}: {kind}"))[0]
