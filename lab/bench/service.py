"""The real service on a cluster of 5,000 nodes with a live plan and a measured mesh, for `lab.bench.http`.

Nothing is a stand-in but the API server, which is not asked here: the verbs find the pod's gang in the plan, and its
siblings and their links in the network matrix.
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace
from starlette.types import ASGIApp

from extender import bootstrap
from extender.convert import pod_from_json
from extender.convert.clusterfile import ClusterFile
from extender.settings.settings import Settings
from lab.bench import bed
from lab.bench.http import pod_json
from scoring.ids import gang_key
from scoring.model import GangSource, GroupRef, Node, Pod

NODES = 5000
ZONES = 40
OTHER_GANGS = 100


def create_app() -> ASGIApp:
    """The app of a service that has planned: the asked pod's gang of four, and a hundred others."""
    listed = bed.nodes(NODES, zones=ZONES, cpu=64)
    service = bootstrap.in_memory(Settings(scheduler_names=("netgang",)), _cluster(listed))
    service.cache.set_network(bed.mesh(listed, measured_per_zone=30))
    asyncio.run(service.planner.run_once())
    asked = service.planner.current.admitted[gang_key("team-a", "resnet")]
    assert len(asked.members) == 4
    return service.app


def _cluster(listed: Sequence[Node]) -> ClusterFile:
    others = [member for i in range(OTHER_GANGS) for member in bed.gang(f"w{i:03d}", 10, cpu=8).members]
    return ClusterFile([*listed], [*_asked_gang(), *others])


def _asked_gang() -> list[Pod]:
    """The pod of the requests and three siblings, in the zone whose nodes every request names."""
    asked = pod_from_json(pod_json())
    group = GroupRef(gang_key(asked.namespace, "resnet"), GangSource.LABELS, 4)
    first = replace(asked, group=group, scheduler_name="netgang", node=None, options=(("zones", "zone-00"),))
    siblings = [replace(first, uid=f"sibling-{i}", name=f"resnet-worker-{i}") for i in range(3)]
    return [first, *siblings]
