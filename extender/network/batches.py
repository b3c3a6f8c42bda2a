"""What all sources put into their batches, in the same words, and where large ones are worked on."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender.errors import NetworkSourceError
from extender.ports import EndpointInfo
from scoring.ids import EndpointId
from scoring.network.measurement import METRICS, Ints

DUPLICATE: Final = "duplicate"
FUTURE_TIME: Final = "future_time"
NEGATIVE_DELAY: Final = "negative_delay"
NO_VALUE: Final = "no_value"
OUT_OF_RANGE: Final = "out_of_range"
NEGATIVE_DELAYS_SAID: Final = "some one-way delays are negative (clocks differ): they are used as 0"
TOLERANCE_S: Final = 60.0  # Closer clocks are taken for equal: answers take time, and MaDDash counts in seconds
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # Of msgspec, for another document
_MAX_PROBLEMS: Final = 20
_INLINE_ITEMS: Final = 5000  # Up to this many values are handled on the event loop (about 10 ms), more in a thread
_T = TypeVar("_T")


async def off_loop(size: int, work: Callable[[], _T]) -> _T:
    """Do `work` over `size` values at once, or in a thread where it would hold the event loop up."""
    return work() if size <= _INLINE_ITEMS else await asyncio.to_thread(work)


def decoded(decoder: msgspec.json.Decoder[_T], body: bytes | bytearray | memoryview | msgspec.Raw, what: str) -> _T:
    """The document in `body`. Errors: NetworkSourceError, `what` is wrong and why."""
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise NetworkSourceError(f"{what}: {error}") from error


def bounded(problems: Sequence[str], *, most: int = _MAX_PROBLEMS) -> tuple[str, ...]:
    """The first problems, and how many more there are."""
    more = len(problems) - most
    return tuple(problems) if more <= 0 else (*problems[:most], f"and {more} more")


def row_keys(metric: NDArray[Any], source: NDArray[Any], target: NDArray[Any], *, of: int) -> Ints:
    """A number for each row, the same for rows of the same pair and metric; the ends are numbers below `of`."""
    return np.asarray((source.astype(np.int64) * of + target) * len(METRICS) + metric, np.int64)


def merged(described: Iterable[EndpointInfo]) -> tuple[EndpointInfo, ...]:
    """Each endpoint once, by id, with the other names that any description gives it, in their order."""
    aliases: dict[EndpointId, dict[str, None]] = {}
    for one in described:
        aliases.setdefault(one.id, {}).update(dict.fromkeys(one.aliases))
    return tuple(EndpointInfo(one, tuple(n for n in names if n != one)) for one, names in sorted(aliases.items()))
