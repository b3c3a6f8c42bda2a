"""Certificate files become a context that can be used, or a sentence that names the field and the way out.

OpenSSL finds some mistakes only when the first client comes. Files are looked at by device, inode, time and size behind
all links, so a kubelet's swap is seen; one that happens while they are read is read again. Dates are read by hand (RFC
5280, 4.1): the standard library shows none of a certificate outside a connection, and a crypto package would be our
largest dependency. Whether it is otherwise sound is OpenSSL's judgement.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from extender.errors import ConfigError
from extender.server.tls.context import GuardedContext, HandshakeEnded, words_of
from extender.settings.ports import TlsSettings

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


Marks: TypeAlias = tuple[tuple[int, ...], ...]

SERVER: Final = "server"
CLIENT_CA: Final = "client_ca"

_UNFIT: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")


@dataclass(frozen=True, slots=True)
class Loaded:
    """One version of the files. `for_people` shows the same certificate and asks for none."""

    for_verbs: GuardedContext
    for_people: GuardedContext
    ends_s: Mapping[str, float]  # SERVER, CLIENT_CA → when it, or the first of the authorities, ends (Unix seconds)
    marks: Marks


def marks_of(settings: TlsSettings) -> Marks:
    """The present version of the files; one that cannot be looked at counts as a version, too. Blocks: file system."""
    found: list[tuple[int, ...]] = []
    for path in (settings.cert_file, settings.key_file, settings.client_ca_file):
        if path is None:
            continue
        try:
            about = path.stat()
        except OSError as error:
            found.append((error.errno or 0,))
        else:
            found.append((about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size))
    return tuple(found)


def load(settings: TlsSettings, ended: HandshakeEnded, *, now_s: Callable[[], float]) -> Loaded:
    """Read, check and load the files; `now_s` is the wall clock. Blocks: file system. Errors: ConfigError."""
    before = marks_of(settings)
    while True:
        try:
            return _loaded(settings, ended, before, now_s=now_s())
        except ConfigError:
            after = marks_of(settings)
            if after == before:
                raise
            before = after  # changed while it was read: perhaps a certificate of before and a key of after


def _loaded(settings: TlsSettings, ended: HandshakeEnded, marks: Marks, *, now_s: float) -> Loaded:
    cert_file, key_file, ca_file = settings.cert_file, settings.key_file, settings.client_ca_file
    if cert_file is None or key_file is None:
        raise ValueError("tls.cert_file and tls.key_file are not set")
    shown = _Pem("tls.cert_file", cert_file, "the server's certificate, then its chain")
    own = shown.certificates()[0][1]
    shown.hold_now(own, now_s=now_s)
    _check_key(_Pem("tls.key_file", key_file, "a private key"))
    ends_s = {SERVER: own.ends_s}
    verbs = GuardedContext.guarding(ended, allowed=frozenset(settings.client_names))
    people = GuardedContext.guarding(ended)
    for context in (verbs, people):
        _load_pair(context, cert_file, key_file)
    if ca_file is not None:
        holds = "the certificates of the authorities that sign those of clients"
        ends_s[CLIENT_CA] = _load_authorities(verbs, _Pem("tls.client_ca_file", ca_file, holds), now_s=now_s)
    return Loaded(verbs, people, ends_s, marks)


@dataclass(frozen=True, slots=True)
class _Pem:
    field: str
    path: Path
    holds: str

    def wrong(self, what: str, fix: str = "") -> ConfigError:
        return ConfigError(f"{self.field} = {self.path}: {what}; {fix or f'accepted: a PEM file with {self.holds}'}")

    def text(self) -> str:
        try:
            return self.path.read_text(encoding="latin-1")  # comments may be in any encoding
        except OSError as error:
            raise self.wrong(f"cannot be read: {error.strerror or error}") from error

    def certificates(self) -> list[tuple[bytes, Validity]]:
        try:
            found = [(der, validity(der)) for der in in_pem(self.text())]
        except ValueError as error:
            raise self.wrong(str(error)) from error
        if not found:
            raise self.wrong("holds no certificate")
        return found

    def hold_now(self, dates: Validity, *, now_s: float) -> None:
        if dates.ends_s <= now_s:
            raise self.wrong(f"expired on {_day(dates.ends_s)}", "renew it")
        if now_s < dates.begins_s:
            raise self.wrong(f"not valid before {_day(dates.begins_s)}", "wait, or correct this machine's clock")


def _day(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _check_key(file: _Pem) -> None:
    text = file.text()
    if "PRIVATE KEY-----" not in text:
        raise file.wrong("holds no private key", "accepted: a PEM file with the key")
    if "ENCRYPTED" in text:
        fix = "decrypt it: openssl pkey -in FILE -out NEW-FILE"
        raise file.wrong("is encrypted, and netgang has no password for it", fix)


def _load_pair(context: GuardedContext, cert_file: Path, key_file: Path) -> None:
    pair = f"tls.cert_file = {cert_file}, tls.key_file = {key_file}"
    try:
        context.load_cert_chain(cert_file, key_file, password="")  # never ask at a terminal
    except ssl.SSLError as error:
        if error.reason in _UNFIT:
            what = f"tls.key_file = {key_file}: is not the key of the certificate in tls.cert_file = {cert_file}"
            raise ConfigError(f"{what}; give the key that this certificate was requested with") from error
        fix = "accepted: PEM, RSA of 2048 bits or more, or an elliptic curve such as P-256"
        raise ConfigError(f"{pair}: OpenSSL cannot use them: {words_of(error)}; {fix}") from error
    except OSError as error:  # swapped while it is read
        raise ConfigError(f"{pair}: cannot be read: {error.strerror or error}") from error


def _load_authorities(context: GuardedContext, file: _Pem, *, now_s: float) -> float:
    """Demand certificates of these authorities; returns when the first of them ends that has not ended yet."""
    found = file.certificates()
    try:
        context.load_verify_locations(cadata=b"".join(der for der, _ in found))
    except ssl.SSLError as error:
        raise file.wrong(f"OpenSSL cannot use it: {error}") from error
    if context.cert_store_stats()["x509_ca"] == 0:
        raise file.wrong("holds certificates, but of no authority (CA:TRUE)")
    context.verify_mode = ssl.CERT_REQUIRED
    good = [dates for _, dates in found if dates.begins_s <= now_s < dates.ends_s]
    if not good:
        file.hold_now(max((dates for _, dates in found), key=lambda dates: dates.ends_s), now_s=now_s)
    return min(dates.ends_s for dates in good)
