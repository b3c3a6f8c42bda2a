"""Every failure of an exchange becomes one of our errors, and each kind the right one."""

from http import HTTPStatus

import pytest
from pyreqwest.exceptions import CauseErrorDetails, ConnectError

from extender.errors import ApiError, ApiUnavailableError, ConflictError, GoneError, NotFoundError
from extender.kube.transport import mapped, refusal, refusal_in_stream

CAUSES: CauseErrorDetails = {"causes": [{"message": "error sending request"}, {"message": "tcp connect error"}]}


@pytest.mark.parametrize("error", [TimeoutError(), ConnectError("connection error", CAUSES)])
def test_every_failure_without_an_answer_is_mapped(error: Exception) -> None:
    with (
        pytest.raises(ApiUnavailableError, match=r"^GET /x: (no answer in time|.*tcp connect error)$"),
        mapped("GET /x"),
    ):
        raise error
    with pytest.raises(ZeroDivisionError), mapped("GET /x"):  # a defect of ours is not dressed up as an outage
        _ = 1 / 0


def test_every_failure_status_is_an_api_error() -> None:
    kinds = {404: NotFoundError, 409: ConflictError, 410: GoneError}
    for status in (one for one in HTTPStatus if one >= 300):
        found = refusal(status, b'{"kind":"Status","message":"why"}')
        assert (type(found), found.status, found.message) == (kinds.get(status, ApiError), status, "why")


BODIES = {  # case: (expected message, body)
    "a Status": ("pods is forbidden", b'{"kind":"Status","message":"pods is forbidden","reason":"Forbidden"}'),
    "only a reason": ("Forbidden", b'{"kind":"Status","reason":"Forbidden"}'),
    "plain text": ("404 page not found", b"404 page not found\n"),
    "nothing": ("no reason given", b""),
    "not text": ("\ufffd\ufffd", b"\xff\xfe"),
    "too much text": ("x" * 500, b"x" * 9000),
}


@pytest.mark.parametrize(("want", "body"), BODIES.values(), ids=BODIES)
def test_the_message_is_readable_whatever_the_body(want: str, body: bytes) -> None:
    assert want == refusal(500, body).message


RETRY_AFTER = {  # case: (expected seconds, header, body)
    "neither": (None, "", b"{}"),
    "header": (3.0, "3", b"{}"),
    "Status": (2.0, "", b'{"details":{"retryAfterSeconds":2}}'),
    "the longer of both": (9.0, "9", b'{"details":{"retryAfterSeconds":2}}'),
    "a date is ignored": (None, "Wed, 21 Oct 2026 07:28:00 GMT", b"{}"),
    "negative is ignored": (None, "-5", b"{}"),
    "absurd is cut": (600.0, "99999999999999999999999", b"{}"),
}


@pytest.mark.parametrize(("want", "header", "body"), RETRY_AFTER.values(), ids=RETRY_AFTER)
def test_retry_after(want: float | None, header: str, body: bytes) -> None:
    """The server's wait before the next call is read from the header and from the Status."""
    assert want == refusal(429, body, retry_after=header).retry_after_s


def test_an_error_inside_a_watch_has_the_status_of_its_object() -> None:
    assert isinstance(refusal_in_stream(b'{"code":410}'), GoneError)
    assert refusal_in_stream(b"nonsense").status == 500
    assert refusal_in_stream(b'{"code":200}').status == 500
