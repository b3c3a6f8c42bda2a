"""What is wrong with the ports together, in sentences that say the way out.

Rule: what would leave a port open to others, or close it to a probe that must be answered, is refused when the settings
are read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from extender.settings.elastic import ElasticSettings
from extender.settings.reports import ReportSettings
from extender.settings.tls import DebugAuth, TlsSettings, is_loopback


class _Ports(Protocol):
    """The settings that say which ports are open, and to which callers. They are read only, hence properties."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def debug_host(self) -> str: ...
    @property
    def debug_port(self) -> int | None: ...
    @property
    def debug_auth(self) -> DebugAuth: ...
    @property
    def debug_open(self) -> bool: ...
    @property
    def health_port(self) -> int | None: ...
    @property
    def tls(self) -> TlsSettings: ...
    @property
    def snapshot(self) -> Path | None: ...
    @property
    def elastic(self) -> ElasticSettings: ...
    @property
    def reports(self) -> ReportSettings: ...


def wrong_ports(settings: _Ports) -> Iterator[str]:
    """A sentence for each mistake; none: nothing is wrong."""
    tls, saved_cluster, for_people = settings.tls, settings.snapshot is not None, settings.debug_host
    if tls.client_ca_file is not None and settings.health_port is None:
        yield (
            "tls.client_ca_file needs health_port: the kubelet's probes and Prometheus show no client certificate, so "
            "give them a port of their own, such as 8890"
        )
    if settings.debug_auth is DebugAuth.TOKEN and settings.debug_port is None:
        yield "debug_auth: token needs debug_port: it guards that port, and there is none"
    if settings.debug_auth is DebugAuth.TOKEN and saved_cluster:
        yield "debug_auth: token needs a cluster: no API server is there to review a token; leave it off"
    if settings.debug_port is not None and not settings.debug_open and not is_loopback(for_people):
        if settings.debug_auth is DebugAuth.OFF:
            yield (
                f"debug_host {for_people} is not this machine alone, and the port for people shows every job of the "
                "cluster: set debug_auth: token, or debug_open: true if every client may see them"
            )
        elif tls.cert_file is None:
            yield (
                f"debug_host {for_people} is not this machine alone, and bearer tokens would cross the network "
                "readable: set tls.cert_file and tls.key_file, or debug_open: true if something else protects them"
            )
    if settings.reports.port is not None:
        yield from _wrong_report_port(settings)


def _wrong_report_port(settings: _Ports) -> Iterator[str]:
    reports = settings.reports
    if reports.port and reports.port in (settings.port, settings.debug_port, settings.health_port):
        yield "reports.port must differ from port, debug_port and health_port, or be 0 or null"
    if not settings.elastic.enabled:
        yield "reports.port needs elastic.enabled: true: without it no job is known that could report"
    if settings.snapshot is not None:
        yield "reports.port needs a live cluster: in a saved one (snapshot) no job runs that could report"
    if not reports.service_accounts and reports.secret_file is None:
        yield "reports.port needs a way to know the caller: service_accounts: true, or a secret_file"
    where = reports.host if reports.host is not None else settings.host
    if settings.tls.cert_file is None and not reports.plain and not is_loopback(where):
        yield (
            f"reports at {where} are from other machines, and tokens would cross the network readable: set "
            "tls.cert_file and tls.key_file, or reports.plain: true if something else protects them"
        )
