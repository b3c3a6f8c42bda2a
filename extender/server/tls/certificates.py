"""What we need to know of a certificate: its end, and the names in it.

Why by hand: the standard library shows neither for a certificate that is not part of a connection, and a crypto package
for two dates would be our largest dependency. Rule: only the way to the dates is read (RFC 5280, 4.1); whether a
certificate is otherwise sound is OpenSSL's judgement, not ours.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate holds, in Unix seconds."""

    begins_s: float
    ends_s: float


def in_pem(text: str) -> list[bytes]:
    """The certificates (DER) in a PEM text, in order. Errors: ValueError for a block that is no base64."""
    return [ssl.PEM_cert_to_DER_cert(block) for block in _PEM.findall(text)]


def validity(der: bytes) -> Validity:
    """The dates of a certificate. Errors: ValueError if it is none."""
    try:
        certificate = _content(der, _SEQUENCE)
        at = _content(certificate, _SEQUENCE)
        if at[0] == _VERSION:
            at = _behind(at)
        for _ in range(3):  # serial number, signature algorithm, issuer
            at = _behind(at)
        dates = _content(at, _SEQUENCE)
        return Validity(_moment_s(dates), _moment_s(_behind(dates)))
    except IndexError as error:
        raise ValueError("not a certificate: it ends too early") from error


def names_of(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Common name and alternative names of a peer's certificate, as `SSLObject.getpeercert` gives it.

    >>> sorted(names_of({"subject": ((("commonName", "a"),),), "subjectAltName": (("DNS", "b"), ("URI", "c:/d"))}))
    ['a', 'b', 'c:/d']
    """
    subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
    common = {value for part in subject for kind, value in part if kind == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})


def _moment_s(der: bytes) -> float:
    r"""Unix seconds of a UTCTime or GeneralizedTime in the one form that certificates may use.

    >>> _moment_s(b"\x17\x0d700101000001Z"), _moment_s(b"\x18\x0f20500101000000Z")
    (1.0, 2524608000.0)
    """
    text = _content(der, _UTC_TIME, _GENERALIZED_TIME).decode("ascii")
    if der[0] == _UTC_TIME:  # two digits: 1950 to 2049
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _content(der: bytes, *tags: int) -> bytes:
    if der[0] not in tags:
        raise ValueError(f"not a certificate: 0x{der[0]:02x} where 0x{tags[0]:02x} is expected")
    begin, end = _bounds(der)
    return der[begin:end]


def _behind(der: bytes) -> bytes:
    return der[_bounds(der)[1] :]


def _bounds(der: bytes) -> tuple[int, int]:
    length, begin = der[1], 2
    if length >= 0x80:
        begin += length & 0x7F
        length = int.from_bytes(der[2:begin], "big")
    return begin, begin + length
