"""What the outside world can do to us. An expected "no" is a value (`scoring.model.reasons`), never an exception.

NetgangError
├── ConfigError             refuse to start; names the field and the accepted values
├── BadRequestError         what a caller sent cannot be read; the text goes back to it
├── ApiError                the API server answered with a failure; keeps status and message
│   ├── GoneError           410: list again
│   ├── ConflictError       409: read again, then decide again; never repeat blindly
│   └── NotFoundError       404: the object (or its kind) does not exist
├── ApiUnavailableError     the API server could not be reached, or broke off; the outcome is unknown
│   ├── NotAnnouncedError   the Event that must come first was not confirmed: what it announces was not done
│   └── TooLongError        what it began to send is longer than we take: ask for less
├── NotOursError            a bug of ours: pods of another scheduler were about to be taken away, and were not
└── NetworkSourceError      a source of measurements failed: keep the last data, let it age, show it in /readyz
"""


class NetgangError(Exception):
    """Base of everything that the outside world can do to us."""


class ConfigError(NetgangError):
    """Settings cannot be used; the text names the field and the accepted values."""


class BadRequestError(NetgangError):
    """A request cannot be read; the text says what is wrong with it, for the caller."""


class ApiError(NetgangError):
    """The API server answered with a failure."""

    def __init__(self, status: int, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"API server answered {status}: {message}")
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


class GoneError(ApiError):
    """410: the resourceVersion is too old; list again."""


class ConflictError(ApiError):
    """409: the object changed or exists; read it again, then decide again."""


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
