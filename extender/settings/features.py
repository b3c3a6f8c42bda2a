"""Settings of the queue and of optional features: repair, PodGroup status, decision log, elastic jobs, probe.

Rule: what evicts pods of a running gang or costs money is off by default, and so are elastic jobs: a user that declared
a minimum for another autoscaler's sake must not find the job shrunk after an upgrade.
"""

from enum import StrEnum
from typing import Annotated, Any, Self, TypeAlias

from msgspec.structs import replace
from pydantic import BeforeValidator, Field, model_validator

from extender.settings.types import NotNegative, Number, OnOrOff, Positive, Section, names
from scoring.model.policy import Order, QueuePolicy, Repair
from scoring.scaling.job import ElasticCondition, MetricOptions, Options, Wants

Count: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[Number, Field(gt=0.0, le=1.0)]


class QueueSettings(Section):
    """The order of the queue (docs/explanation/queue.md)."""

    order: Order = Order.WEIGHT
    """`weight`: heavier gangs first; `fifo`: older ones first. Both within one priority."""
    weight_namespaces: Annotated[tuple[str, ...], BeforeValidator(names)] = ()
    """Namespaces whose pods may set their gang's ω′ by annotation `netgang.io/weight`; `*`: all."""
    starve_limit_s: Positive = 600.0
    """How long a gang that could start waits before it is STARVING, and goes first within its priority."""
    backfill: bool = True
    """Promise the first gang that cannot start its start, where jobs declare how long they run, so that no other gang
    delays it (docs/explanation/queue.md#back-fill-by-end-times)."""
    share_cap: Share | None = None
    """Share of each resource of the cluster that the gangs of one namespace may have; `null`: no limit."""

    def policy(self, base: QueuePolicy = QueuePolicy()) -> QueuePolicy:
        """The same as the planner takes it; from `base` what no setting says."""
        chosen: dict[str, Any] = {**dict(self), "weight_namespaces": frozenset(self.weight_namespaces)}
        return replace(base, **chosen)


class RepairSettings(Section):
    """Gangs that lost members after they had started (docs/explanation/repair.md)."""

    policy: Repair = Repair.REPLACE
    """For gangs without annotation `netgang.io/repair`. `replace`: successors go first in line, beside those that are
    left; `restart`: the whole gang is started again through its owner's suspend and resume; `none`: successors wait
    their turn."""


class StatusMode(StrEnum):
    """Whether netgang writes the status of the PodGroups of its gangs."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class RecordSettings(Section):
    """Snapshots and the plans made from them, kept in memory and served at `/v1/record` for `netgang plan FILE`."""

    enabled: bool = False
    """Keep it. It costs a thread about as much CPU as planning does."""


class ElasticMetricsSettings(Section):
    """How metrics that jobs report become a wanted worker count."""

    default: Annotated[Wants, OnOrOff] = Wants.CURVE
    """For jobs without annotation `netgang.io/scaling`: `iterations`, `loss`, `curve`, or `off`: the queue alone."""
    every_steps: Count = 500
    """Training steps between two looks at a job's metrics; each change of the count costs about 40 s of training."""
    workers_step: Count = 3
    """Workers added or removed at once."""


class ElasticSettings(Section):
    """Jobs with a minimum and a maximum of workers (docs/explanation/elastic.md)."""

    enabled: bool = False
    """Change worker counts of jobs that declare a minimum and a maximum."""
    dry_run: bool = False
    """Decide and report, but change nothing."""
    cool_down_s: NotNegative = 60.0
    """Least time between two changes of one job."""
    decrement: Count | None = 2
    """Most workers that one job gives up at once (l_dw); `null`: down to its minimum."""
    increment: Annotated[int, Field(ge=0)] | None = 2
    """Most workers that one job gets at once (l_iw), beside those it gave up or asks for; `null`: up to its maximum;
    0: none."""
    condition: ElasticCondition = ElasticCondition.LIGHTER
    """`lighter`: jobs shrink for the first waiting gang if they are lighter; `levels`: jobs of a higher service level,
    for the first that can then start at the size it asked for, and jobs grow only while no gang waits for room."""
    metrics: ElasticMetricsSettings = ElasticMetricsSettings()
    """How reported metrics become a wanted worker count."""

    def options(self, metrics: MetricOptions = MetricOptions()) -> Options:
        """The same as the decisions take it; from `metrics` what no setting says."""
        chosen: dict[str, Any] = dict(self.metrics)
        return Options(**self.model_dump(exclude={"metrics"}), metrics=replace(metrics, **chosen))


class ThroughputSettings(Section):
    """Throughput of links, measured by iperf3 in single bursts: one pair of nodes at a time in the whole cluster."""

    enabled: bool = False
    """Have agents measure throughput. Their image needs iperf3, and their NetworkPolicy TCP ports 8863 to 8870."""


class ProbeSettings(Section):
    """Packet loss and delay that agents on the nodes measure and report at `reports.port` (docs/reference/probe.md)."""

    enabled: bool = False
    """Take reports of agents at `POST /v1/probe`, assign their peers, and use what they measure."""
    service_account: str = Field(
        default="netgang-system/netgang-probe", pattern=r"^[a-z0-9.-]{1,63}/[a-z0-9.-]{1,253}$"
    )
    """`namespace/name` of the agents' service account: only its tokens, each bound to a pod, may report links."""
    throughput: ThroughputSettings = ThroughputSettings()
    """Bursts of throughput; off by default."""

    @model_validator(mode="after")
    def _throughput_needs_agents(self) -> Self:
        if self.throughput.enabled and not self.enabled:
            raise ValueError("throughput.enabled needs enabled: true: the probe's agents run the bursts")
        return self
