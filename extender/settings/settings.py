"""What an operator may choose: one value, read once at start, refused as a whole when any part of it is wrong.

Rules: what stops or resizes a running gang does so by default only where the gang declares that it may. A bind call
takes less than kube-scheduler's `httpTimeout`, for a later Binding puts the pod where it is no longer wanted. What
would leave a port open to others, let tokens cross a network readable, or close a port to a probe that must be
answered, is refused here, in sentences that say the way out; whether files can be used is found out at start
(`extender.server.tls`).
"""

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from extender.runtime.log_lines import LogFormat
from extender.settings.network import NetworkSettings
from extender.settings.reading import Layer, Section, Text, merge, read_environment, read_file, read_record, unfold
from scoring.model.policy import Policy, Positive
from scoring.scaling.job import Options

COMMIT_TIMEOUT_S: Final = 15.0
"""How long a gang's Bindings may wait for their turn and for the API server before they are answered as failed."""
BINDING_MAX_S: Final = 6.0
"""Longest that one Binding takes, with its repetitions and the read that finds out its outcome."""
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535)]
LEASE_NAME = "netgang-leader"  # Replicas of one installation are in one namespace
HOME = "netgang-system"  # Netgang's own namespace, as in manifests/
MARGIN_S: Final = 1.0
"""For the pod that the watch has not brought yet (half a second), the network, and an event loop that is busy."""


def longest_bind_s(*, hold_s: float, commit_s: float = COMMIT_TIMEOUT_S) -> float:
    """Seconds from a bind call to its answer, at most.

    >>> longest_bind_s(hold_s=25.0), longest_bind_s(hold_s=10.0, commit_s=5.0)
    (47.0, 21.0)
    """
    return hold_s + commit_s + min(BINDING_MAX_S, commit_s) + MARGIN_S  # the last Binding may begin at the last moment


class LeaseSettings(Section, frozen=True):
    """The Lease (coordination.k8s.io) on which replicas agree, with `leader_election: on`."""

    duration_s: Annotated[int, Meta(ge=1, le=3600)] = 3
    """How long the others wait for a leader that gives no sign; whole seconds. From a leader's death until another acts
    it takes at worst this, 1/15 of it (a look of the others), and three answers of the API server: 3.2 s and those
    answers."""


def own_pod(environment: Mapping[str, str]) -> tuple[str, str]:
    """Namespace and name of the pod that this process runs in, by the downward API; "" each: they are not known."""
    namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
    return (namespace, name) if namespace and name else ("", "")


class TlsSettings(Section, frozen=True):
    """TLS of the verbs' port; all files are PEM and are read again when they change (docs/how-to/operate.md)."""

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
    """Reports of training jobs and of the probe, at a port of their own (docs/how-to/elastic-and-reports.md)."""

    port: Port | None = None
    """Port for `POST /v1/jobs/{namespace}/{name}/metrics` and `POST /v1/probe` alone, under TLS if there is a
    `tls.cert_file`; no client certificate is asked for. `null`: none, no report is taken; 0: a free one."""
    audiences: tuple[Text, ...] = ()
    """What a token must have been made for, such as `netgang`; a pod's usual token is then refused. Empty: for the API
    server, as the usual one is (docs/how-to/elastic-and-reports.md)."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost may be anything.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "netgang.example.org")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LogLevel(StrEnum):
    """From which importance on a line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class StatusMode(StrEnum):
    """Whether netgang writes the status of the PodGroups of its gangs."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class RecordSettings(Section, frozen=True):
    """Snapshots and the plans made from them, kept in memory and served at `/v1/record` for `netgang plan FILE`."""

    enabled: bool = False
    """Keep it. It costs a thread about as much CPU as planning does."""


class ThroughputSettings(Section, frozen=True):
    """Throughput of links, measured by iperf3 in single bursts: one pair of nodes at a time in the whole cluster."""

    enabled: bool = False
    """Have agents measure throughput. Their image needs iperf3, and their NetworkPolicy TCP ports 8863 to 8870."""


class ProbeSettings(Section, frozen=True):
    """Packet loss and delay that agents on the nodes measure and report at `reports.port` (docs/reference/probe.md)."""

    fixed: ClassVar = frozenset({"service_account"})  # Of netgang's own namespace: `Settings.load`

    enabled: bool = False
    """Take reports of agents at `POST /v1/probe`, assign their peers, and use what they measure."""
    service_account: str = f"{HOME}/netgang-probe"
    """`namespace/name` of the agents' service account: only its tokens, each bound to a pod, may report links."""
    throughput: ThroughputSettings = ThroughputSettings()
    """Bursts of throughput; off by default."""

    def __post_init__(self) -> None:
        if self.throughput.enabled and not self.enabled:
            raise ValueError("throughput.enabled needs enabled: true: the probe's agents run the bursts")


