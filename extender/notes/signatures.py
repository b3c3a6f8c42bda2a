"""Sign and check one note, and the keys by which that is done.

Written: the content, a space, `hmac1.KEY.MAC`. The MAC is HMAC-SHA256 over version, kind of note, the carrying object's
namespace and uid, and the content, so a copy on another object, or under another annotation, is worth nothing. The
length is looked at first and the MAC before anything is parsed; what is wrong is a `Flaw`, and the note is absent.
A key's name is a time: all replicas must have read it before a note is signed with it. Cost: 3 µs for a note.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

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


MOST_CHARS: Final = 4096  # Longest annotation that is read as a note, signature included; a longer one is never written
_SCHEME: Final = "hmac1"
_MAC_CHARS: Final = 43


class NoteKind(StrEnum):
    """What a note is for; the value is the annotation that holds it."""

    ADMITTED = "netgang.io/admitted"  # On a pod: the node that was planned when its gate was removed
    STARTED_GANGS = "netgang.io/started-gangs"  # On netgang's own ConfigMap with the gangs that have started
    PREEMPTS = "netgang.io/preempts"  # On pods of a waiting gang: room that is kept for it while others leave
    RESUME = "netgang.io/resume"  # On an owner of pods: netgang has suspended it, and will resume it
    RESTARTS = "netgang.io/restarts"  # On an owner of pods: when its gang was restarted
    ATTAINED = "netgang.io/attained"  # On an owner of pods: what its gang had of the cluster before it was suspended
    FORMER_RUNS = "netgang.io/former-runs"  # On netgang's own ConfigMap with the former runs of jobs
    LAST_CHANGE = "netgang.io/last-change"  # On a job: the last change of its worker count


class Flaw(StrEnum):
    """Why a note is ignored; the value completes "it …"."""

    TOO_LONG = "is longer than 4096 characters"
    UNSIGNED = "has no signature"
    UNKNOWN_KEY = "is signed with a key that is not in netgang's Secret"
    FORGED = "was not written by netgang for this object, or was changed since"


@dataclass(frozen=True, slots=True)
class Bearer:
    """The object that carries a note; `namespace` and `uid` are signed, the rest is for people."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class NoteReader(Protocol):
    """Reads notes; one of another's making reads none."""

    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        """The content of a note on this very object; `None`: it is not one of ours."""


class Notes:
    """The notes of one process; `ring` is replaced when there are other keys."""

    def __init__(self, ring: KeyRing, *, problem: str = "") -> None:
        self.ring = ring
        self.problem = problem  # Why a successor will not have the key: nothing is started then that only a note ends
        self.on_ignored: Callable[[NoteKind, Bearer, Flaw], None] = lambda *_: None
        """Called for each note that is ignored, each time that it is read; must only take note."""

    @classmethod
    def in_memory(cls, random_bytes: RandomBytes) -> "Notes":
        """With a key that ends with the process, for a cluster that does so, too."""
        return cls(KeyRing([Key.new(0.0, random_bytes)], now_s=0.0))

    def write(self, kind: NoteKind, bearer: Bearer, content: str) -> str:
        """The annotation's value. ValueError: it would be too long to be read again."""
        key = self.ring.signer
        text = f"{content} {_SCHEME}.{key.name}.{_mac(key, kind, bearer, content)}"
        if len(text) > MOST_CHARS:
            raise ValueError(f"note {kind} is longer than {MOST_CHARS} characters")
        return text

    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        """The content of a note that we wrote on this very object; `None`: it is ignored. Empty ones are none."""
        if not text:
            return None
        found = self._checked(kind, bearer, text)
        if isinstance(found, Flaw):
            self.on_ignored(kind, bearer, found)
            return None
        return found

    def _checked(self, kind: NoteKind, bearer: Bearer, text: str) -> "str | Flaw":
        if len(text) > MOST_CHARS:
            return Flaw.TOO_LONG
        content, _, tail = text.rpartition(" ")
        scheme, _, named = tail.partition(".")
        name, _, mac = named.partition(".")
        if scheme != _SCHEME or not mac:
            return Flaw.UNSIGNED
        key = self.ring.by_name.get(name)
        if key is None:
            return Flaw.UNKNOWN_KEY
        # Compared as bytes: of texts, `compare_digest` takes ASCII only.
        right = hmac.compare_digest(_mac(key, kind, bearer, content).encode(), mac.encode("utf-8", "surrogatepass"))
        return content if right else Flaw.FORGED


class UncheckedNotes:
    """Reads notes without a look at their signature: for what is explained from a file and never acted on."""

    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        """The content, whatever wrote it.

        >>> UncheckedNotes().read(NoteKind.ADMITTED, Bearer("v1", "Pod", "a", "p", "u"), "n1 hmac1.20260101000000.x")
        'n1'
        """
        return text.rpartition(" ")[0] or None if len(text) <= MOST_CHARS else None


class _NoNotes:
    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        return None


NO_NOTES: Final[NoteReader] = _NoNotes()  # Reads none: for callers to which notes do not matter


def _mac(key: Key, kind: NoteKind, bearer: Bearer, content: str) -> str:
    # Names and uids have no NUL, so the parts cannot be shifted against each other.
    signed = "\0".join((_SCHEME, kind, bearer.namespace, bearer.uid, content))
    digest = hmac.digest(key.secret, signed.encode("utf-8", "surrogatepass"), "sha256")
    return urlsafe_b64encode(digest)[:_MAC_CHARS].decode()
