"""The gangs that have started as they are kept in netgang's ConfigMap: hashes of members, in a signed JSON text.

One hash of eight bytes for each noted member, over its gang's name and its uid: a gang of the same name with other pods
is another one, and a pod that is labelled into another gang proves nothing there. uids are the API server's, so no
tenant can choose a pod that has a hash of the list. Bounds: 11 characters a member in at most `MOST_TEXT`, so 47,000
members: 8 of each of 5,900 gangs, fewer of each where there are more gangs, and one of each of 47,000.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from extender.notes import NoteKind, NoteReader
from extender.notes.signed_text import FORMAT, MOST_TEXT, Document, document_of
from extender.ports import StoredText
from scoring.ids import GangKey, PodUid

CHARS: Final = 11  # Of a hash
MOST_NOTED: Final = (MOST_TEXT - 64) // CHARS  # Members


class _Document(Document):
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
    return msgspec.json.encode(_Document(FORMAT, "".join(marks))).decode()


def marks_of(stored: StoredText, notes: NoteReader) -> frozenset[str]:
    """The marks in it. ValueError: it is too long, not signed by netgang, or no such document."""
    found = document_of(NoteKind.STARTED_GANGS, stored, notes, _DECODER)
    members = found.members if found is not None else ""
    return frozenset(members[begin : begin + CHARS] for begin in range(0, len(members), CHARS))
