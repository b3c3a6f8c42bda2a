"""The gangs that have started as they are kept in netgang's ConfigMap: hashes of members, one behind the other.

One hash of eight bytes for each noted member, over its gang's name and its uid: a gang of the same name with other pods
is another one, and a pod that is labelled into another gang proves nothing there. uids are the API server's, so no
tenant can choose a pod that has a hash of the list, and none may write ConfigMaps of netgang's namespace. Bounds: 11
characters a member in at most `MOST_TEXT`, so 47,000 members: 8 of each of 5,900 gangs, fewer of each where there are
more gangs, and one of each of 47,000.
"""

from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Final

from scoring.ids import GangKey, PodUid

MOST_TEXT: Final = 512 * 1024  # Characters; a ConfigMap has at most 1 MiB in all
CHARS: Final = 11  # Of a hash
MOST_NOTED: Final = MOST_TEXT // CHARS  # Members


def mark(gang: GangKey, uid: PodUid) -> str:
    """What stands for this member of this gang.

    >>> len(mark(GangKey("team/g"), PodUid("u"))) == CHARS
    True
    >>> mark(GangKey("team/g"), PodUid("u")) == mark(GangKey("team/h"), PodUid("u"))
    False
    """
    digest = blake2b(f"{gang}\0{uid}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return urlsafe_b64encode(digest)[:CHARS].decode()


def marks_of(text: str) -> frozenset[str]:
    """The marks in it. ValueError: it is too long."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"it is longer than {MOST_TEXT} characters")
    return frozenset(text[begin : begin + CHARS] for begin in range(0, len(text), CHARS))
