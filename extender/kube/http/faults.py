"""What went wrong in a call to the API server, as the errors of `extender.errors`: the only place that maps them.

Rule: an answer with a failure status becomes ApiError or one of its kinds; everything that left us without a usable
answer becomes ApiUnavailableError, because then it is unknown whether the request took effect. Causes are chained.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from pyreqwest.exceptions import DetailedPyreqwestError, PyreqwestError

from extender.errors import ApiError, ApiUnavailableError, ConflictError, GoneError, NotFoundError, TooLongError

_KINDS: dict[int, type[ApiError]] = {404: NotFoundError, 409: ConflictError, 410: GoneError}
_MESSAGE_CHARACTERS = 500  # a Status can quote a whole object; logs and answers want a sentence
_LONGEST_RETRY_S = 600.0  # a broken header must not put us to sleep for days


class _Details(msgspec.Struct):
    retry_after_s: float = msgspec.field(name="retryAfterSeconds", default=0.0)


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def refusal(status: int, body: bytes, *, retry_after: str = "") -> ApiError:
    """The error that an answer with failure `status` means.

    `body` is a Status object or plain text; `retry_after` is the header's value. The longer of the header's and the
    Status's delay counts; a date instead of seconds is ignored (the API server sends seconds).

    >>> refusal(409, b'{"kind":"Status","message":"pod p is already assigned"}')
    ConflictError('API server answered 409: pod p is already assigned')
    >>> refusal(429, b"slow down", retry_after="3").retry_after_s
    3.0
    """
    read = _decode(body)
    message = (read.message or read.reason) if read is not None else body.decode("utf-8", "replace").strip()
    delays_s = [float(retry_after)] if retry_after.isascii() and retry_after.isdigit() else []
    if read is not None and read.details is not None and read.details.retry_after_s > 0.0:
        delays_s.append(read.details.retry_after_s)
    return _KINDS.get(status, ApiError)(
        status,
        message[:_MESSAGE_CHARACTERS] or "no reason given",
        retry_after_s=min(max(delays_s), _LONGEST_RETRY_S) if delays_s else None,
    )


def refusal_in_stream(body: bytes) -> ApiError:
    """The error that the Status inside a watch's ERROR event means; without a readable code it counts as 500."""
    read = _decode(body)
    return refusal(read.code if read is not None and read.code >= 400 else 500, body)


@contextmanager
def mapped(request: str) -> Iterator[None]:
    """Run one exchange; every failure to get a usable answer leaves as ApiUnavailableError naming `request`."""
    try:
        yield
    except TooLongError as error:
        raise TooLongError(f"{request}: {error}") from error
    except (PyreqwestError, TimeoutError, msgspec.MsgspecError) as error:
        raise ApiUnavailableError(f"{request}: {_words(error)}") from error


def _words(error: Exception) -> str:
    """What happened; of an HTTP error its innermost cause, which names address, certificate or size."""
    if isinstance(error, DetailedPyreqwestError) and not isinstance(error, TimeoutError):
        causes = error.details["causes"] or ()
        return ": ".join(dict.fromkeys([error.message, *(cause["message"] for cause in causes[1:])]))
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)


def _decode(body: bytes) -> _Status | None:
    try:
        return msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        return None
