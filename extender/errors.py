"""What the outside world can do to us, and how long we wait before we try again.

An expected "no" is a value (`scoring.model.reasons`), never an exception.
"""

import random

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # Of msgspec, for another document


class NetgangError(Exception):
    """Base of all of them."""


class ConfigError(NetgangError):
    """Settings cannot be used, so the process does not start; the text names the field and the accepted values."""


class BadRequestError(NetgangError):
    """A request cannot be read; the text says what is wrong with it, and goes back to the caller."""


class ApiError(NetgangError):
    """The API server answered with a failure."""

    def __init__(self, status: int, message: str, *, retry_after_s: float | None = None, body: bytes = b"") -> None:
        super().__init__(f"API server answered {status}: {message}")
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s
        self.body = body


class GoneError(ApiError):
    """410: the resourceVersion is too old; list again."""


class ConflictError(ApiError):
    """409: the object changed or exists; read it again, then decide again; never repeat blindly."""


class NotFoundError(ApiError):
    """404: the object, or its kind, does not exist."""


class ApiUnavailableError(NetgangError):
    """No answer came: whether the request took effect is not known."""


class NotAnnouncedError(ApiUnavailableError):
    """The Event that announces an act was not confirmed in time, so the act was not started; try again later."""


class NotOursError(NetgangError):
    """A decision would have taken away a pod that is not ours (docs/safety.md S1): nothing was done."""


class TooLongError(ApiUnavailableError):
    """The answer is longer than we take, so it was not read to its end: ask for less."""


class NetworkSourceError(NetgangError):
    """A source of measurements failed; the last good data stays and ages."""


class Backoff(msgspec.Struct, frozen=True):
    """First and longest delay, seconds."""

    first_s: float
    limit_s: float

    def whole_s(self, failures: int) -> float:
        """The longest delay after the `failures`-th failure in a row, for works that need no spreading.

        >>> [Backoff(1.0, 600.0).whole_s(failures) for failures in (1, 2, 10, 100)]
        [1.0, 2.0, 512.0, 600.0]
        """
        return min(self.limit_s, self.first_s * 2.0 ** min(failures - 1, 60))

    def delay_s(self, failures: int, *, rng: random.Random, retry_after_s: float | None = None) -> float:
        """Half to all of `whole_s`, so that clients spread out; at least `retry_after_s`, and then up to a tenth more.

        >>> one = Backoff(first_s=0.5, limit_s=30.0)
        >>> [0.5 * 2**k / 2 <= one.delay_s(k + 1, rng=random.Random(7)) <= 0.5 * 2**k for k in range(3)]
        [True, True, True]
        >>> 15.0 <= one.delay_s(50, rng=random.Random(7)) <= 30.0
        True
        """
        delay_s = self.whole_s(failures) * rng.uniform(0.5, 1.0)
        if retry_after_s is not None and retry_after_s > delay_s:
            return retry_after_s * rng.uniform(1.0, 1.1)
        return delay_s
