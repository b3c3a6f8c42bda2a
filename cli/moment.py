"""Moments on the command line."""

from datetime import UTC, datetime
from math import isfinite

from extender.errors import ConfigError
from extender.runtime.clock import SystemClock


def moment_s(text: str | None) -> float:
    """Unix seconds, or a time of day with date, in UTC unless it says otherwise; `None`: now. Errors: ConfigError.

    >>> moment_s("60"), moment_s("1970-01-01T00:01:00Z")
    (60.0, 60.0)
    """
    if text is None:
        return SystemClock().now_s()
    try:
        found = float(text)
    except ValueError:
        pass
    else:
        if isfinite(found):
            return found
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--now: {text!r} is neither Unix seconds nor a time such as 2026-01-31T12:00:00Z") from error
    return moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=UTC).timestamp()
