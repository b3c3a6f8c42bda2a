"""What an operator may choose about scaling (docs/explanation/elastic.md).

Why apart from the service's settings: as `scoring.model.policy`, so that a decision can be repeated from plain values.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from scoring.scaling.job import Wants


class Condition(StrEnum):
    """Which waiting gangs running jobs are shrunk for (PAPERS K3)."""

    LIGHTER = "lighter"
    """For the first gang that waits, from jobs lighter than it, or as heavy and later."""
    HEAVIEST = "heaviest"
    """As published: besides, only if it weighs at least as much as the heaviest job that runs."""
    ANY = "any"
    """For the first gang in the queue's order that can then start, from every job, whatever the weights."""


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """How reported metrics become a wished worker count (PAPERS E2, E3)."""

    default: Wants = Wants.CURVE
    """For jobs that report and have no annotation `netgang.io/scaling`."""
    every_steps: int = 500
    """Steps between two changes of a job's demand."""
    workers_step: int = 3
    """Workers added or removed at once."""
    min_interval_s: float = 300.0
    """Least time between two changes of a job's demand."""
    min_points: int = 10
    """Reports since the last change that a demand needs."""
    settle_steps: int = 20
    """Steps after a change whose reports do not count."""
    stale_s: float = 900.0
    """Age of the last report from which on it says nothing any more."""
    band_ratio: float = 0.02
    """Change of the loss within a window, as share of it, that is taken for none."""
    certainty: float = 3.5
    """Standard errors by which a trend must differ from none."""
    reversal_steps: int = 1000
    """Least steps between two changes of direction."""
    min_fit_ratio: float = 0.8
    """`curve`: share of the loss's variance that the curve must explain (R²); below it nothing is changed."""
    min_gain_ratio: float = 0.001
    """`curve`: predicted gain per added worker, as share of the present loss, from which on it pays."""
    horizon_s: float = 1800.0
    """`curve`: how far ahead the gain is predicted. What comes later pays for no stall."""
    stall_s: float = 41.0
    """`curve`: cost of a change until the job's own has been measured."""
    serial_ratio: float = 0.2
    """`curve`: share of the time per sample that more workers do not shorten, until two counts have been measured."""


@dataclass(frozen=True, slots=True)
class Options:
    """All choices about scaling, in one value."""

    enabled: bool = True
    dry_run: bool = False
    """Decide and report, but change nothing; the controller obeys it."""
    cool_down_s: float = 60.0
    """Least time between two changes of one job."""
    decrement: int | None = 2
    """l_dw: most workers that one job gives up at once; `None`: down to its minimum."""
    increment: int | None = 2
    """l_iw: most workers that one job gets at once, beside those it wished for; `None`: up to its maximum."""
    changes_per_hour: int | None = 12
    """Most changes of one job within an hour; `None`: no limit."""
    condition: Condition = Condition.LIGHTER
    metrics: MetricOptions = field(default_factory=MetricOptions)
