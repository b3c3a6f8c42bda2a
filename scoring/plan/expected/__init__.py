"""When a waiting gang is expected to start, how sure that is, and how often such intervals were right."""

from scoring.plan.expected.first_intervals import FirstIntervals
from scoring.plan.expected.interval import LEAST_FACTOR, MOST_FACTOR, Calibration, Result, Scale
from scoring.plan.expected.result import AnyStart, ExpectedStart, NotKnown, Unknown
from scoring.plan.expected.starts import expected_starts, expected_starts_in_steps

__all__ = [
    "LEAST_FACTOR", "MOST_FACTOR", "AnyStart", "Calibration", "ExpectedStart", "FirstIntervals", "NotKnown", "Result",
    "Scale", "Unknown", "expected_starts", "expected_starts_in_steps",
]  # fmt: skip
