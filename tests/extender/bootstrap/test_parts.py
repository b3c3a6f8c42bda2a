"""Counts that others keep become metrics, each once; what the probe is told of gangs; who stands for election.

The slowest call of a service is over within its bound.
"""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender import bootstrap
from extender.bootstrap.common import candidacy
from extender.bootstrap.controllers import nodes_of_gangs
from extender.bootstrap.serve import configs
from extender.bootstrap.service import Reporting
from extender.errors import ApiUnavailableError
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.network.mapping import map_nodes
from extender.ports import Binding, EndpointInfo, SystemClock
from extender.runtime.telemetry import Telemetry
from extender.schemas import Source, SourcesStatus, Watch
from extender.settings.network import NetworkSettings
from extender.settings.settings import MARGIN_S, Settings, longest_bind_s
from scoring import EndpointId
from scoring.network.matrix import Metric, PairCounts
from tests.builders import bound, gang, node, pod, snapshot
from tests.extender.scheduling.world import node_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi

CLUSTER = Path(__file__).parents[3] / "examples/snapshot/paper-testbed.json"
NEWS = Watch(**dict[str, Any](dict.fromkeys(Watch.__struct_fields__, 0), contact_age_s=None))  # it has just started
UNKNOWN: dict[str, Any] = dict.fromkeys(SourcesStatus.__struct_fields__)
NETWORK = SourcesStatus(**UNKNOWN | {"sources": (), "pairs": {Metric.DELAY: PairCounts(2, 0, 0)}})


def test_what_came_since_the_last_look_is_added_and_what_is_there_now_is_shown() -> None:
    ends = [EndpointInfo(EndpointId(end), ("c",)) for end in ("a", "x", "y")]
    mapping = map_nodes([node(name) for name in ("a", "b", "c")], ends, NetworkSettings()).document()
    telemetry, sync, network = Telemetry(), NEWS, NETWORK
    reporting = Reporting(telemetry, sync=lambda: {"pods": sync}, network=lambda: network)
    for errors, success_s, failures in ((1, 10.0, 0), (3, 10.0, 1), (3, 99.0, 0)):
        sync = replace(NEWS, errors=errors, unreadable_now=1, contact_age_s=7.0)
        sources = (Source("file", last_success_s=success_s, failures=failures),)
        network = replace(NETWORK, sources=sources, mapping=mapping)
        reporting.collect()

    def counted(name: str, **labels: str) -> float | None:
        return telemetry.registry.get_sample_value(f"netgang_{name}", labels)

    assert counted("watch_errors_total", kind="pods") == 3.0
    assert (counted("unreadable_objects", kind="pods"), counted("watch_contact_age_seconds", kind="pods")) == (1.0, 7.0)
    assert counted("network_fetches_total", source="file", outcome="success") == 2.0
    assert counted("network_fetches_total", source="file", outcome="error") == 1.0
    assert counted("network_pairs", metric="delay", state="fresh") == 2.0
    nodes = [counted("network_nodes", metric="loss", state=state) for state in ("mapped", "unmapped", "ambiguous")]
    assert nodes == [1.0, 1.0, 1.0]


def test_gangs_of_others_count_for_bursts_alone_and_waiting_ones_name_zones_or_all() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="c")]
    running = gang("runs", members=[bound(pod("r"), "n1")])
    foreign = replace(gang("foreign", members=[bound(pod("f"), "n2")]), own=False)
    cluster = snapshot(nodes, gangs=[running, foreign, gang("waits", 1, options={"zones": "b, c"})])
    assert nodes_of_gangs(cluster) == {"n1"}
    assert nodes_of_gangs(cluster, foreign=True) == {"n1", "n2"}


@pytest.mark.parametrize(("host", "health"), [("127.0.0.1", "0.0.0.0"), ("10.0.0.7", "10.0.0.7")])
async def test_the_kubelet_reaches_the_health_port(host: str, health: str) -> None:
    settings = Settings(snapshot=CLUSTER, host=host, health_port=0)
    async with bootstrap.embedded(settings) as service:
        hosts = {name: config.host for name, config in configs(settings, service)}
    assert hosts == {"port": host, "health_port": health}


SERVER = ApiServer(url="http://127.0.0.1:1", authorization=Authorization(lambda: Token(""), clock=SystemClock()))
SIZE = 40  # more than have a turn at a time
IN_A_POD = {"POD_NAME": "netgang-7", "POD_NAMESPACE": "team"}


@pytest.mark.parametrize(
    ("pod", "environment"), [("netgang-7", IN_A_POD), ("", {"POD_NAME": "x"})], ids=["in a pod", "in none"]
)
async def test_an_identity_is_of_one_process(pod: str, environment: Mapping[str, str]) -> None:
    """The pod's name, else the machine's, and something new each time: a restarted container is another candidate."""
    settings, seen = Settings(leader_election=True), set()
    for seed in range(3):
        async with candidacy(settings, SERVER, random.Random(seed), environment=environment, host="box") as stands:
            assert stands is not None
            assert stands.pod == pod
            assert stands.election.identity.startswith(f"{pod or 'box'}_")
            seen.add(stands.election.identity)
    assert len(seen) == 3
    async with candidacy(Settings(), SERVER, random.Random(0), environment=environment, host="box") as stands:
        assert stands is None, "there is no election"


class Hanging(FakeClusterApi):
    """Answers no Binding, as a client whose API server hangs: it gives up after six seconds."""

    async def bind(self, binding: Binding) -> None:
        await asyncio.sleep(6.0)
        raise ApiUnavailableError("no answer")


@pytest.mark.looptime
@pytest.mark.parametrize(("hold_s", "commit_s", "http_s"), [(25.0, 15.0, 60.0), (8.0, 5.0, 20.0)])
async def test_the_slowest_call_ends_within_its_bound(hold_s: float, commit_s: float, http_s: float) -> None:
    limits: dict[str, Any] = {"hold_limit_s": hold_s, "commit_timeout_s": commit_s}
    async with unfinished(node_json("n1", cpu="64"), api=Hanging(), **limits) as world:
        names = world.gang("g", SIZE)
        await world.planned_pod("plain")
        world.filter("plain")
        calls = [*world.bind_offered(*names[:-1]), world.bind("plain", "n1")]
        took_s: dict[str, float] = {}
        for call in calls:
            call.task.add_done_callback(lambda _, call=call: took_s.setdefault(call.pod, world.now_s - call.began_s))  # type: ignore[misc]
        await world.settle(hold_s - 0.1)
        world.bind_offered(names[-1])
        await world.settle(http_s)
        assert len(took_s) == SIZE
        assert hold_s < max(took_s.values()) <= longest_bind_s(hold_s=hold_s, commit_s=commit_s) - MARGIN_S < http_s
