"""Settings of optional features: repair, preemption, PodGroup status, the decision log, elastic jobs.

Rule: what evicts pods of a running gang or costs money is off by default, and so are elastic jobs: a user that declared
a minimum for another autoscaler's sake must not find the job shrunk after an upgrade.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from extender.settings.types import NotNegative, OnOrOff, Section
from scoring.model.policy import Repair
from scoring.scaling.job import Condition, MetricOptions, Options, Wants

Count: TypeAlias = Annotated[int, Field(ge=1)]


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
    condition: Condition = Condition.LIGHTER
    """`lighter`: jobs shrink for the first waiting gang if they are lighter; `levels`: jobs of a higher service level,
    for the first that can then start at the size it asked for, and jobs grow only while no gang waits for room."""
    metrics: ElasticMetricsSettings = ElasticMetricsSettings()
    """How reported metrics become a wanted worker count."""

    def options(self, metrics: MetricOptions = MetricOptions()) -> Options:
        """The same as the decisions take it; from `metrics` what no setting says."""
        chosen: dict[str, Any] = dict(self.metrics)
        return Options(**self.model_dump(exclude={"metrics"}), metrics=replace(metrics, **chosen))
