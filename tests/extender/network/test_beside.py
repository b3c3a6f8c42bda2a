"""Work that may block, in a thread of its own: its result, its errors, and its defects reach what waits."""

import asyncio
import threading
from typing import Any

import pytest

from extender.network.sources.beside import beside
from tests.liveness import LIVENESS_S


class Refused(Exception):
    """An error that the work is known to have."""


def refuse() -> None:
    """Fail as expected."""
    raise Refused("no")


def stumble() -> None:
    """Fail as nobody expects."""
    raise ZeroDivisionError


async def test_the_result_and_known_errors_arrive() -> None:
    """Both are the future's, as of a call."""
    assert await beside(lambda: 7, errors=Refused) == 7
    with pytest.raises(Refused, match="no"):
        await beside(refuse, errors=Refused)


async def test_a_defect_is_shown_and_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback is that of any thread that fails, and what waits hears of it."""
    seen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    with pytest.raises(RuntimeError, match="ended by a defect"):
        await asyncio.wait_for(beside(stumble, errors=Refused), LIVENESS_S)
    for thread in threading.enumerate():
        if thread.name == "beside":
            thread.join(LIVENESS_S)
    assert [one.exc_type for one in seen] == [ZeroDivisionError]


async def test_work_that_hangs_holds_nobody_up() -> None:
    """Who waits may stop waiting; the result comes too late for them and harms nobody."""
    gate = threading.Event()
    future = beside(gate.wait, errors=Refused)
    done, _ = await asyncio.wait([future], timeout=0.01)
    assert not done
    future.cancel()
    gate.set()
    assert await beside(lambda: "next", errors=Refused) == "next"
