"""What users say of a length: annotation `netgang.io/expected-duration`, and `activeDeadlineSeconds` as a limit.

Rules: the text is measured before it is parsed; what is no duration is an error with the accepted form, never a guess.
A limit is the most that a gang can run; without another length it is taken for the length, as batch systems take the
limit that each of their jobs must name, so nothing that is promised by it comes late.
"""

import re
from typing import Final

from scoring.lengths.length import MOST_S, Length, LengthSource, exact

EXPECTED_DURATION: Final = "expected-duration"  # Annotation `netgang.io/expected-duration`, without the prefix
MOST_CHARS: Final = 32  # Longest text of a duration
_UNITS_S: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}  # unit → seconds
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"
_PART: Final = re.compile(rf"({_NUMBER})([dhms])", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_NUMBER}[dhms])+", re.ASCII)
_SECONDS: Final = re.compile(_NUMBER, re.ASCII)


def duration_s(text: str) -> float:
    """Read a duration as Go writes it, with days besides, or a number of seconds. Seconds, at most `MOST_S`.

    Errors: ValueError, to complete "…: TEXT ", if it is none, or not above 0.

    >>> [duration_s(text) for text in ("90m", "1h30m", "1.5h", "2d", "5400", "1h0.5s")]
    [5400.0, 5400.0, 5400.0, 172800.0, 5400.0, 3600.5]
    >>> duration_s("soon")
    Traceback (most recent call last):
    ValueError: is not a duration such as 90m, 1h30m or 5400 (seconds)
    """
    value = text.strip() if len(text) <= MOST_CHARS else ""
    if _SECONDS.fullmatch(value):
        seconds = float(value)
    elif _WHOLE.fullmatch(value):
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(value))
    else:
        raise ValueError("is not a duration such as 90m, 1h30m or 5400 (seconds)")
    if seconds <= 0.0:
        raise ValueError("is not above 0")
    return min(seconds, MOST_S)


def declared_length(expected_s: float | None, limit_s: float | None) -> Length | None:
    """The length that follows from both, each if it is given; seconds above 0.

    >>> declared_length(60.0, None).source.value, declared_length(60.0, 50.0).source.value, declared_length(None, None)
    ('declared', 'limit', None)
    >>> declared_length(60.0, 50.0).at_s(0.5), declared_length(None, 50.0).at_s(0.5)
    (50.0, 50.0)
    """
    if expected_s is None:
        return None if limit_s is None else exact(limit_s, LengthSource.LIMIT)
    length = exact(expected_s, LengthSource.DECLARED)
    return length if limit_s is None else length.cut(limit_s)