class Settings(Policy, frozen=True, kw_only=True):
    """All settings of the service: those that decide, and these. Build one with `Settings.load`."""

    fixed: ClassVar = Policy.fixed

    scheduler_names: Annotated[tuple[str, ...], Meta(min_length=1)] = ("netgang",)
    """Pods with one of these in `spec.schedulerName` are ours; all others are load and never touched."""
    extender: bool = True
    """Whether kube-scheduler asks netgang, by `extenders` in its configuration. `false`: only gangs of Kubernetes' own
    whose pods have the gate `netgang.io/gang` are ours, other pods are load (docs/how-to/gates-and-schedulers.md)."""
    host: Text = "127.0.0.1"
    """Address to listen on. The default is this machine only: any client that reaches the verbs can ask for a bind."""
    port: Port = 8888
    """Port to listen on; 0: a free one."""
    debug_port: Port | None = None
    """A second port with the same answers, for people: no call to it changes anything. `null`: none; 0: a free one."""
    debug_host: Text = "127.0.0.1"
    """Address of `debug_port`. The default is what `kubectl port-forward` reaches inside a pod, and nothing else."""
    debug_open: bool = False
    """`debug_host` may be more than the loopback: every client that reaches it sees every job of the cluster."""
    health_port: Port | None = None
    """A port with /healthz, /readyz and /metrics alone, always plain HTTP: for probes and Prometheus, which show no
    client certificate. At `host`, or at 0.0.0.0 where that is on the loopback: they ask from elsewhere. `null`: none,
    they are at `port`; 0: a free one."""
    tls: TlsSettings = TlsSettings()
    """Certificates of `port`, and of `debug_port` where that is not on the loopback."""
    kubeconfig: Path | None = None
    """Credentials of the cluster; `null`: those of the pod, else the usual kubeconfig."""
    snapshot: Path | None = None
    """A saved cluster (`kubectl get nodes,pods,podgroups -A -o json`) to serve instead of a live one."""
    http_timeout_s: Positive = 60.0
    """`httpTimeout` of the extender entry with the bind verb. Above the hold limit and 22 s: a Binding waits 15 s at
    most for its turn, takes 6 s at most, and 1 s is margin; no bind call takes longer."""
    sees_all_nodes: bool = True
    """kube-scheduler runs with `percentageOfNodesToScore: 100`, so a node missing in a request was refused by one of
    its other filters. `false`: it may have been left out by sampling, and nothing is learned from it."""
    pod_group_status: StatusMode = StatusMode.AUTO
    """Whether the status of our gangs' PodGroups (scheduling.x-k8s.io) is written: `on`, `off`, or `auto`: unless
    another controller does (docs/explanation/queue.md)."""
    leader_election: bool = False
    """`on`: of several replicas one acts, by a Lease; the others follow the cluster and take over within seconds."""
    lease: LeaseSettings = LeaseSettings()
    """The Lease, and its times."""
    note_keys_dir: Path = Path("/etc/netgang-notes")
    """Directory with `key`, by which netgang signs its notes on pods and jobs, and `former-key`, by which it still
    reads them (docs/reference/objects.md). Without a `key` no gang is suspended and no job resized."""
    log_format: LogFormat = LogFormat.TEXT
    """`text` for people, `json` for machines: the same fields."""
    log_level: LogLevel = LogLevel.INFO
    """From which importance on a line is written; at `info` that is one line per decision, at `debug`
    also one for each node that is offered and each gate that is removed."""
    network: NetworkSettings = NetworkSettings()
    """Where measurements come from and how long they are believed."""
    elastic: Options = Options()
    """Running jobs that give up workers for gangs that wait, and get them back."""
    reports: ReportSettings = ReportSettings()
    """Where training jobs report how they are doing."""
    probe: ProbeSettings = ProbeSettings()
    """netgang's own measurements between nodes."""
    record: RecordSettings = RecordSettings()
    """The last decisions, to be made again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.scheduler_names
        form = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
        if len(set(names)) != len(names) or not all(map(form.fullmatch, names)):
            raise ValueError(
                "scheduler_names: must be different scheduler names such as netgang (lower case, digits, - and .)"
            )
        for name, others in (("debug_port", ("port",)), ("health_port", ("port", "debug_port"))):
            if (port := getattr(self, name)) and port in [getattr(self, other) for other in others]:
                raise ValueError(f"{name}: must differ from {' and '.join(others)}, or be 0 or null")
        longest_s = longest_bind_s(hold_s=self.hold_limit_s)
        if longest_s >= self.http_timeout_s:
            raise ValueError(
                f"hold_limit_s ({self.hold_limit_s:g}) + the wait for a Binding's turn ({COMMIT_TIMEOUT_S:g}) + the "
                f"slowest Binding ({BINDING_MAX_S:g}) + a margin of {MARGIN_S:g} s, together {longest_s:g}, must be "
                f"below http_timeout_s ({self.http_timeout_s:g}): kube-scheduler gives up a bind after http_timeout_s, "
                "and a Binding posted later could put the pod where it is no longer wanted"
            )
        if self.snapshot is not None and self.kubeconfig is not None:
            raise ValueError("snapshot and kubeconfig exclude each other: serve a saved cluster or a live one")
        if self.snapshot is not None and self.leader_election:
            raise ValueError("leader_election needs a live cluster: a saved one (snapshot) has no Lease")
        if wrong := "; ".join(self._open_doors()):
            raise ValueError(wrong)

    def _open_doors(self) -> Iterator[str]:
        reports = self.reports
        if self.tls.client_ca_file is not None and self.health_port is None:
            yield (
                "tls.client_ca_file needs health_port: the kubelet's probes and Prometheus show no client certificate, "
                "so give them a port of their own, such as 8890"
            )
        if self.debug_port is not None and not self.debug_open and not is_loopback(self.debug_host):
            yield (
                f"debug_host {self.debug_host} is not this machine alone, and the port for people shows every job of "
                "the cluster: set debug_open: true if every client that reaches it may see them"
            )
        if self.probe.enabled and reports.port is None:
            yield "probe.enabled needs reports.port, where agents report"
        if reports.port is None:
            return
        if reports.port and reports.port in (self.port, self.debug_port, self.health_port):
            yield "reports.port must differ from port, debug_port and health_port, or be 0 or null"
        if not self.elastic.enabled and not self.probe.enabled:
            yield (
                "reports.port needs elastic.enabled: true or probe.enabled: true: without them neither a job nor an "
                "agent is known that could report"
            )
        if self.snapshot is not None:
            yield "reports.port needs a live cluster: in a saved one (snapshot) no job runs that could report"
        if self.tls.cert_file is None and not is_loopback(self.host):
            yield (
                f"reports at {self.host} are from other machines, and tokens would cross the network readable: set "
                "tls.cert_file and tls.key_file"
            )

    @classmethod
    def load(cls, file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> "Settings":
        """Read `file`, the environment and `overrides`, the last one wins. ConfigError names every mistake.

        Names of `overrides` may be joined by dots; its `None` is "not given", inside a mapping it is a value.
        """
        given = unfold({name: value for name, value in (overrides or {}).items() if value is not None})
        names = set(cls.__struct_fields__) - cls.fixed
        layers: tuple[Layer, ...] = (
            ("the command line", given),
            ("the environment", read_environment(names, os.environ)),
            (f"file {file}", read_file(file) if file is not None else {}),
        )
        merged: dict[str, Any] = {}
        for _, values in reversed(layers):
            merged = merge(merged, values)
        account = f"{os.environ.get('POD_NAMESPACE') or HOME}/netgang-probe"
        settings = cls().changed(merged, layers)
        return replace(settings, probe=replace(settings.probe, service_account=account))

    def changed(self, values: Mapping[str, Any], layers: tuple[Layer, ...] = (), *, fixed: bool = False) -> "Settings":
        """These with others, sections merged; `layers`: where from; `fixed`: also what is no setting. ConfigError."""
        return read_record(self, values, layers, fixed=fixed)

    def policy(self) -> Policy:
        """The part that decides, as the planner takes it."""
        chosen = {name: getattr(self, name) for name in Policy.__struct_fields__}
        ages = {"soft_ttl_s": self.network.soft_ttl_s, "hard_ttl_s": self.network.hard_ttl_s}
        return Policy(**{**chosen, "score": replace(self.score, **ages)})
