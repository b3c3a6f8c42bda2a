"""Let netgang choose: the whole service, over a saved cluster of the bed's nodes and a mesh file of what was measured.

Nothing of the choice is here. The service's own source reads the file, its own planner plans a gang of six pods of
which one fits on a node; the plan is read off as kube-scheduler would get it.
"""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from extender import bootstrap
from extender.bootstrap.serve import running
from extender.settings.settings import Settings
from lab.bench.testbed.cases import WANTED
from lab.bench.testbed.commands import BedError
from lab.bench.testbed.nodes import NODES, address
from lab.bench.testbed.probes import Measured
from lab.testbed.objects import gang_pods, node
from scoring.model.gang import gang_key

_LIMIT_S: Final = 30.0
_NAMESPACE: Final = "bed"
_GANG: Final = "training"
_ZONE: Final = "D"


def cluster(nodes: tuple[str, ...] = NODES) -> dict[str, Any]:
    """What `kubectl get nodes,pods -o json` would print: equal nodes of one zone, and a gang of six that waits."""
    listed = [node(one, cpu="2", memory="4Gi", pods=10, zone=_ZONE) for one in nodes]
    for one in listed:
        one["status"]["addresses"] = [{"type": "InternalIP", "address": address(one["metadata"]["name"])}]
    pods = gang_pods(_GANG, WANTED, min_available=WANTED, namespace=_NAMESPACE, cpu="2", scheduler="netgang")
    for one in pods:
        one["status"] = {"phase": "Pending"}
    for one in (*listed, *pods):
        stored = {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        one["metadata"] |= {"uid": one["metadata"]["name"], **stored}
    return {"apiVersion": "v1", "kind": "List", "items": [*listed, *pods]}


def chosen(measured: Measured) -> tuple[str, ...]:
    """The six nodes, in the order of the gang's members. Errors: BedError if there is no plan."""
    with TemporaryDirectory(prefix="netgang-testbed-") as folder:
        snapshot = Path(folder) / "cluster.json"
        snapshot.write_text(json.dumps(cluster(tuple(sorted({source for source, _ in measured})))))
        mesh = Path(folder) / "mesh.json"
        mesh.write_text(json.dumps(links(measured)))
        source = {"kind": "file", "path": str(mesh)}
        settings = Settings.load(None, {"snapshot": snapshot, "network": {"sources": [source]}})
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(_planned(settings))


def links(measured: Measured) -> list[dict[str, Any]]:
    """What a mesh file says of each directed pair; a probe that got no value has none."""
    return [
        {"source": source, "target": target}
        | {name: value for name, value in msgspec.to_builtins(link).items() if value is not None}
        for (source, target), link in measured.items()
    ]


async def _planned(settings: Settings) -> tuple[str, ...]:
    gang = gang_key(_NAMESPACE, _GANG)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[str, ...]] = loop.create_future()
    async with running(bootstrap.embedded(settings)) as service:

        def look(made: Any) -> None:
            found = made.admitted.get(gang)
            if made.network_version and found is not None and not answer.done():
                answer.set_result(tuple(str(node) for _, node in sorted(found.members.items())))

        service.planner.subscribe(look)
        look(service.planner.current)
        try:
            async with asyncio.timeout(_LIMIT_S):
                return await answer
        except TimeoutError as error:
            raise BedError(f"netgang made no plan with the measurements within {_LIMIT_S:g} s") from error
