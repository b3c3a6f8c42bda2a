"""The keys by which notes are signed and checked: their names, which one signs, when another is due. Pure.

A name is a time, because all replicas must know how old a key is, and must have read it before the first note is signed
with it. Rules: all keys check, the newest that has settled signs; another each `ROTATED_S`, the newest `KEPT` stay.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

KEPT: Final = 4
MOST_READ: Final = 8  # Keys that are read from it: an operator may have put some in
ROTATED_S: Final = 30 * 86_400.0
SETTLES_S: Final = 180.0  # From a key's time until it signs: replicas read the Secret once a minute
KEY_BYTES: Final = 32
LEAST_BYTES: Final = 16  # A shorter one, by an operator, is not used
_NAME: Final = re.compile(r"\d{14}")
_FORMAT: Final = "%Y%m%d%H%M%S"

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """A secret and its name."""

    name: str  # When it was made, UTC: `YYYYMMDDhhmmss`
    secret: bytes

    @property
    def made_s(self) -> float:
        """Unix seconds."""
        return datetime.strptime(self.name, _FORMAT).replace(tzinfo=UTC).timestamp()

    @classmethod
    def new(cls, now_s: float, random_bytes: RandomBytes) -> "Key":
        """Another one.

        >>> Key.new(1_700_000_000.0, lambda count: b"x" * count).name
        '20231114221320'
        """
        return cls(datetime.fromtimestamp(now_s, UTC).strftime(_FORMAT), random_bytes(KEY_BYTES))


def keys_of(data: Mapping[str, bytes]) -> tuple[Key, ...]:
    """The keys in a Secret's data, oldest first; entries that are none are left out.

    >>> some = {"20260102030405": b"k" * 32, "20260102030406": b"short", "note": b"k" * 32, "20269902030405": b"k" * 32}
    >>> [key.name for key in keys_of(some)]
    ['20260102030405']
    """
    keys = [Key(name, secret) for name, secret in sorted(data.items()) if len(secret) >= LEAST_BYTES and _is_name(name)]
    return tuple(keys[-MOST_READ:])


def _is_name(text: str) -> bool:
    if not (text.isascii() and _NAME.fullmatch(text)):
        return False
    try:
        datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


class KeyRing:
    """Keys by name, and the one that signs."""

    __slots__ = ("by_name", "signer")

    def __init__(self, keys: Iterable[Key], *, now_s: float) -> None:
        """`keys`: at least one. The newest that has settled signs; before any has, the oldest."""
        self.by_name = {key.name: key for key in sorted(keys, key=lambda one: one.name)}
        settled = [key for key in self.by_name.values() if key.made_s + SETTLES_S <= now_s]
        self.signer = settled[-1] if settled else next(iter(self.by_name.values()))

    @property
    def keys(self) -> tuple[Key, ...]:
        """All of them, oldest first."""
        return tuple(self.by_name.values())


def renewed(keys: tuple[Key, ...], *, now_s: float, random_bytes: RandomBytes) -> tuple[Key, ...]:
    """The keys as they should be kept, oldest first: another one when the newest is old, and not too many.

    >>> made = renewed((), now_s=0.0, random_bytes=lambda count: b"x" * count)
    >>> [key.name for key in made], renewed(made, now_s=9.0, random_bytes=lambda count: b"y") == made
    (['19700101000000'], True)
    >>> len(renewed(made, now_s=ROTATED_S, random_bytes=lambda count: b"y" * count))
    2
    """
    if any(now_s - key.made_s < ROTATED_S for key in keys):
        return keys
    return (*keys, Key.new(now_s, random_bytes))[-KEPT:]
