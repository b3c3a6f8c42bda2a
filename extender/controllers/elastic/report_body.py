"""Read the body of a report: one point, or several.

Why so strict: reports come from other people's programs and end in decisions about worker counts; a NaN, a step that
goes back or a clock in milliseconds would be a wrong curve that no person notices. Rules: a report is taken whole or
not at all; a mistake is a BadRequestError that begins with the field. Pure: the time of now is an argument.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from extender.errors import BadRequestError
from scoring.scaling.series import Point

MOST_POINTS: Final = 256  # Points of one report
AHEAD_S: Final = 60.0  # How much a job's clock may be ahead of ours
BEHIND_S: Final = 7 * 86400.0  # How old a point may be
LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    # field of a point → the smallest and the largest number it may be
    "step": (0, 2**53),
    "loss": (-1e30, 1e30),
    "samples_per_second": (0, 1e15),
    "accuracy": (0, 1),
    "workers": (0, 100_000),
}
_FIELDS: Final = (*LIMITS, "time")
_WHOLE: Final = frozenset({"step", "workers"})


class Report(msgspec.Struct, frozen=True):
    """Points by ascending step, and whether the process restarted: its reports from their first step on are void."""

    points: tuple[Point, ...]
    restarted: bool = False


def read_report(body: bytes, *, now_s: float, workers: int | None = None) -> Report:
    """Read a point, a list of points, `{"points": […], "restarted": …}`.

    `workers` counts where a point says none. Errors: BadRequestError, whose text begins with the field.

    >>> read_report(b'{"step": 7, "loss": 0.5}', now_s=100.0).points[0].time_s
    100.0
    >>> read_report(b'[{"step": 7, "loss": NaN}]', now_s=100.0)
    Traceback (most recent call last):
    extender.errors.BadRequestError: points[0].loss: must be a number from -1e+30 to 1e+30, not nan
    """
    try:
        document = json.loads(body)  # NaN and infinities, which many programs write, become numbers to refuse
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"body: no JSON: {error}") from error
    given, beside = _parts(document)
    restarted = beside.get("restarted", False)
    if not isinstance(restarted, bool):
        raise BadRequestError("restarted: must be true or false")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_POINTS:
        count = len(given) if isinstance(given, list) else "something else"
        raise BadRequestError(f"points: must be a list of 1 to {MOST_POINTS} points, not {count}")
    points = tuple(_read_point(one, f"points[{i}]", now_s=now_s, workers=workers) for i, one in enumerate(given))
    for i, (one, other) in enumerate(pairwise(points), start=1):
        if other.step <= one.step:
            raise BadRequestError(f"points[{i}].step: {other.step} is not above {one.step}, the one before")
        if "time" not in given[i]:
            raise BadRequestError(f"points[{i}].time: must be given where there are several points")
    return Report(points, restarted)


def _parts(document: Any) -> tuple[Any, Mapping[str, Any]]:
    """What stands for the points, and what stands beside them."""
    match document:
        case {"points": points}:
            if unknown := document.keys() - {"points", "restarted"}:
                raise BadRequestError(f"{min(unknown)}: no such field beside points; there is restarted")
            return points, document
        case dict():
            return [{key: value for key, value in document.items() if key != "restarted"}], document
        case _:
            return document, {}


def _read_point(given: Any, where: str, *, now_s: float, workers: int | None) -> Point:
    """One point, of which people would speak as `where`. Errors: BadRequestError, whose text begins with the field."""
    if not isinstance(given, dict):
        raise BadRequestError(f"{where}: must be an object with step, time and loss")
    if unknown := given.keys() - set(_FIELDS):
        raise BadRequestError(f"{where}.{min(unknown)}: no such field; there are {', '.join(_FIELDS)}")
    step = _number(given, "step", where)
    loss = _number(given, "loss", where)
    if step is None or loss is None:
        raise BadRequestError(f"{where}.{'step' if step is None else 'loss'}: must be given")
    speed, accuracy = (_number(given, field, where) for field in ("samples_per_second", "accuracy"))
    reported = _number(given, "workers", where)
    return Point(
        step=int(step),
        time_s=_time_s(given.get("time"), where, now_s=now_s),
        loss=float(loss),
        samples_per_second=float(speed) if speed is not None else None,
        accuracy=float(accuracy) if accuracy is not None else None,
        workers=workers if reported is None else int(reported),
    )


def _number(given: Mapping[str, Any], field: str, where: str) -> float | None:
    value = given.get(field)
    if value is None:
        return None
    low, high = LIMITS[field]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = field not in _WHOLE or isinstance(value, int) or (number and value.is_integer())
    if not number or not low <= value <= high or not whole:
        kind = "whole number" if field in _WHOLE else "number"
        shown = repr(value)[:40]
        raise BadRequestError(f"{where}.{field}: must be a {kind} from {low:g} to {high:g}, not {shown}")
    return value  # type: ignore[no-any-return]


def _time_s(value: Any, where: str, *, now_s: float) -> float:
    """Unix seconds near now; those of now if nothing is said."""
    if value is None:
        return now_s
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not now_s - BEHIND_S <= value <= now_s + AHEAD_S:
        shown = repr(value)[:40]
        raise BadRequestError(
            f"{where}.time: must be Unix seconds, at most {BEHIND_S / 86400.0:g} days ago and {AHEAD_S:g} s ahead of "
            f"netgang's clock ({now_s:.0f}), not {shown}"
        )
    return float(value)
