"""Decode what the API server sends, however deep tenants nest what they write.

Why: objects of kinds that others define hold fields of free form, and the API server takes 10,000 levels of nesting;
a decoder that calls itself for each level gives up after some hundred, with an error that concerns the whole page or
the whole watch. Rule (docs/safety.md S21): then, and only then, whatever begins below `LEVELS` is replaced by null, and
the rest is read; no field that we read lies half as deep.
"""

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

LEVELS: Final = 100
"""Of a page of objects, or of a watch event; a pod inside has about 15."""
_MARK: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body; errors are those of msgspec."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(shallow(body))


def shallow(body: bytes, *, levels: int = LEVELS) -> bytes:
    """The JSON with null for each list and object below `levels` of nesting. Cost: linear, a pass in Python.

    >>> shallow(b'{"a": [1, [2, [3]]], "b": "]]["}', levels=2)
    b'{"a": [1, null], "b": "]]["}'
    """
    kept: list[bytes] = []
    depth = begin = 0
    for found in _MARK.finditer(body):
        if found[1] in b"[{":
            depth += 1
            if depth == levels + 1:
                kept += body[begin : found.start(1)], b"null"
        else:
            if depth == levels + 1:
                begin = found.end()
            depth -= 1
    if depth <= levels:
        kept.append(body[begin:])
    return b"".join(kept)
