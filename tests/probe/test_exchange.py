"""The exchange with whatever answers at netgang's address: bounded, one outcome each time; what waits for it."""

import json
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.documents import Assignment, AssignmentError, Burst, Peer, read_assignment
from probe.exchange import Exchange
from probe.session import MOST_WINDOWS, Window, links_of
from tests.fakes.raw_http import CERTIFICATE, Answer, RawServer, drip, endless, ok, reset
from tests.liveness import LIVENESS_S
from tests.probe.assigner import Assigner, serving, token

__all__ = ["token"]

ASSIGNED = ok(b'{"interval_s": 10.0, "packet_interval_s": 0.1, "peers": [], "reflect_for": ["10.0.0.2"]}')


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
        found = Exchange(server.url, token_file=token).post(b"{}")
    assert (found.assignment is None) == bool(error)
    assert found.error.startswith(error) or "Remote end closed" in found.error
    assert len(found.error) <= 400


def test_a_connection_is_kept_until_a_report_is_not_taken(token: Path) -> None:
    """One that netgang closed meanwhile costs no report."""
    with serving(Assigner({"n1": "10.0.0.1"}, interval_s=10.0)) as served:
        exchange = Exchange(served.url, token_file=token)
        for served.status, served.hangs_up in ((200, False), (200, True), (200, False), (503, False), (200, False)):
            assert (exchange.post(b'{"node": "n1"}').assignment is not None) == (served.status == 200)
        first, second, third, fourth, fifth = served.ports
        assert (first, third) == (second, fourth)
        assert len({first, third, fifth}) == 3
        exchange.close()


def test_a_pause_that_is_asked_for_is_kept_within_bounds(token: Path) -> None:
    for text, pause_s in (("7", 7.0), ("1e9", 60.0), ("soon", 0.0)):
        answer = f"HTTP/1.1 429 No\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
        with RawServer({"/v1/probe": answer}) as server:
            assert Exchange(server.url, token_file=token).post(b"{}").retry_after_s == pause_s


def test_tls_needs_the_authority(token: Path) -> None:
    with RawServer({"/v1/probe": ASSIGNED}, tls=True) as server:
        assert Exchange(server.url, token_file=token, ca_file=CERTIFICATE).post(b"{}").error == ""
        assert "CERTIFICATE_VERIFY_FAILED" in Exchange(server.url, token_file=token).post(b"{}").error


def test_files_that_are_missing_are_an_outcome(token: Path, tmp_path: Path) -> None:
    for files in ({"token_file": tmp_path / "none"}, {"token_file": token, "ca_file": tmp_path / "none"}):
        assert "No such file" in Exchange("https://127.0.0.1:1", **files).post(b"{}").error


@pytest.mark.parametrize("url", ["", "netgang:8891", "ftp://netgang", "http://", "http://user@netgang"])
def test_addresses_that_are_none(url: str, token: Path) -> None:
    with pytest.raises(ValueError, match="is no address such as"):
        Exchange(url, token_file=token)


def test_a_post_that_takes_too_long_is_broken_off(token: Path) -> None:
    with RawServer({"/v1/probe": drip}) as server:
        exchange = Exchange(server.url, token_file=token)
        exchange.submit(b"{}", now_s=0.0)
        assert exchange.outcome(now_s=10.0) is None
        pause, end_s = threading.Event(), monotonic() + LIVENESS_S
        while (found := exchange.outcome(now_s=20.0)) is None and monotonic() < end_s:
            pause.wait(0.05)
        assert found is not None
        assert (bool(found.error), exchange.is_free) == (True, True)


PEER = {"node": "n2", "address": "10.0.0.2", "port": 8862}
WHOLE = {"interval_s": 10.0, "packet_interval_s": 0.1, "peers": [PEER], "reflect_for": ["10.0.0.2"]}
BURST = {"id": "b1", "server": True, "address": "10.0.0.2", "port": 8863}
BURST |= {"seconds": 3.0, "size_bytes": 5, "wait_s": 9.0}


def whole(**more: Any) -> Assignment:
    return read_assignment(json.dumps(WHOLE | more).encode())


def test_an_assignment() -> None:
    assert whole() == Assignment(10.0, 0.1, (Peer("n2", "10.0.0.2", 8862),), ("10.0.0.2",))
    found = whole(throughput=True, burst=BURST)
    assert (found.throughput, found.burst) == (True, Burst("b1", True, "10.0.0.2", 8863, 3.0, 5, 9.0))


def test_what_is_to_be_kept_is_taken_as_it_is() -> None:
    found = whole(memory="{} signed", resend=True)
    assert (found.memory, found.resend, whole().memory) == ("{} signed", True, "")


REFUSED = {  # case: (change, beginning of the error)
    "too many packets": ({"packet_interval_s": 0.001}, "packet_interval_s: must be 0.05 to 60"),
    "an interval that is none": ({"interval_s": True}, "interval_s: "),
    "no time": ({"interval_s": float("nan")}, "interval_s: "),
    "no peers": ({"peers": None}, "peers: must be a list"),
    "too many peers": ({"peers": [PEER] * 65}, "peers: must be a list of at most 64"),
    "a peer without a port": ({"peers": [PEER | {"port": 0}]}, "peers[0].port: "),
    "a name": ({"peers": [PEER | {"address": "n2"}]}, "peers[0].address: "),
    "all of a network": ({"peers": [PEER | {"address": "255.255.255.255"}]}, "peers[0].address: "),
    "a burst that is none": ({"burst": []}, "burst: no object"),
    "too much to keep": ({"memory": "x" * 50_000}, "memory: must be a text of 0 to 49152"),
    "a burst without an id": ({"burst": BURST | {"id": ""}}, "burst.id: "),
    "a burst at a port of root": ({"burst": BURST | {"port": 22}}, "burst.port: "),
    "a burst without end": ({"burst": BURST | {"seconds": 11.0}}, "burst.seconds: must be 1 to 10"),
    "a burst too large": ({"burst": BURST | {"size_bytes": 10**11}}, "burst.size_bytes: "),
    "a burst to a name": ({"burst": BURST | {"address": "n2"}}, "burst.address: "),
    "a server without end": ({"burst": BURST | {"wait_s": 1e9}}, "burst.wait_s: "),
    "a group": ({"reflect_for": ["224.0.0.1"]}, "reflect_for: "),
}


@pytest.mark.parametrize(("change", "error"), REFUSED.values(), ids=REFUSED)
def test_refused_whole(change: dict[str, Any], error: str) -> None:
    with pytest.raises(AssignmentError) as found:
        whole(**change)
    assert str(found.value).startswith(error)


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from([*WHOLE, *BURST, "burst"]), inner)).map(lambda one: json.dumps(one).encode()))  # fmt: skip
def test_any_answer_is_an_assignment_or_an_error(body: bytes) -> None:
    try:
        found = read_assignment(body)
    except AssignmentError:
        return
    assert 1.0 <= found.interval_s <= 300.0


def test_windows_that_wait_for_netgang_are_reported_as_one() -> None:
    waiting = [{"n2": Window(answered=10**number), "n3": Window()} for number in range(MOST_WINDOWS)]
    assert [(one["peer"], one["sent"]) for one in links_of(waiting)] == [("n2", 111111)]
