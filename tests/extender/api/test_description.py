"""/docs is shown without a byte from the internet."""

import re

import pytest

from tests.extender.api.asking import asking
from tests.extender.scheduling.world import running

pytestmark = pytest.mark.looptime


async def test_the_description_needs_no_internet() -> None:
    async with running() as world, asking(world) as client:
        page = (await client.get("/docs")).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(loaded) == 3
        for address in loaded:
            assert (await client.get(address)).status_code == 200, address
