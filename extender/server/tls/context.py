"""TLS contexts that change while connections live, and a handshake that says why it failed.

Why a context of contexts: a server is given its context once, and loading a new pair into a living one is not atomic: a
certificate whose key does not fit stays in it, and authorities can only be added. So every change makes a new context,
checked as a whole beforehand, and `LivingContext` hands it to each new connection; the others keep what they have.

Rules:
- A connection whose client may not speak never reaches HTTP: names are checked at the end of the handshake.
- Sessions are not resumed by ticket, and never over a change: each new connection shows its certificate again.
- A refused client gets a TLS alert, so that its own log names the cause and not just a lost connection.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias


class Outcome(StrEnum):
    """How a handshake ended."""

    ACCEPTED = "accepted"
    NO_CERTIFICATE = "no_certificate"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    UNKNOWN_AUTHORITY = "unknown_authority"
    WRONG_PURPOSE = "wrong_purpose"
    WRONG_NAME = "wrong_name"
    REFUSED_BY_CLIENT = "refused_by_client"
    NO_TLS = "no_tls"
    OTHER = "other"


_BY_CODE: Final[Mapping[int, Outcome]] = {  # X509_V_ERR_… of OpenSSL → what it means
    2: Outcome.UNKNOWN_AUTHORITY,
    9: Outcome.NOT_YET_VALID,
    10: Outcome.EXPIRED,
    18: Outcome.UNKNOWN_AUTHORITY,
    19: Outcome.UNKNOWN_AUTHORITY,
    20: Outcome.UNKNOWN_AUTHORITY,
    21: Outcome.UNKNOWN_AUTHORITY,
    26: Outcome.WRONG_PURPOSE,
}

_BY_REASON: Final[Mapping[str, Outcome]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": Outcome.NO_CERTIFICATE,
    "HTTP_REQUEST": Outcome.NO_TLS,
    "WRONG_VERSION_NUMBER": Outcome.NO_TLS,
}
HandshakeEnded: TypeAlias = Callable[[Outcome, str], None]  # Hears the outcome, and more for people


class WrongNameError(ssl.SSLCertVerificationError):
    """The client's certificate is good, and names no client that may connect."""


class LivingContext(ssl.SSLContext):
    """The context that a server is given once: each connection gets the newest of `use`."""

    _current: "GuardedContext"

    @classmethod
    def of(cls, first: "GuardedContext") -> "LivingContext":
        """A context that hands out `first` until another one is used."""
        living = cls(ssl.PROTOCOL_TLS_SERVER)
        living.use(first)
        return living

    def use(self, current: "GuardedContext") -> None:
        """Take another context for all connections from now on; those that exist keep theirs."""
        self._current = current

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """The TLS of one new connection; the event loop calls this."""
        return self._current.wrap_bio(*arguments, **more)


class GuardedContext(ssl.SSLContext):
    """A server's context: TLS 1.2 at least, HTTP/1.1, no resumption by ticket, each handshake's end is reported."""

    _ended: HandshakeEnded
    _allowed: frozenset[str]

    @classmethod
    def guarding(cls, ended: HandshakeEnded, *, allowed: frozenset[str] = frozenset()) -> "GuardedContext":
        """A context without certificates yet; `allowed` are the names of clients, none: any client."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        context.set_alpn_protocols(["http/1.1"])
        context.sslobject_class = _Connection
        context._ended = ended
        context._allowed = allowed
        return context

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """The TLS of one connection, which knows where its alerts go."""
        connection = super().wrap_bio(incoming, outgoing, *arguments, **more)
        assert isinstance(connection, _Connection)
        connection.outgoing, connection.ended, connection.allowed = outgoing, self._ended, self._allowed
        return connection


class _Connection(ssl.SSLObject):
    """One connection's TLS. A failure is final: whatever comes afterwards, the handshake never succeeds."""

    outgoing: ssl.MemoryBIO  # Where bytes for the client go
    ended: HandshakeEnded
    allowed: frozenset[str]
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake. Errors: as SSLObject's; a failure with an alert is raised at the next call.

        Event loops send what is outgoing when the handshake wants to read, and drop it when it fails, with the alert.
        """
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
            found = names_of(self.getpeercert() or {}) if self.allowed else self.allowed
            if self.allowed and not found & self.allowed:
                named = ", ".join(sorted(found)) or "no client"
                raise WrongNameError(f"the client's certificate names {named}, which tls.client_names does not allow")
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            self.ended(*_meaning(error))
            if self.outgoing.pending:
                raise ssl.SSLWantReadError from error
            raise
        self.ended(Outcome.ACCEPTED, "")


def _meaning(error: ssl.SSLError) -> tuple[Outcome, str]:
    """What a failed handshake means, as one of few constant words, and in OpenSSL's words."""
    if isinstance(error, WrongNameError):
        return Outcome.WRONG_NAME, str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_CODE.get(error.verify_code, Outcome.OTHER), error.verify_message
    alert = Outcome.REFUSED_BY_CLIENT if "_ALERT_" in (error.reason or "") else Outcome.OTHER
    return _BY_REASON.get(error.reason or "", alert), words_of(error)


def words_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words."""
    return (error.reason or str(error)).replace("_", " ").lower()


def names_of(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Common name and alternative names of a peer's certificate, as `SSLObject.getpeercert` gives it.

    >>> sorted(names_of({"subject": ((("commonName", "a"),),), "subjectAltName": (("DNS", "b"), ("URI", "c:/d"))}))
    ['a', 'b', 'c:/d']
    """
    subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
    common = {value for part in subject for kind, value in part if kind == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})
