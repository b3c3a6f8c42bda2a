"""TLS of our own ports: whose certificate we show, whose we demand, and how both change while calls are held.

Why: the extender protocol knows no credentials, so a client certificate is the only proof that a Binding is asked for
by kube-scheduler; and certificates are renewed while the process runs, where a restart would fail every held gang.
Why a context of contexts: a server is given its context once, and loading a new pair into a living one is not atomic: a
certificate whose key does not fit stays in it, and authorities can only be added. So every change makes a new context.

Rules: a connection whose client may not speak never reaches HTTP: names are checked at the end of the handshake. A
refused client gets a TLS alert, so that its own log names the cause. Files are looked at by device, inode, time and
size behind all links, so a kubelet's swap is seen. Files that cannot be used are logged once, counted, tried again.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from extender.errors import ConfigError
from extender.ports import Clock
from extender.runtime.telemetry import Telemetry
from extender.settings.settings import TlsSettings

Refused: TypeAlias = Callable[[str], None]  # Hears why a client was refused, for people
RELOAD_S: Final = 5.0  # Certificates are renewed days before they end: a look must only be cheap
_SAID_AGAIN_S: Final = 10.0

_log = logging.getLogger("netgang.tls")


class LivingContext(ssl.SSLContext):
    """The context that a server is given once: each connection gets the newest of `use`."""

    _current: ssl.SSLContext
    _refused: Refused
    _allowed: frozenset[str]

    @classmethod
    def starting_with(
        cls, first: ssl.SSLContext, refused: Refused, *, allowed: frozenset[str] = frozenset()
    ) -> "LivingContext":
        """A context that hands out `first` until another one is used; `allowed`: names of clients, none: any client."""
        living = cls(ssl.PROTOCOL_TLS_SERVER)
        living._refused, living._allowed = refused, allowed
        living.use(first)
        return living

    def use(self, current: ssl.SSLContext) -> None:
        """Take another context for all connections from now on; those that exist keep theirs."""
        current.sslobject_class = _Connection
        self._current = current

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """The TLS of one new connection, which knows where its alerts go; the event loop calls this."""
        connection = self._current.wrap_bio(incoming, outgoing, *arguments, **more)
        assert isinstance(connection, _Connection)
        connection.outgoing, connection.refused, connection.allowed = outgoing, self._refused, self._allowed
        return connection


class _Connection(ssl.SSLObject):
    """One connection's TLS. A failure is final: whatever comes afterwards, the handshake never succeeds."""

    outgoing: ssl.MemoryBIO  # Where bytes for the client go
    refused: Refused
    allowed: frozenset[str]
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """A failure with an alert is raised at the next call: event loops drop what is outgoing when it is raised."""
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
            names = names_of(self.getpeercert() or {}) if self.allowed else self.allowed
            if self.allowed and not names & self.allowed:
                named = ", ".join(sorted(names)) or "no client"
                why = f"the client's certificate names {named}, which tls.client_names does not allow"
                raise ssl.SSLError(ssl.SSL_ERROR_SSL, why)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            self.refused(words_of(error))
            if self.outgoing.pending:
                raise ssl.SSLWantReadError from error
            raise


def words_of(error: OSError) -> str:
    """The reason in words; OpenSSL's errors are OSErrors, too."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # only OpenSSL's own have one
    return reason.replace("_", " ").lower() if reason else error.strerror or str(error)


def names_of(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Common name and alternative names of a peer's certificate, as `SSLObject.getpeercert` gives it."""
    subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
    common = {value for part in subject for kind, value in part if kind == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})


class Loaded(msgspec.Struct, frozen=True):
    """One version of the files. `for_people` shows the same certificate and asks for none."""

    for_verbs: ssl.SSLContext
    for_people: ssl.SSLContext
    ends_s: Mapping[str, float]  # `server`, `client_ca` → when it, or the first of the authorities, ends (Unix seconds)
    marks: Sequence[object]


def marks_of(settings: TlsSettings) -> Sequence[object]:
    """The present version of the files; one that cannot be looked at counts as a version, too. Blocks: file system."""
    marks: list[object] = []
    for path in filter(None, (settings.cert_file, settings.key_file, settings.client_ca_file)):
        try:
            about = path.stat()
            marks.append((about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size))
        except OSError as error:
            marks.append(error.errno)
    return marks


