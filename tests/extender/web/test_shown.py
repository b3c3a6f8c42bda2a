"""What the page shows: worked out once for all that look, not too often, and nothing while no page asks."""

import asyncio
from collections.abc import Mapping

import pytest

from extender.web.routes import Shown

pytestmark = pytest.mark.looptime


class Cluster:
    def __init__(self) -> None:
        self.sections, self.version, self.looks = {"queue": b"1", "zones": b"1"}, 1, 0
        self.shown = Shown(self._look, lambda: self.version)

    def change(self, **sections: bytes) -> None:
        self.sections |= sections
        self.version += 1

    async def _look(self) -> Mapping[str, bytes]:
        self.looks += 1
        return dict(self.sections)


async def test_a_change_is_seen_within_a_second() -> None:
    cluster = Cluster()
    assert await cluster.shown.look() == (b'{"queue":1,"zones":1}', '"1"')
    cluster.change(zones=b"2")
    await asyncio.sleep(1.0)
    assert await cluster.shown.look() == (b'{"queue":1,"zones":2}', '"2"')
    cluster.change(zones=b"2")
    await asyncio.sleep(1.0)
    assert (await cluster.shown.look())[1] == '"2"', "what is the same has the same tag"


async def test_many_pages_cost_one_look() -> None:
    cluster = Cluster()
    answers = await asyncio.gather(*(cluster.shown.look() for _ in range(50)))
    assert (cluster.looks, len(set(answers))) == (1, 1)
    for _ in range(10):
        cluster.change()
        await cluster.shown.look()
    assert cluster.looks == 1, "not more often than once a second"


async def test_without_news_and_without_pages_nothing_is_worked_out() -> None:
    cluster = Cluster()
    await asyncio.sleep(60.0)
    assert cluster.looks == 0
    for _ in range(10):
        await cluster.shown.look()
        await asyncio.sleep(2.0)
    assert cluster.looks == 1
