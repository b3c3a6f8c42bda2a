"""Long works share the turns of the loop: one slice in each, first come, first served, and nobody is forgotten."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from weakref import ref

import pytest

from extender.runtime.slices import in_slices, next_slice


class _Turns:
    """Counts the turns of the running loop."""

    def __init__(self) -> None:
        self.now = 0
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.now += 1
        self._next = self._loop.call_soon(self._turn)

    def stop(self) -> None:
        self._next.cancel()


async def _work(name: str, slices: int, seen: list[tuple[str, int]], turns: _Turns) -> None:
    for _ in range(slices):
        await next_slice()
        seen.append((name, turns.now))


async def test_one_slice_in_a_turn_of_the_loop() -> None:
    """However many works there are."""
    turns, seen = _Turns(), list[tuple[str, int]]()
    await asyncio.gather(*(_work(name, slices, seen, turns) for name, slices in [("a", 5), ("b", 3), ("c", 7)]))
    turns.stop()
    assert Counter(name for name, _ in seen) == {"a": 5, "b": 3, "c": 7}
    assert max(Counter(turn for _, turn in seen).values()) == 1


async def test_first_come_first_served() -> None:
    """In the order in which they asked, round and round."""
    turns, seen = _Turns(), list[tuple[str, int]]()
    await asyncio.gather(*(_work(name, 3, seen, turns) for name in "abc"))
    turns.stop()
    assert "".join(name for name, _ in seen) == "abcabcabc"


async def test_a_work_that_is_given_up_does_not_hold_up_the_others() -> None:
    """A cancelled task keeps no place."""
    turns, seen = _Turns(), list[tuple[str, int]]()
    works = [asyncio.create_task(_work(name, 2, seen, turns)) for name in "abc"]
    await asyncio.sleep(0)  # all wait by now
    works[0].cancel()
    await asyncio.wait(works)
    turns.stop()
    assert "".join(name for name, _ in seen) == "bcbc"


async def test_alone_a_work_goes_on_without_delay() -> None:
    """Every other turn is its own."""
    turns, seen = _Turns(), list[tuple[str, int]]()
    await _work("a", 4, seen, turns)
    turns.stop()
    between = [later - sooner for (_, sooner), (_, later) in pairwise(seen)]
    assert max(between) <= 2


async def test_a_later_work_starts_after_the_line_was_empty() -> None:
    """The line begins to move again."""
    turns, seen = _Turns(), list[tuple[str, int]]()
    await _work("a", 1, seen, turns)
    for _ in range(5):
        await asyncio.sleep(0)
    await asyncio.wait_for(_work("b", 1, seen, turns), 1.0)
    turns.stop()
    assert [name for name, _ in seen] == ["a", "b"]


async def test_errors_of_a_work_are_its_own() -> None:
    """They reach who asked for it, and no other."""

    def steps(error: Exception | None) -> Iterator[None]:
        yield
        if error is not None:
            raise error
        return "made"

    with pytest.raises(ValueError, match="broken"):
        await in_slices(steps(ValueError("broken")))
    assert await in_slices(steps(None)) == "made"


def test_a_loop_that_ended_is_forgotten() -> None:
    """Also one that ended while works waited for their slices."""

    async def leave_two_waiting() -> None:
        works = [asyncio.create_task(next_slice()) for _ in range(3)]
        await works[0]

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_two_waiting())
    loop.close()
    gone = ref(loop)
    del loop
    gc.collect()
    assert gone() is None
