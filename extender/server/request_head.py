"""Read the head of a call as kube-scheduler's client sends it, or say that it is something else.

Why: the heads of a scheduler's calls are alike to the byte but for the length of the body, so reading one is mostly
finding it again. Rule: what is read here means the same to every HTTP/1.1 parser. One body of declared length, no word
about the connection but that it is kept, nothing to negotiate; everything else is `None`, and for others to understand.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from extender.server.dispatch import CURL

HEAD_MAX_BYTES: Final = 4096  # Longer heads are not looked at, nor remembered; kube-scheduler's have 200 bytes
_REMEMBERED: Final = 256

_HEAD: Final = re.compile(
    rb"POST (/[a-z]+)(\?debug)? HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n"
)
_CHANGES_MEANING: Final = frozenset({b"transfer-encoding", b"upgrade", b"expect", b"proxy-connection"})
_DIGITS_MAX: Final = 18


class Head(NamedTuple):
    """What the head of a call says."""

    path: str
    marked: bool
    curl: bool
    body_bytes: int


@lru_cache(_REMEMBERED)
def read_head(head: bytes) -> Head | None:
    r"""Read a whole head, its empty line included; `None` if it is not plainly a POST with a body of known length.

    >>> read_head(b"POST /bind?debug HTTP/1.1\r\nContent-Length: 7\r\n\r\n")
    Head(path='/bind', marked=True, curl=False, body_bytes=7)
    >>> read_head(b"POST /bind HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    """
    found = _HEAD.fullmatch(head)
    if found is None:
        return None
    body_bytes, curl = -1, False
    for line in found[3].split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name == b"content-length":
            if body_bytes >= 0 or not value.isdigit() or len(value) > _DIGITS_MAX:
                return None
            body_bytes = int(value)
        elif name == b"user-agent":
            curl = curl or value.startswith(CURL)
        elif name in _CHANGES_MEANING or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
    if body_bytes < 0:
        return None
    return Head(found[1].decode(), found[2] is not None, curl, body_bytes)
