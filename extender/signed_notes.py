"""Notes: what netgang writes on tenants' objects for its own successor, signed so that no other client can write one.

Rule (docs/safety.md S22): a note is believed only with an HMAC by a key of ours over what kind of note it is, the
object that carries it and its content; all others are ignored, counted, reported. None names anything in another
namespace. Written: the content, a space, `hmac1.MAC`. The length is looked at first and the MAC before anything is
parsed. Cost: 3 µs for a note.
"""

import hmac
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from extender.errors import ConfigError

MOST_CHARS: Final = 4096  # Longest annotation that is read as a note, signature included; a longer one is never written
_SCHEME: Final = "hmac1"
_SEALED: Final = "probe"
KEY_FILE: Final = "key"
LEAST_BYTES: Final = 16
_log = logging.getLogger(__name__)


class NoteKind(StrEnum):
    """What a note is for; the value is the annotation that holds it."""

    ADMITTED = "netgang.io/admitted"  # On a pod: the node that was planned when its gate was removed
    PREEMPTS = "netgang.io/preempts"  # On pods of a waiting gang: room that is kept for it while others leave
    RESUME = "netgang.io/resume"  # On an owner of pods: netgang has suspended it, and will resume it
    RESTARTS = "netgang.io/restarts"  # On an owner of pods: when its gang was restarted
    ATTAINED = "netgang.io/attained"  # On an owner of pods: what its gang had of the cluster before it was suspended
    LAST_CHANGE = "netgang.io/last-change"  # On a job: the last change of its worker count


class Flaw(StrEnum):
    """Why a note is ignored; the value completes "it …"."""

    TOO_LONG = "is longer than 4096 characters"
    UNSIGNED = "has no signature"
    FORGED = "was not written by netgang for this object, was changed since, or is signed with a key that is gone"


class Bearer(msgspec.Struct, frozen=True):
    """The object that carries a note; `namespace` and `uid` are signed, the rest is for people."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class NoteReader:
    """Reads notes; this one none, for callers to which notes do not matter."""

    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        """The content of a note on this very object; `None`: it is not one of ours."""
        return None


NO_NOTES: Final = NoteReader()


class Notes(NoteReader):
    """The notes of one process: `key` signs, and notes that were signed with the former one are read."""

    def __init__(self, key: bytes, former_key: bytes | None = None, *, problem: str = "") -> None:
        self._keys = (key,) if former_key is None else (key, former_key)
        self.problem = problem  # Why a successor will not have the key: nothing is started then that only a note ends
        self.on_ignored: Callable[[NoteKind, Bearer, Flaw], None] = lambda *_: None  # Each time; must only take note

    def write(self, kind: NoteKind, bearer: Bearer, content: str) -> str:
        """The annotation's value. ValueError: it would be too long to be read again."""
        text = f"{content} {_SCHEME}.{_mac(self._keys[0], kind, bearer.namespace, bearer.uid, content)}"
        if len(text) > MOST_CHARS:
            raise ValueError(f"note {kind} is longer than {MOST_CHARS} characters")
        return text

    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        """The content of a note that we wrote on this very object; `None`: it is ignored. Empty ones are none."""
        if not text:
            return None
        flaw = Flaw.TOO_LONG
        if len(text) <= MOST_CHARS:
            content, _, tail = text.rpartition(" ")
            scheme, _, mac = tail.partition(".")
            given = mac.encode("utf-8", "surrogatepass")  # Of texts, `compare_digest` takes ASCII only
            flaw = Flaw.FORGED if scheme == _SCHEME and mac else Flaw.UNSIGNED
            for key in self._keys if flaw is Flaw.FORGED else ():
                if hmac.compare_digest(_mac(key, kind, bearer.namespace, bearer.uid, content).encode(), given):
                    return content
        self.on_ignored(kind, bearer, flaw)
        return None

    def seal(self, node: str, content: str) -> str:
        """What the probe's agent of a node keeps for the next leader."""
        return f"{content} {_mac(self._keys[0], _SEALED, node, content)}"

    def unseal(self, node: str, text: str) -> str | None:
        """The content; `None`: no key of ours signed it for this node."""
        content, _, mac = text.rpartition(" ")
        given = mac.encode("utf-8", "surrogatepass")
        ours = any(hmac.compare_digest(_mac(key, _SEALED, node, content).encode(), given) for key in self._keys)
        return content if ours else None


class UncheckedNotes(NoteReader):
    """Reads notes without a look at their signature: for what is explained from a file and never acted on."""

    def read(self, kind: NoteKind, bearer: Bearer, text: str) -> str | None:
        """The content, whatever wrote it."""
        return text.rpartition(" ")[0] or None if len(text) <= MOST_CHARS else None


def _mac(key: bytes, *parts: str) -> str:
    # Names and uids have no NUL, so the parts cannot be shifted against each other.
    signed = "\0".join((_SCHEME, *parts))
    digest = hmac.digest(key, signed.encode("utf-8", "surrogatepass"), "sha256")
    return urlsafe_b64encode(digest)[:43].decode()


def notes_of(directory: Path) -> Notes:
    """Signed with the keys in a mounted Secret, else with one that the process forgets. ConfigError: it is no key."""
    key = _key_in(directory / KEY_FILE)
    if key is None:
        problem = f"there is no key in {directory / KEY_FILE}: mount a Secret with one (docs/reference/objects.md)"
        _log.warning("notes do not outlive this process, so no gang is suspended and no job resized: %s", problem)
        return Notes(secrets.token_bytes(32), problem=problem)
    return Notes(key, _key_in(directory / "former-key"))


def _key_in(file: Path) -> bytes | None:
    try:
        key = file.read_bytes().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"note_keys_dir: {file} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_BYTES:
        raise ConfigError(f"note_keys_dir: {file} must hold at least {LEAST_BYTES} bytes that cannot be guessed")
    return key
