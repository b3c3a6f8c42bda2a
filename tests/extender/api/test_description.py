"""/openapi.json and /docs: complete, true, and without a byte from the internet."""

import re

import pytest

from tests.extender.api.asking import asking
from tests.extender.scheduling.world import node_json, running

pytestmark = pytest.mark.looptime


async def test_the_verbs_are_described_and_their_examples_are_answered() -> None:
    """What OpenAPI gives as an example is a body that the verb understands, and the answer has that form."""
    async with running(node_json("node28"), node_json("node33")) as world, asking(world) as client:
        document = (await client.get("/openapi.json")).json()
        for verb in ("filter", "prioritize", "bind"):
            described = document["paths"][f"/{verb}"]["post"]
            request = described["requestBody"]["content"]["application/json"]["example"]
            shown = described["responses"]["200"]["content"]["application/json"]["example"]
            answer = await client.post(f"/{verb}", json=request)
            assert answer.status_code == 200
            found = answer.json()
            assert "malformed" not in str(found), found
            assert type(found) is type(shown)
            if isinstance(found, dict):
                assert found.keys() == shown.keys()
    for name in ("ExtenderArgs", "ExtenderFilterResult", "HostPriority", "ExtenderBindingArgs"):
        assert name in document["components"]["schemas"]


async def test_the_description_needs_no_internet() -> None:
    async with running() as world, asking(world) as client:
        page = (await client.get("/docs")).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(loaded) == 3
        for address in loaded:
            assert (await client.get(address)).status_code == 200, address
