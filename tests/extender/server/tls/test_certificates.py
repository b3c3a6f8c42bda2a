"""What is read of a certificate: dates and names."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.server.tls.context import names_of
from extender.server.tls.files import in_pem, validity
from tests.authority import openssl
from tests.extender.server.tls.conftest import Certificates

FIXTURE = Path(__file__).parents[3] / "fixtures/tls/loopback.crt"


def _der(path: Path) -> bytes:
    (found,) = in_pem(path.read_text())
    return found


@pytest.mark.parametrize("days", [-1, 1, 30, 365 * 60], ids=["expired", "a day", "a month", "beyond 2050"])
def test_the_dates_are_those_that_openssl_reads(days: int, certificates: Certificates) -> None:
    """Also from 2050 on, where certificates write years with four digits."""
    path = certificates.ours.issue("dates", days=days, file=f"dates-{days}").cert
    said = openssl("x509", "-in", str(path), "-noout", "-dates").splitlines()
    want = [datetime.strptime(line.partition("=")[2], "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC) for line in said]
    found = validity(_der(path))
    assert [moment.timestamp() for moment in want] == [found.begins_s, found.ends_s]


def test_a_chain_is_read_in_order(certificates: Certificates) -> None:
    text = f"bag attributes\n{certificates.server.cert.read_text()}\nissuer:\n{certificates.ours.cert.read_text()}"
    assert [_der(certificates.server.cert), _der(certificates.ours.cert)] == in_pem(text)


@given(st.integers(0, 600), st.none() | st.integers(0, 255))
def test_damage_is_a_value_error(at: int, value: int | None) -> None:
    whole = _der(FIXTURE)
    at %= len(whole)
    der = whole[:at] if value is None else whole[:at] + bytes([value]) + whole[at + 1 :]
    try:
        found = validity(der)
    except ValueError:
        return
    assert value is not None or found == validity(whole)


def test_no_block_no_certificate() -> None:
    assert in_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n") == []
    with pytest.raises(ValueError, match=r"padding|base64"):
        in_pem("-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n")
    assert names_of({}) == frozenset()
