"""Access to the ports: certificates of the verbs' port, and proof of identity at the port for people.

Rule: what is refused when the settings are read is in `ports`; whether the files can be used is found out at start
(`extender.server.tls.files`), because only the process itself sees them.
"""

from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from extender.settings.types import Section, names


class DebugAuth(StrEnum):
    """How a caller of `debug_port` proves its identity."""

    OFF = "off"
    TOKEN = "token"  # noqa: S105 - the word, not a secret


class TlsSettings(Section):
    """TLS of the verbs' port; all files are PEM and are read again when they change (docs/how-to/tls.md)."""

    cert_file: Path | None = None
    """Certificate of this server, then the authorities between it and the root; `null`: plain HTTP."""
    key_file: Path | None = None
    """Private key of `cert_file`, not encrypted."""
    client_ca_file: Path | None = None
    """Authorities whose client certificates are accepted; without one of theirs no client reaches the verbs.

    The verbs' port then serves the verbs alone: probes and metrics are at `health_port`, documents at `debug_port`."""
    client_names: Annotated[tuple[str, ...], BeforeValidator(lambda value: names(value)), Field(max_length=100)] = ()
    """Names of clients that may connect, each compared as it is with the certificate's common name and alternative
    names; empty: every client with a certificate of `client_ca_file`."""

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file belong together: give both, or none for plain HTTP")
        if self.client_ca_file is not None and self.cert_file is None:
            raise ValueError("client_ca_file needs cert_file and key_file: without TLS no client shows a certificate")
        if self.client_names and self.client_ca_file is None:
            raise ValueError("client_names needs client_ca_file: only a checked certificate proves a name")
        if "" in self.client_names or len(set(self.client_names)) != len(self.client_names):
            raise ValueError("client_names must be different names that are not empty")
        return self


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost may be anything.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "netgang.example.org")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
