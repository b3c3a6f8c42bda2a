"""What an operator may choose: one value, read once at start, refused as a whole when any part of it is wrong.

Why one place: a setting that is read where it is used cannot be checked before the first pod waits for it. Rule: the
command line wins over the environment (`NETGANG_…`, nested with `__`), that over the settings file (YAML or JSON),
that over the default; an unknown name is refused; the refusal names the setting, where it was set, its value and what
is accepted. Only `Settings.load` reads the environment. Relative paths are relative to the working directory.
"""

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from msgspec.structs import replace
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator

from extender.errors import ConfigError
from extender.runtime.log_lines import LogFormat
from extender.settings.call_bound import BINDING_MAX_S, COMMIT_TIMEOUT_S, MARGIN_S, longest_bind_s
from extender.settings.features import (
    ElasticSettings,
    ProbeSettings,
    QueueSettings,
    RecordSettings,
    RepairSettings,
    StatusMode,
)
from extender.settings.layers import Layer, merge, mistakes, read_environment, read_file, unfold
from extender.settings.leadership import LeaderElection, LeaseSettings
from extender.settings.network import NetworkSettings, ScoreSettings
from extender.settings.ports import PortSettings, ReportSettings, wrong_ports, wrong_reports
from extender.settings.types import NotNegative, OnOrOff, Positive, names
from scoring.ids import ZoneName
from scoring.model.policy import AdmitTo, Policy, Preempting, ScorePolicy, Selection, ZonePolicy

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_SCHEDULER_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


_AS_IT_IS = frozenset(
    {"selection", "zone_policy", "spill_wait_s", "admit_to", "zone_label", "hold_limit_s", "preemption"}
)
"""Settings that are fields of `Policy`."""


