"""The gangs that have started as they are kept in netgang's ConfigMap: hashes of members, in a signed JSON text.

One hash of eight bytes for each noted member, over its gang's name and its uid: a gang of the same name with other pods
is another one, and a pod that is labelled into another gang proves nothing there. uids are the API server's, so no
tenant can choose a pod that has a hash of the list. Bounds: 11 characters a member in at most `MOST_TEXT`, so 47,000
members: 8 of each of 5,900 gangs, fewer of each where there are more gangs, and one of each of 47,000.

Rule (docs/safety.md S21, S22): the text is measured and its signature is checked before it is parsed; the signature is
a note with the text's SHA-256, so it is worth nothing on another object or for another text. What is wrong is a
`ValueError` that says so in words for people, and then nothing in it counts.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import Final

import msgspec

from extender.notes import Bearer, NoteKind, NoteReader, Notes
from extender.ports import StoredText
from scoring.ids import GangKey, PodUid

MOST_TEXT: Final = 512 * 1024  # Characters; a ConfigMap has at most 1 MiB in all
CHARS: Final = 11  # Of a hash
MOST_NOTED: Final = (MOST_TEXT - 64) // CHARS  # Members


class _Document(msgspec.Struct):
    members: str


_DECODER: Final = msgspec.json.Decoder(_Document)


def mark(gang: GangKey, uid: PodUid) -> str:
    """What stands for this member of this gang.

    >>> len(mark(GangKey("team/g"), PodUid("u"))) == CHARS
    True
    >>> mark(GangKey("team/g"), PodUid("u")) == mark(GangKey("team/h"), PodUid("u"))
    False
    """
    digest = blake2b(f"{gang}\0{uid}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return urlsafe_b64encode(digest)[:CHARS].decode()


def written(marks: Iterable[str]) -> str:
    """The text with these marks, each of `CHARS` characters."""
    return msgspec.json.encode(_Document("".join(marks))).decode()


def marks_of(stored: StoredText, notes: NoteReader) -> frozenset[str]:
    """The marks in it. ValueError: it is too long, not signed by netgang, or no such document."""
    if not stored.text:
        return frozenset()
    if len(stored.text) > MOST_TEXT:
        raise ValueError(f"it is longer than {MOST_TEXT} characters")
    if notes.read(NoteKind.STARTED_GANGS, _bearer(stored), stored.note) != _digest(stored.text):
        raise ValueError("it was not written by netgang, or was changed since")
    try:
        members = _DECODER.decode(stored.text).members
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    return frozenset(members[begin : begin + CHARS] for begin in range(0, len(members), CHARS))


def signed(text: str, over: StoredText, notes: Notes) -> str:
    """The note that goes with the text on this very ConfigMap."""
    return notes.write(NoteKind.STARTED_GANGS, _bearer(over), _digest(text))


def _bearer(stored: StoredText) -> Bearer:
    namespace, _, name = stored.place.partition("/")
    return Bearer("v1", "ConfigMap", namespace, name, stored.uid)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
