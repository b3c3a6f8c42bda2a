"""README's demonstration does what README says: the same files, the same requests, the whole service in one process."""

import asyncio

from tests.contract.docs.demonstration import demonstration

BEST = {"node28", "node29", "node30", "node31", "node32", "node36"}
"""What the network paper's scheduler chose in its test case I: zone D without the three impaired nodes."""


async def test_case1_gets_the_papers_six_nodes_once_the_sixth_bind_has_come() -> None:
    async with demonstration() as demo:
        scores = {one["Host"]: one["Score"] for one in await demo.ask("prioritize", "prioritize-case1.json")}
        assert len(scores) == 36
        assert min(scores[node] for node in BEST) > max(score for node, score in scores.items() if node not in BEST)
        answers = [await demo.ask("filter", "filter-case1.json", index=index) for index in range(6)]
        nodes = [node for answer in answers for node in answer["NodeNames"]]
        assert (len(nodes), set(nodes)) == (6, BEST)

        async def bind(index: int) -> object:
            return await demo.ask("bind", "bind-case1.json", index=index, Node=nodes[index])

        calls = [asyncio.create_task(bind(index)) for index in range(5)]
        answered, held = await asyncio.wait(calls, timeout=0.2)
        assert (len(answered), len(held), demo.service.binds.held_count) == (0, 5, 5)
        assert demo.nodes_of_case1() == {None}
        assert [await bind(5), *await asyncio.gather(*calls)] == [{"Error": ""}] * 6
        assert demo.nodes_of_case1() == BEST
