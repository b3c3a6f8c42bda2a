"""/prioritize: whole numbers from 0 to 10 for people and kube-scheduler alike, always of the present."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from extender.errors import BadRequestError
from tests.builders import mesh
from tests.extender.scheduling.world import World, args_of, node_json, pod_json, running

pytestmark = pytest.mark.looptime

NODES = [node_json(name) for name in ("n1", "n2", "n3")]
BAD_N3 = mesh(["n1", "n2", "n3"], bad={"n3": {"delay_ms": 60.0, "throughput_bps": 1e6}})
BAD_N1 = mesh(["n1", "n2", "n3"], bad={"n1": {"delay_ms": 60.0, "throughput_bps": 1e6}})


async def test_scores_follow_the_network() -> None:
    async with running(*NODES) as world:
        world.gang("g", 2, cpu="9")
        world.set_network(replace(BAD_N3, version=1))
        await world.settle()
        before = world.scores("g-0")
        assert world.scores("g-0") == before
        world.set_network(replace(BAD_N1, version=2))
        after = world.scores("g-0")
        assert before["n3"] < before["n1"]
        assert after["n1"] < after["n3"]
        assert {before["n3"], before["n1"]} == {after["n1"], after["n3"]}
        assert all(type(score) is int and 0 <= score <= 10 for score in before.values())
        await world.planned_pod("plain")
        args = world.asking("plain", nodes=["n9", "n2", "n9"])
        assert list(world.service.verbs.prioritize(args)) == [0, 10, 0], "unknown nodes score nothing"


def asked(world: World, pod: dict[str, Any], *nodes: dict[str, Any]) -> dict[str, int]:
    names = [one["metadata"]["name"] for one in nodes]
    args = args_of(pod, nodes=names, nodes_json=list(map(msgspec.json.encode, nodes)))
    return dict(zip(args.node_names, world.service.verbs.prioritize(args), strict=True))


@pytest.mark.parametrize("known", [0, 2], ids=["no other", "beside those of the cluster"])
async def test_nodes_of_the_request_are_scored_by_the_mesh(known: int) -> None:
    async with running(*NODES[:known]) as world:
        world.set_network(BAD_N3)
        pod = pod_json("p", annotations={"netgang.io/near": "a"})
        scores = asked(world, pod, *NODES)
        assert scores["n3"] < scores["n1"] == scores["n2"]
        assert asked(world, pod, *NODES[:2]) == {"n1": 10, "n2": 10}


async def test_the_zone_label_of_the_settings_counts_for_them_too() -> None:
    nodes = [node_json(name, zone="same") for name in ("n1", "n2", "n3", "n4")]
    for node, rack in zip(nodes, ("r1", "r1", "r2", "r2"), strict=True):
        node["metadata"]["labels"]["rack"] = rack
    matrix = mesh(["n1", "n2", "n3", "n4"], bad={"n3": {"delay_ms": 60.0}, "n4": {"delay_ms": 60.0}})
    async with running(zone_label="rack") as world:
        world.set_network(matrix)
        scores = asked(world, pod_json("p", annotations={"netgang.io/near": "r1"}), *nodes)
        assert scores["n1"] == scores["n2"] == 10
        assert scores["n3"] == scores["n4"] < 10


async def test_a_node_of_the_request_that_cannot_be_read_is_the_callers_mistake() -> None:
    async with running() as world:
        with pytest.raises(BadRequestError, match="allocatable: cpu"):
            asked(world, pod_json("p"), node_json("n1", cpu="plenty"))


async def test_two_pods_that_only_requests_know_are_not_mixed_up() -> None:
    async with running(*NODES) as world:
        world.set_network(BAD_N3)
        await world.settle()
        plain = args_of(pod_json("p"), nodes=["n1", "n3"])
        asking = args_of(pod_json("p", annotations={"netgang.io/near": "a"}), nodes=["n1", "n3"])
        assert list(world.service.verbs.prioritize(plain)) == [10, 10]
        assert world.service.verbs.prioritize(asking)[1] < 10
        assert list(world.service.verbs.prioritize(plain)) == [10, 10]


async def test_scores_of_many_pods_are_kept_in_bounds() -> None:
    async with running(*NODES) as world:
        world.set_network(BAD_N3)
        for number in range(70):
            await world.planned_pod(f"p-{number}", annotations={"netgang.io/near": "a"} if number % 2 else None)
        for _ in range(2):
            for number in range(70):
                assert (world.scores(f"p-{number}")["n3"] < 10) is bool(number % 2)