def load(settings: TlsSettings, *, now_s: float) -> Loaded:
    """Read, check and load the files; `now_s` by the wall clock. Blocks: file system. Errors: ConfigError."""
    marks, cert_file, key_file = marks_of(settings), settings.cert_file, settings.key_file
    assert cert_file is not None
    assert key_file is not None
    try:
        verbs, people = _with_pair(cert_file, key_file), _with_pair(cert_file, key_file)
        ends_s = {"server": _shown_until_s(people, cert_file)}
        if settings.client_ca_file is not None:
            ends_s["client_ca"] = _load_authorities(verbs, settings.client_ca_file, now_s=now_s)
    except ConfigError:
        if marks_of(settings) == marks:
            raise
        return load(settings, now_s=now_s)  # changed while it was read: perhaps a certificate of before, a key of after
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
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
            what = f"tls.key_file = {key_file}: is not the key of the certificate in tls.cert_file = {cert_file}"
            raise ConfigError(f"{what}; give the key that this certificate was requested with") from error
        fix = "accepted: PEM, not encrypted, RSA of 2048 bits or more, or an elliptic curve such as P-256"
        raise ConfigError(f"{pair}: OpenSSL cannot use them: {words_of(error)}; {fix}") from error
    except OSError as error:  # swapped while it is read
        raise ConfigError(f"{pair}: cannot be read: {words_of(error)}") from error
    return context


def _shown_until_s(context: ssl.SSLContext, cert_file: Path) -> float:
    """When the certificate ends that `context` shows (Unix seconds).

    OpenSSL finds some mistakes, and shows dates, only in a connection: the first client is one that trusts just it.
    """
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
        why = f"tls.cert_file = {cert_file}: no client would accept it: {words_of(error)}; renew it"
        raise ConfigError(why) from error
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def _load_authorities(context: ssl.SSLContext, ca_file: Path, *, now_s: float) -> float:
    """Demand certificates of these authorities; returns when the first of them ends that has not ended yet."""
    field, holds = f"tls.client_ca_file = {ca_file}", "the certificates of the authorities that sign those of clients"
    _must_be_readable("tls.client_ca_file", ca_file, holds)
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        what = f"{field}: OpenSSL cannot use it: {words_of(error)}"
        raise ConfigError(f"{what}; accepted: a PEM file with {holds}") from error
    context.verify_mode = ssl.CERT_REQUIRED
    ends_s = [ssl.cert_time_to_seconds(str(certificate["notAfter"])) for certificate in context.get_ca_certs()]
    if not ends_s:
        raise ConfigError(f"{field}: holds no certificate of an authority (CA:TRUE); accepted: a PEM file with {holds}")
    if max(ends_s) <= now_s:
        raise ConfigError(f"{field}: every certificate in it has expired; renew it")
    return min(end_s for end_s in ends_s if end_s > now_s)


def _must_be_readable(field: str, path: Path, holds: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        what = f"{field} = {path}: cannot be read: {words_of(error)}"
        raise ConfigError(f"{what}; accepted: a PEM file with {holds}") from error


class Rotation:
    """The contexts of the ports, which follow their files. Errors at the start: ConfigError."""

    def __init__(self, settings: TlsSettings, clock: Clock, telemetry: Telemetry) -> None:
        self._settings, self._clock, self._telemetry = settings, clock, telemetry
        self._said_at_s = -_SAID_AGAIN_S  # That a client was refused
        self._problem = ""
        self._looking = asyncio.Lock()  # Of two looks at once, both would find the same new files
        self._loaded = self._load()
        allowed = frozenset(settings.client_names)
        self.for_verbs = LivingContext.starting_with(self._loaded.for_verbs, self._refused, allowed=allowed)
        # Asks clients for no certificate
        self.for_people = LivingContext.starting_with(self._loaded.for_people, self._refused)

    async def follow(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_S)
            await self.check_files()

    async def check_files(self) -> None:
        """Look at the files once, and use them if they are new and good."""
        async with self._looking:
            try:
                if await asyncio.to_thread(marks_of, self._settings) != self._loaded.marks:
                    self._loaded = await asyncio.to_thread(self._load)
                    self.for_verbs.use(self._loaded.for_verbs)
                    self.for_people.use(self._loaded.for_people)
                    self._telemetry.tls_reloaded("loaded")
                    _log.info("new certificates are in force; open connections keep the old ones")
                self._problem = ""
            except ConfigError as error:
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._telemetry.tls_reloaded("refused")
                    _log.error("the certificates of before stay in force, the new ones cannot be used: %s", error)

    def _load(self) -> Loaded:
        loaded = load(self._settings, now_s=self._clock.now_s())
        for certificate, ends_s in loaded.ends_s.items():
            self._telemetry.tls_expiry.labels(certificate).set(ends_s)
        return loaded

    def _refused(self, why: str) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._said_at_s >= _SAID_AGAIN_S:
            self._said_at_s = now_s
            _log.warning("a connection was refused: %s", why)
