"""What the outside world can do to us. An expected "no" is a value (`scoring.model.reasons`), never an exception."""


class NetgangError(Exception):
    """Base of all of them."""


class ConfigError(NetgangError):
    """Settings cannot be used, so the process does not start; the text names the field and the accepted values."""


class BadRequestError(NetgangError):
    """A request cannot be read; the text says what is wrong with it, and goes back to the caller."""


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
