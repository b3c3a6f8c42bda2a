"""Read JSON that tenants write, however long it is and however deep they nest it (docs/safety.md S21).

The decoder gives up after some hundred levels with RecursionError, and the API server takes 10,000 in kinds that others
define. Rules: then whatever begins below `LEVELS` is replaced by null and the rest is read; no field that we read lies
half as deep. An annotation is measured before it is parsed, and whatever cannot be read in it is a ValueError.
"""

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

LEVELS: Final = 100  # Of a page of objects, or of a watch event; a pod inside has about 15
NOTE_CHARS: Final = 4096  # Longest annotation that is read as JSON
NOTE_LEVELS: Final = 8  # Deepest nesting in one; ours have two levels
_MARK: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode what the API server sent; errors are those of msgspec."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(shallow(body))


def shallow(body: bytes, *, levels: int = LEVELS) -> bytes:
    """The JSON with null for each list and object below `levels` of nesting. Cost: linear, a pass in Python."""
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


def note_from_json(decoder: msgspec.json.Decoder[T], text: object, *, what: str, most_chars: int = NOTE_CHARS) -> T:
    """Read the JSON in an annotation. ValueError, with `what` it was meant to be: it is no text, or not such a one."""
    if not isinstance(text, str):
        raise ValueError(f"{what}: not a text")
    if len(text) > most_chars:
        raise ValueError(f"{what}: longer than {most_chars} characters")
    try:
        raw = text.encode()
        if shallow(raw, levels=NOTE_LEVELS) != raw:
            raise ValueError(f"{what}: nested more than {NOTE_LEVELS} levels deep")
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(f"{what}: {error}") from error
