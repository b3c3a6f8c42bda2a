"""What an operator may choose about scaling, in plain values, so that a decision can be repeated from them.

Each field is the setting of its name: docs/reference/settings.md says what it does, docs/explanation/elastic.md why.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from scoring.scaling.job import Wants


class Condition(StrEnum):
    """Which waiting gangs running jobs are shrunk for (PAPERS K3)."""

    LIGHTER = "lighter"  # For the first gang that waits, from jobs lighter than it, or as heavy and later
    LEVELS = "levels"  # For the first that can then start at its full size, from jobs of a higher service level


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """How reported metrics become a worker count (PAPERS E2, E3); from `min_fit_ratio` on for `curve` alone."""

    default: Wants = Wants.CURVE
    every_steps: int = 500
    workers_step: int = 3
    min_interval_s: float = 300.0
    min_points: int = 10
    settle_steps: int = 20
    stale_s: float = 900.0
    band_ratio: float = 0.02
    certainty: float = 3.5
    reversal_steps: int = 1000
    min_fit_ratio: float = 0.8
    min_gain_ratio: float = 0.001
    horizon_s: float = 1800.0
    stall_s: float = 41.0
    serial_ratio: float = 0.2


@dataclass(frozen=True, slots=True)
class Options:
    """All choices about scaling, in one value; `None`: no limit."""

    enabled: bool = True
    dry_run: bool = False
    cool_down_s: float = 60.0
    decrement: int | None = 2  # l_dw of PAPERS K4
    increment: int | None = 2  # l_iw of PAPERS K5
    changes_per_hour: int | None = 12
    condition: Condition = Condition.LIGHTER
    metrics: MetricOptions = field(default_factory=MetricOptions)
