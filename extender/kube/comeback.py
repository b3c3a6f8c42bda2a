"""Wake all that wait for the API server when it answers again.

Each kind waits on its own after failures, so the last of ten would come back up to half a minute after the first. Rule:
the first one that hears from the API server wakes the others, a little apart. The first still waits its whole backoff,
so many processes that lost the API server together do not come back together.
"""

import asyncio
import random

_APART_S = 0.5
"""Those that are woken ask again within this time."""


class Comeback:
    """Shared by all that follow one API server. Bounded by them."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def heard(self) -> None:
        """The API server answered one of them. Costs nothing while none waits."""
        if not self._waiting:
            return
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
        self._waiting.clear()

    async def wait(self, longest_s: float, *, rng: random.Random) -> None:
        """Return after `longest_s`, or up to half a second after another one heard from the API server."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + longest_s
        heard: asyncio.Future[None] = loop.create_future()
        self._waiting.add(heard)
        try:
            async with asyncio.timeout(longest_s):
                await heard
        except TimeoutError:
            return
        finally:
            self._waiting.discard(heard)
        await asyncio.sleep(min(rng.uniform(0.0, _APART_S), max(0.0, ends_s - loop.time())))