class LogLevel(StrEnum):
    """From which importance on a line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _label_key(text: str) -> str:
    if not _LABEL_KEY.fullmatch(text):
        raise ValueError("must be a Kubernetes label or annotation key such as topology.kubernetes.io/zone")
    return text


LabelKey: TypeAlias = Annotated[str, Field(max_length=317), AfterValidator(_label_key)]


class Settings(PortSettings):
    """All settings of the service. Build one with `Settings.load`."""

    scheduler_names: Annotated[tuple[str, ...], BeforeValidator(names)] = Field(default=("netgang",), min_length=1)
    """Pods with one of these in `spec.schedulerName` are ours; all others are load and never touched."""
    extender: bool = True
    """Whether kube-scheduler asks netgang, by `extenders` in its configuration. `false`: only gangs of Kubernetes' own
    whose pods have the gate `netgang.io/gang` are ours, and all other pods are load (docs/how-to/native.md)."""
    zone_label: LabelKey = "topology.kubernetes.io/zone"
    """Node label that names the node's zone."""
    hold_limit_s: Positive = 25.0
    """How long a bind is held until min-available members are there. Members of a gang arrive tens of milliseconds
    apart; the room of held members is idle, so seconds suffice."""
    http_timeout_s: Positive = 60.0
    """`httpTimeout` of the extender entry with the bind verb. Above the hold limit and 22 s: a Binding waits 15 s at
    most for its turn, takes 6 s at most, and 1 s is margin; no bind call takes longer."""
    sees_all_nodes: bool = True
    """kube-scheduler runs with `percentageOfNodesToScore: 100`, so a node missing in a request was refused by one of
    its other filters. `false`: it may have been left out by sampling, and nothing is learned from it."""
    admit_to: AdmitTo = AdmitTo.NODES
    """What a pod's required node affinity names once its gate `netgang.io/gang` is removed: the planned `nodes` and
    spares (kube-scheduler then looks at those alone), or only the `zone`."""
    pod_group_status: Annotated[StatusMode, OnOrOff] = StatusMode.AUTO
    """Whether the status of our gangs' PodGroups (scheduling.x-k8s.io) is written: `on`, `off`, or `auto`: unless
    another controller does (docs/explanation/queue.md)."""
    leader_election: Annotated[LeaderElection, OnOrOff] = LeaderElection.OFF
    """`on`: of several replicas one acts, by a Lease; the others follow the cluster and take over within seconds."""
    lease: LeaseSettings = LeaseSettings()
    """The Lease, and its times."""
    note_keys_dir: Path = Path("/etc/netgang-notes")
    """Directory with `key`, by which netgang signs its notes on pods and jobs, and `former-key`, by which it still
    reads them (docs/reference/notes.md). Without a `key` no gang is suspended and no job resized."""
    log_format: LogFormat = LogFormat.TEXT
    """`text` for people, `json` for machines: the same fields."""
    log_level: LogLevel = LogLevel.INFO
    """From which importance on a line is written; at `info` that is one line per decision, at `debug`
    also one for each node that is offered and each gate that is removed."""
    network: NetworkSettings = NetworkSettings()
    """Where measurements come from and how long they are believed."""
    score: ScoreSettings = ScoreSettings()
    """How a measured link becomes points."""
    repair: RepairSettings = RepairSettings()
    """Gangs that lost members after they had started."""
    elastic: ElasticSettings = ElasticSettings()
    """Running jobs that give up workers for heavier gangs, and get them back."""
    reports: ReportSettings = ReportSettings()
    """Where training jobs report how they are doing."""
    probe: ProbeSettings = ProbeSettings()
    """netgang's own measurements between nodes."""
    record: RecordSettings = RecordSettings()
    """The last decisions, to be made again."""
    queue: QueueSettings = QueueSettings()
    """The order of the queue, and how much a namespace may have."""
    preemption: Annotated[Preempting, OnOrOff] = Preempting.OFF
    """`gangs`: evict the fewest whole gangs for a waiting one of higher priority. `levels`: besides, suspend gangs of
    the same priority that have had more of the cluster, where they may be (docs/explanation/preemption.md)."""
    min_run_s: NotNegative = 1800.0
    """`levels`: how long a gang has run at least before it is suspended; longer than between two checkpoints."""
    selection: Selection = Selection.SUBSET
    """How nodes are chosen inside a zone: the best subset, the published greedy walk, or the fewest nodes."""
    zone_policy: ZonePolicy = ZonePolicy.REQUIRED
    """`required`: one zone or nothing; `preferred`: several zones after `spill_wait_s`."""
    spill_wait_s: NotNegative = 300.0
    """How long a gang with zone policy `preferred` waits for a single zone."""
    zone_distance_ms: Mapping[str, Mapping[str, NotNegative]] = Field(default_factory=dict)
    """zone or endpoint → zone → one-way delay in ms, where none is measured; one direction stands for both."""

    @field_validator("scheduler_names")
    @classmethod
    def _distinct_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names) or not all(_SCHEDULER_NAME.fullmatch(name) for name in names):
            raise ValueError("must be different scheduler names such as netgang (lower case, digits, - and .)")
        return names

    @field_validator("zone_distance_ms")
    @classmethod
    def _other_zones(cls, table: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        for zone, row in table.items():
            if zone in row:
                raise ValueError(f"names the distance from {zone!r} to itself, which is always 0: leave it out")
        return table

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
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
        if self.snapshot is not None and self.leader_election is LeaderElection.ON:
            raise ValueError("leader_election needs a live cluster: a saved one (snapshot) has no Lease")
        wrong = (
            *wrong_ports(self),
            *wrong_reports(self, self.reports, elastic=self.elastic.enabled, probe=self.probe.enabled),
        )
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @classmethod
    def load(cls, file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> "Settings":
        """Read `file`, the environment and `overrides`, the last one wins. ConfigError names every mistake.

        Keys of `overrides` are settings' names, nested ones joined by dots (`network.sources`) or as mappings; a
        value of `None` means "not given", as command-line options have it; inside a mapping it is a value.
        """
        given = unfold({name: value for name, value in (overrides or {}).items() if value is not None})
        layers: tuple[Layer, ...] = (
            ("the command line", given),
            ("the environment", read_environment(cls, os.environ)),
            (f"file {file}", read_file(file) if file is not None else {}),
        )
        merged: dict[str, Any] = {}
        for _, values in reversed(layers):
            merged = merge(merged, values)
        try:
            return cls(**merged)
        except ValidationError as error:
            raise ConfigError("\n".join(mistakes(cls, error, layers))) from error

    def policy(self, base: Policy = Policy()) -> Policy:
        """The part that decides, as the planner takes it; from `base` what no setting says."""
        soft_s, hard_s = self.network.soft_ttl(), self.network.hard_ttl()
        same: dict[str, Any] = {name: value for name, value in self if name in _AS_IT_IS}
        return replace(
            base,
            **same,
            score=ScorePolicy(**dict(self.score), soft_ttl_s=soft_s, hard_ttl_s=hard_s),
            zone_distance_ms=_both_ways(self.zone_distance_ms),
            queue=self.queue.policy(base.queue),
            service=replace(base.service, min_run_s=self.min_run_s),
            repair=self.repair.policy,
        )


def _both_ways(table: Mapping[str, Mapping[str, float]]) -> tuple[tuple[tuple[ZoneName, ZoneName], float], ...]:
    """Every distance in both directions; the direction that is written wins over the one that is derived.

    >>> _both_ways({"A": {"B": 5.0}})
    ((('A', 'B'), 5.0), (('B', 'A'), 5.0))
    """
    written = {(ZoneName(a), ZoneName(b)): ms for a, row in table.items() for b, ms in row.items()}
    derived = {(b, a): ms for (a, b), ms in written.items()}
    return tuple(sorted((derived | written).items()))
