"""Access to the ports: certificates of the verbs' port, and proof of identity at the port for people.

Rule: what would leave a door open, or close it for a probe that must get in, is refused when the settings are read;
whether the files can be used is found out at start (`extender.server.tls.files`), because only the process itself sees
them.
"""

from collections.abc import Iterator
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


def open_doors(
    *,
    tls: TlsSettings,
    health_port: int | None,
    debug_port: int | None,
    debug_host: str,
    debug_auth: DebugAuth,
    debug_open: bool,
    saved_cluster: bool,
) -> Iterator[str]:
    """What is wrong with these ports together, as sentences that say the way out; none: nothing."""
    if tls.client_ca_file is not None and health_port is None:
        yield (
            "tls.client_ca_file needs health_port: the kubelet's probes and Prometheus show no client certificate, so "
            "give them a port of their own, such as 8890"
        )
    if debug_auth is DebugAuth.TOKEN and debug_port is None:
        yield "debug_auth: token needs debug_port: it guards that port, and there is none"
    if debug_auth is DebugAuth.TOKEN and saved_cluster:
        yield "debug_auth: token needs a cluster: no API server is there to review a token; leave it off"
    if debug_port is not None and not debug_open and not is_loopback(debug_host):
        if debug_auth is DebugAuth.OFF:
            yield (
                f"debug_host {debug_host} is not this machine alone, and the port for people shows every job of the "
                "cluster: set debug_auth: token, or debug_open: true if every client may see them"
            )
        elif tls.cert_file is None:
            yield (
                f"debug_host {debug_host} is not this machine alone, and bearer tokens would cross the network "
                "readable: set tls.cert_file and tls.key_file, or debug_open: true if something else protects them"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost may be anything.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "netgang.example.org")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
