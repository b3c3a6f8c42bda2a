"""Certificate files become contexts that can be used, or a sentence that names the field and the way out.

OpenSSL finds some mistakes only when the first client comes, and shows the dates of a certificate only in a connection:
so the first client is one in this process (`_shown_until_s`). Files are looked at by device, inode, time and size
behind all links, so a kubelet's swap is seen; one that happens while they are read is read again.
"""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from extender.errors import ConfigError
from extender.server.tls.context import words_of
from extender.settings.ports import TlsSettings

Marks: TypeAlias = tuple[tuple[int, ...], ...]

SERVER: Final = "server"
CLIENT_CA: Final = "client_ca"

_UNFIT: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")


class Loaded(msgspec.Struct, frozen=True):
    """One version of the files. `for_people` shows the same certificate and asks for none."""

    for_verbs: ssl.SSLContext
    for_people: ssl.SSLContext
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


def load(settings: TlsSettings, *, now_s: float) -> Loaded:
    """Read, check and load the files; `now_s` by the wall clock. Blocks: file system. Errors: ConfigError."""
    before = marks_of(settings)
    while True:
        try:
            return _loaded(settings, before, now_s=now_s)
        except ConfigError:
            after = marks_of(settings)
            if after == before:
                raise
            before = after  # changed while it was read: perhaps a certificate of before and a key of after


def _loaded(settings: TlsSettings, marks: Marks, *, now_s: float) -> Loaded:
    cert_file, key_file, ca_file = settings.cert_file, settings.key_file, settings.client_ca_file
    if cert_file is None or key_file is None:
        raise ValueError("tls.cert_file and tls.key_file are not set")
    verbs, people = _with_pair(cert_file, key_file), _with_pair(cert_file, key_file)
    ends_s = {SERVER: _shown_until_s(people, cert_file)}
    if ca_file is not None:
        ends_s[CLIENT_CA] = _load_authorities(verbs, ca_file, now_s=now_s)
    return Loaded(verbs, people, ends_s, marks)


def _with_pair(cert_file: Path, key_file: Path) -> ssl.SSLContext:
    """A server's context: TLS 1.2 at least, HTTP/1.1. No session is resumed: each connection shows its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    _must_be_readable("tls.cert_file", cert_file, "the server's certificate, then its chain")
    _must_be_readable("tls.key_file", key_file, "a private key")
    pair = f"tls.cert_file = {cert_file}, tls.key_file = {key_file}"
    try:
        context.load_cert_chain(cert_file, key_file, password="")  # never ask at a terminal
    except ssl.SSLError as error:
        if error.reason in _UNFIT:
            what = f"tls.key_file = {key_file}: is not the key of the certificate in tls.cert_file = {cert_file}"
            raise ConfigError(f"{what}; give the key that this certificate was requested with") from error
        fix = "accepted: PEM, not encrypted, RSA of 2048 bits or more, or an elliptic curve such as P-256"
        raise ConfigError(f"{pair}: OpenSSL cannot use them: {words_of(error)}; {fix}") from error
    except OSError as error:  # swapped while it is read
        raise ConfigError(f"{pair}: cannot be read: {error.strerror or error}") from error
    return context


def _shown_until_s(context: ssl.SSLContext, cert_file: Path) -> float:
    """When the certificate ends that `context` shows (Unix seconds): asked by a client that trusts just that one."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        asking.load_verify_locations(cert_file)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        server, client = context.wrap_bio(there, back, server_side=True), asking.wrap_bio(back, there)
        for end in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        shown = client.getpeercert() or {}
    except OSError as error:
        why = words_of(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ConfigError(f"tls.cert_file = {cert_file}: no client would accept it: {why}; renew it") from error
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def _load_authorities(context: ssl.SSLContext, ca_file: Path, *, now_s: float) -> float:
    """Demand certificates of these authorities; returns when the first of them ends that has not ended yet."""
    field, holds = f"tls.client_ca_file = {ca_file}", "the certificates of the authorities that sign those of clients"
    _must_be_readable("tls.client_ca_file", ca_file, holds)
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        why = words_of(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ConfigError(f"{field}: OpenSSL cannot use it: {why}; accepted: a PEM file with {holds}") from error
    context.verify_mode = ssl.CERT_REQUIRED
    ends_s = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    if not ends_s:
        raise ConfigError(f"{field}: holds no certificate of an authority (CA:TRUE); accepted: a PEM file with {holds}")
    good = [one for one in ends_s if one > now_s]
    if not good:
        raise ConfigError(f"{field}: every certificate in it has expired; renew it")
    return min(good)


def _must_be_readable(field: str, path: Path, holds: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        what = f"{field} = {path}: cannot be read: {error.strerror or error}"
        raise ConfigError(f"{what}; accepted: a PEM file with {holds}") from error
