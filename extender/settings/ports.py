"""The ports: addresses and certificates.

Rule: what would leave a port open to others, let tokens cross a network readable, or close a port to a probe that must
be answered, is refused when the settings are read, in sentences that say the way out. Whether files can be used is
found out at start (`extender.server.tls`), because only the process itself sees them.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from extender.settings.types import Section, names


class TlsSettings(Section):
    """TLS of the verbs' port; all files are PEM and are read again when they change (docs/how-to/tls.md)."""

    cert_file: Path | None = None
    """Certificate of this server, then the authorities between it and the root; `null`: plain HTTP."""
    key_file: Path | None = None
    """Private key of `cert_file`, not encrypted."""
    client_ca_file: Path | None = None
    """Authorities whose client certificates are accepted; without one of theirs no client reaches the verbs. The verbs'
    port then serves the verbs alone: probes and metrics are at `health_port`, documents at `debug_port`."""
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


class ReportSettings(Section):
    """Reports of training jobs and of the probe, at a port of their own (docs/how-to/reporting.md)."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port for `POST /v1/jobs/{namespace}/{name}/metrics` and `POST /v1/probe` alone, under TLS if there is a
    `tls.cert_file`; no client certificate is asked for. `null`: none, no report is taken; 0: a free one."""
    audiences: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(names)] = ()
    """What a token must have been made for, such as `netgang`; a pod's usual token is then refused. Empty: for the API
    server, as the usual one is (docs/how-to/reporting.md)."""
    plain: bool = False
    """netgang's `host` may be more than the loopback although there is no TLS: something else protects the tokens."""


class PortSettings(Section):
    """Where the service listens, and which cluster it serves."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to listen on. The default is this machine only: any client that reaches the verbs can ask for a bind."""
    port: int = Field(default=8888, ge=0, le=65535)
    """Port to listen on; 0: a free one."""
    debug_port: int | None = Field(default=None, ge=0, le=65535)
    """A second port with the same answers, for people: no call to it changes anything. `null`: none; 0: a free one."""
    debug_host: str = Field(default="127.0.0.1", min_length=1)
    """Address of `debug_port`. The default is what `kubectl port-forward` reaches inside a pod, and nothing else."""
    debug_open: bool = False
    """`debug_host` may be more than the loopback: every client that reaches it sees every job of the cluster."""
    health_port: int | None = Field(default=None, ge=0, le=65535)
    """A port with /healthz, /readyz and /metrics alone, always plain HTTP: for probes and Prometheus, which show no
    client certificate. `null`: none, they are at `port`; 0: a free one."""
    health_host: str | None = Field(default=None, min_length=1)
    """Address of `health_port`; `null`: the same as `host`."""
    tls: TlsSettings = TlsSettings()
    """Certificates of `port`, and of `debug_port` where that is not on the loopback."""
    kubeconfig: Path | None = None
    """Credentials of the cluster; `null`: those of the pod, else the usual kubeconfig."""
    snapshot: Path | None = None
    """A saved cluster (`kubectl get nodes,pods,podgroups -A -o json`) to serve instead of a live one."""

    @field_validator("debug_port", "health_port")
    @classmethod
    def _another_port(cls, port: int | None, info: ValidationInfo) -> int | None:
        others = [name for name in ("port", "debug_port") if name != info.field_name]
        if port and port in [info.data.get(name) for name in others]:
            raise ValueError(f"must differ from {' and '.join(others)}, or be 0 or null")
        return port


def wrong_ports(settings: PortSettings) -> Iterator[str]:
    """A sentence for each mistake; none: nothing is wrong."""
    if settings.tls.client_ca_file is not None and settings.health_port is None:
        yield (
            "tls.client_ca_file needs health_port: the kubelet's probes and Prometheus show no client certificate, so "
            "give them a port of their own, such as 8890"
        )
    if settings.debug_port is not None and not settings.debug_open and not is_loopback(settings.debug_host):
        yield (
            f"debug_host {settings.debug_host} is not this machine alone, and the port for people shows every job of "
            "the cluster: set debug_open: true if every client that reaches it may see them"
        )


def wrong_reports(settings: PortSettings, reports: ReportSettings, *, elastic: bool, probe: bool) -> Iterator[str]:
    """The same for the port of reports."""
    if probe and reports.port is None:
        yield "probe.enabled needs reports.port, where agents report"
    if reports.port is None:
        return
    if reports.port and reports.port in (settings.port, settings.debug_port, settings.health_port):
        yield "reports.port must differ from port, debug_port and health_port, or be 0 or null"
    if not elastic and not probe:
        yield (
            "reports.port needs elastic.enabled: true or probe.enabled: true: without them neither a job nor an agent "
            "is known that could report"
        )
    if settings.snapshot is not None:
        yield "reports.port needs a live cluster: in a saved one (snapshot) no job runs that could report"
    where = settings.host
    if settings.tls.cert_file is None and not reports.plain and not is_loopback(where):
        yield (
            f"reports at {where} are from other machines, and tokens would cross the network readable: set "
            "tls.cert_file and tls.key_file, or reports.plain: true if something else protects them"
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
