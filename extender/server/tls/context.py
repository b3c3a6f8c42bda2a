"""TLS contexts that change while connections live, and a handshake that says why it failed.

Why a context of contexts: a server is given its context once, and loading a new pair into a living one is not atomic: a
certificate whose key does not fit stays in it, and authorities can only be added. So every change makes a new context,
checked as a whole beforehand, and `LivingContext` hands it to each new connection; the others keep what they have.

Rules:
- A connection whose client may not speak never reaches HTTP: names are checked at the end of the handshake.
- A refused client gets a TLS alert, so that its own log names the cause and not just a lost connection.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Refused: TypeAlias = Callable[[str], None]  # Hears why a client was refused, for people


class LivingContext(ssl.SSLContext):
    """The context that a server is given once: each connection gets the newest of `use`."""

    _current: ssl.SSLContext
    _refused: Refused
    _allowed: frozenset[str]

    @classmethod
    def of(cls, first: ssl.SSLContext, refused: Refused, *, allowed: frozenset[str] = frozenset()) -> "LivingContext":
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


def words_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # only OpenSSL's own have one
    return reason.replace("_", " ").lower() if reason else str(error)


def names_of(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Common name and alternative names of a peer's certificate, as `SSLObject.getpeercert` gives it.

    >>> sorted(names_of({"subject": ((("commonName", "a"),),), "subjectAltName": (("DNS", "b"), ("URI", "c:/d"))}))
    ['a', 'b', 'c:/d']
    """
    subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
    common = {value for part in subject for kind, value in part if kind == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})
