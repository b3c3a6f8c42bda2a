"""How long gangs run, as far as anyone says it: declared by their users, or enforced by a deadline.

A gang that nobody says anything of has no length (`Gang.length_s` is `None`), never a guess. Rules: a duration is
measured before it is parsed, and what is none is an error with the accepted form; a gang that runs on beyond its length
is expected to run for twice as long as that, then for four times, and so on.
"""

import re
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

EXPECTED_DURATION: Final = "expected-duration"  # Annotation `netgang.io/expected-duration`, without the prefix
MOST_S: Final = 10 * 365 * 86_400.0  # Ten years: what is declared is never more
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


def remaining_s(length_s: Floats, ran_s: Floats) -> Floats:
    """How long gangs of these lengths that have run for so long, and still run, go on. All (gangs,), seconds above 0.

    >>> remaining_s(np.full(5, 100.0), np.array([-5.0, 70.0, 99.0, 100.0, 250.0])).tolist()
    [100.0, 30.0, 1.0, 100.0, 150.0]
    """
    ran_s, ends_s = np.maximum(ran_s, 0.0), length_s.copy()
    while (outlived := ends_s <= ran_s).any():
        ends_s[outlived] *= 2.0
    return ends_s - ran_s
