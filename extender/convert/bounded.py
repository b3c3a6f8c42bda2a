"""Read texts that tenants write: within bounds, and with one kind of error.

Why: a user that may create a pod writes its annotations, up to 256 KiB of them, and some of these texts are read as
JSON. A decoder answers nesting beyond the interpreter's limit with RecursionError, and a long text costs time each time
that it is read. Rule (docs/safety.md S21): a text is measured before it is parsed, and whatever cannot be read is a
ValueError, so that a reader needs one `except` and no text ends anything else.
"""

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

NOTE_CHARS: Final = 4096
"""Longest annotation that is read as JSON."""
NOTE_LEVELS: Final = 8
"""Deepest nesting in one; ours have two levels."""

_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def levels(text: str) -> int:
    """How deep lists and objects are nested in a JSON text; of one that is no JSON, at least how deep a decoder goes.

    >>> levels('{"a": [[1], [2]]}'), levels('"[[["'), levels("7"), levels("[[[")
    (3, 0, 0, 3)
    """
    deepest = depth = 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest


def note_from_json(decoder: msgspec.json.Decoder[T], text: object, *, what: str, most_chars: int = NOTE_CHARS) -> T:
    """Read the JSON in an annotation. ValueError, with `what` it was meant to be: it is no text, or not such a one.

    >>> note_from_json(msgspec.json.Decoder(list[int]), "[1, 2]", what="note")
    [1, 2]
    >>> note_from_json(msgspec.json.Decoder(), "[" * 4000, what="note")
    Traceback (most recent call last):
    ...
    ValueError: note: nested more than 8 levels deep
    """
    if not isinstance(text, str):
        raise ValueError(f"{what}: not a text")
    if len(text) > most_chars:
        raise ValueError(f"{what}: longer than {most_chars} characters")
    if levels(text) > NOTE_LEVELS:
        raise ValueError(f"{what}: nested more than {NOTE_LEVELS} levels deep")
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(f"{what}: {error}") from error
