"""README's demonstration does what README says: the same files, the same requests, the whole service in one process."""

import asyncio

import pytest

from tests.contract.docs.demonstration import BEST, demonstration


async def test_prioritize_prefers_them_too() -> None:
    async with demonstration() as demo:
        listed = await demo.ask("prioritize", "prioritize-case1.json")
    scores = {one["Host"]: one["Score"] for one in listed}
    assert len(scores) == 36
    assert min(scores[node] for node in BEST) > max(score for node, score in scores.items() if node not in BEST)


async def test_case1_gets_the_papers_six_nodes_once_the_sixth_bind_has_come() -> None:
    async with demonstration() as demo:
        answers = [await demo.ask("filter", "filter-case1.json", index=index) for index in range(6)]
        nodes = [node for answer in answers for node in answer["NodeNames"]]
        assert (len(nodes), set(nodes)) == (6, BEST)
        calls = [asyncio.create_task(demo.bind(index, nodes[index])) for index in range(5)]
        answered, held = await asyncio.wait(calls, timeout=0.2)
        assert (len(answered), len(held), demo.service.binds.held_count) == (0, 5, 5)
        assert demo.nodes_of_case1() == {None}
        assert [await demo.bind(5, nodes[5]), *await asyncio.gather(*calls)] == [{"Error": ""}] * 6
        assert demo.nodes_of_case1() == BEST


@pytest.mark.parametrize("request_file", ["filter-tf-smoke-gpu.json", "filter-tf-smoke-gpu-ps.json"])
async def test_a_gang_without_room_waits_whole(request_file: str) -> None:
    async with demonstration() as demo:
        answer = await demo.ask("filter", request_file)
        explained = (await demo.client.get("/v1/explain/demo/tf-smoke-gpu")).json()
    assert answer["NodeNames"] == []
    assert set(answer["FailedAndUnresolvableNodes"].values()) == {explained["reason"]}
    assert len(answer["FailedAndUnresolvableNodes"]) == 36
