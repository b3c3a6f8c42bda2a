"""The name that was probably meant, for texts that tenants write: "did you mean …?"."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

_LIKE: Final = 0.75  # Two letters of a short word in the wrong order are just this
LIKE_VALUE: Final = 0.6  # For values of labels, of which few are known: "sdd" is 0.67 like "ssd"
_CHARS: Final = 128  # Longer ones are not compared: it costs their product


def nearest(name: str, known: Iterable[str], *, like: float = _LIKE) -> str | None:
    """The one of `known` that `name` is most like; `None`: it is like none. Cost: small, and remembered.

    `like`: how much at least, from 0 to 1 (the same), as difflib counts it.

    >>> nearest("nmae", ["name", "min-available"]), nearest("zone", ["zones", "near"]), nearest("x", ["zones"])
    ('name', 'zones', None)
    >>> nearest("sdd", ["ssd", "nvme"]), nearest("sdd", ["ssd", "nvme"], like=LIKE_VALUE)
    (None, 'ssd')
    """
    return _nearest(name, tuple(sorted(known)), like) if len(name) <= _CHARS else None


@lru_cache(maxsize=256)
def _nearest(name: str, known: tuple[str, ...], like: float) -> str | None:
    found = get_close_matches(name, known, n=1, cutoff=like)
    return found[0] if found else None
