"""How much is taken at once, and when to ask again: slices of the event loop, pages of a list, the end of an outage.

By bytes as well as by objects, as tenants may write 1.5 MiB into one. Rule: what is asked for next follows from the
size of what came last, so that no list is longer than memory, or than the loop can wait.
"""

import asyncio
import random
from typing import Final

_SLICE_OBJECTS: Final = 50
_SLICE_BYTES: Final = 256 * 1024  # about 1 ms of decoding; a slice ends at whichever comes first
_APART_S: Final = 0.5  # Those that are woken ask again within this time
_PAGE_BYTES: Final = 8 * 1024 * 1024  # about 10 ms to find where each object on it begins and ends


class Slice:
    """Says when the event loop must be given back: by objects and bytes, so that it needs no clock."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._objects = self._bytes = 0

    def ends(self, raw: bytes) -> bool:
        """Count one object; true when the slice is full, and the next one begins."""
        self._objects += 1
        self._bytes += len(raw)
        if self._objects < _SLICE_OBJECTS and self._bytes < _SLICE_BYTES:
            return False
        self._objects = self._bytes = 0
        return True


class PageSize:
    """How many objects to ask for."""

    __slots__ = ("_most", "objects")

    def __init__(self, most: int) -> None:
        self._most = most
        self.objects = most

    def came(self, size_bytes: int) -> None:
        """A page of as many objects had so many bytes.

        >>> page = PageSize(500)
        >>> page.came(80 * 1024 * 1024), page.objects
        (None, 50)
        >>> page.came(1000), page.objects
        (None, 100)
        """
        if size_bytes > _PAGE_BYTES:
            self.objects = max(self.objects * _PAGE_BYTES // size_bytes, 1)
        elif size_bytes < _PAGE_BYTES // 4:
            self.objects = min(self.objects * 2, self._most)

    def too_long(self) -> bool:
        """A page of as many objects was too long to be read; whether fewer can be asked for.

        >>> page = PageSize(500)
        >>> page.too_long(), page.objects
        (True, 62)
        """
        if self.objects == 1:
            return False
        self.objects = max(self.objects // 8, 1)
        return True


class Comeback:
    """Wakes all that wait for the API server when it answers again; shared by them and bounded by their number.

    Each kind waits on its own after failures, so the last of ten would come back up to half a minute after the first.
    The first still waits its whole backoff: many processes that lost the API server do not come back together.
    """

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
