"""The exchange with whatever answers at netgang's address: one outcome each time, bounded, and no exception."""

import threading
from pathlib import Path

import pytest

from probe.exchange import Exchange, Netgang, Outcome
from tests.fakes.raw_http import CERTIFICATE, Answer, RawServer, drip, endless, ok, reset
from tests.liveness import LIVENESS_S
from tests.probe.assigner import Assigner, serving

ASSIGNED = ok(b'{"interval_s": 10.0, "packet_interval_s": 0.1, "peers": [], "reflect_for": ["10.0.0.2"]}')


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return path


ANSWERS: dict[str, tuple[Answer, str]] = {  # case: (answer, beginning of the error)
    "taken": (ASSIGNED, ""),
    "no leader": (ok(b"no leader", status=503), "503 'no leader'"),
    "elsewhere": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302"),
    "no assignment": (ok(b"[]"), "AssignmentError: body: no object"),
    "endless": (endless, "AssignmentError: body: more than"),
    "cut": (reset, "Connection"),
    "no HTTP": (b"\x00\x01\r\n\r\n", "BadStatusLine"),
}


@pytest.mark.parametrize(("answer", "error"), ANSWERS.values(), ids=ANSWERS)
def test_outcomes(answer: Answer, error: str, token: Path) -> None:
    with RawServer({"/v1/probe": answer}) as server:
        found = Netgang(server.url, token_file=token).post(b"{}")
    assert (found.assignment is None) == bool(error)
    assert found.error.startswith(error) or "Remote end closed" in found.error
    assert len(found.error) <= 400


def test_a_connection_is_kept_until_a_report_is_not_taken(token: Path) -> None:
    """One that netgang closed meanwhile costs no report."""
    with serving(Assigner({"n1": "10.0.0.1"}, interval_s=10.0)) as served:
        netgang = Netgang(served.url, token_file=token)
        for served.status, served.hangs_up in ((200, False), (200, True), (200, False), (503, False), (200, False)):
            assert (netgang.post(b'{"node": "n1"}').assignment is not None) == (served.status == 200)
        netgang.close()
        first, second, third, fourth, fifth = served.ports
        assert (first, third) == (second, fourth)
        assert len({first, third, fifth}) == 3


def test_a_pause_that_is_asked_for_is_kept_within_bounds(token: Path) -> None:
    for text, pause_s in (("7", 7.0), ("1e9", 60.0), ("soon", 0.0)):
        answer = f"HTTP/1.1 429 No\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
        with RawServer({"/v1/probe": answer}) as server:
            assert Netgang(server.url, token_file=token).post(b"{}").retry_after_s == pause_s


def test_tls_needs_the_authority(token: Path) -> None:
    with RawServer({"/v1/probe": ASSIGNED}, tls=True) as server:
        assert Netgang(server.url, token_file=token, ca_file=CERTIFICATE).post(b"{}").error == ""
        assert "CERTIFICATE_VERIFY_FAILED" in Netgang(server.url, token_file=token).post(b"{}").error


def test_files_that_are_missing_are_an_outcome(token: Path, tmp_path: Path) -> None:
    for files in ({"token_file": tmp_path / "none"}, {"token_file": token, "ca_file": tmp_path / "none"}):
        assert "No such file" in Netgang("https://127.0.0.1:1", **files).post(b"{}").error


@pytest.mark.parametrize("url", ["", "netgang:8891", "ftp://netgang", "http://", "http://user@netgang"])
def test_addresses_that_are_none(url: str, token: Path) -> None:
    with pytest.raises(ValueError, match="is no address such as"):
        Netgang(url, token_file=token)


def test_a_post_that_takes_too_long_is_broken_off(token: Path) -> None:
    with RawServer({"/v1/probe": drip}) as server:
        exchange = Exchange(Netgang(server.url, token_file=token))
        exchange.submit(b"{}", now_s=0.0)
        assert exchange.outcome(now_s=10.0) is None
        found: Outcome | None = None
        pause, end = threading.Event(), LIVENESS_S / 0.05
        while found is None and end > 0:
            found = exchange.outcome(now_s=20.0)
            pause.wait(0.05)
            end -= 1
        assert found is not None
        assert found.error
        assert exchange.is_free
        exchange.close()
