"""The ports: certificates of the verbs' port, and the port of reports.

Rule: what would leave a port open to others, let tokens cross a network readable, or close a port to a probe that must
be answered, is refused when the settings are read (here, and in `Settings`), in sentences that say the way out. Whether
files can be used is found out at start (`extender.server.tls`), because only the process itself sees them.
"""

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, TypeAlias

from msgspec import Meta

from extender.settings.reading import Section

Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class TlsSettings(Section, frozen=True):
    """TLS of the verbs' port; all files are PEM and are read again when they change (docs/how-to/tls.md)."""

    cert_file: Path | None = None
    """Certificate of this server, then the authorities between it and the root; `null`: plain HTTP."""
    key_file: Path | None = None
    """Private key of `cert_file`, not encrypted."""
    client_ca_file: Path | None = None
    """Authorities whose client certificates are accepted; without one of theirs no client reaches the verbs. The verbs'
    port then serves the verbs alone: probes and metrics are at `health_port`, documents at `debug_port`."""
    client_names: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Names of clients that may connect, each compared as it is with the certificate's common name and alternative
    names; empty: every client with a certificate of `client_ca_file`."""

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file belong together: give both, or none for plain HTTP")
        if self.client_ca_file is not None and self.cert_file is None:
            raise ValueError("client_ca_file needs cert_file and key_file: without TLS no client shows a certificate")
        if self.client_names and self.client_ca_file is None:
            raise ValueError("client_names needs client_ca_file: only a checked certificate proves a name")
        if "" in self.client_names or len(set(self.client_names)) != len(self.client_names):
            raise ValueError("client_names must be different names that are not empty")


class ReportSettings(Section, frozen=True):
    """Reports of training jobs and of the probe, at a port of their own (docs/how-to/reporting.md)."""

    port: Port | None = None
    """Port for `POST /v1/jobs/{namespace}/{name}/metrics` and `POST /v1/probe` alone, under TLS if there is a
    `tls.cert_file`; no client certificate is asked for. `null`: none, no report is taken; 0: a free one."""
    audiences: tuple[Text, ...] = ()
    """What a token must have been made for, such as `netgang`; a pod's usual token is then refused. Empty: for the API
    server, as the usual one is (docs/how-to/reporting.md)."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost may be anything.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "netgang.example.org")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
