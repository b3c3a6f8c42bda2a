"""How long gangs run: a distribution with a source, from what users declare, former runs, and reports."""

from scoring.lengths.declared import EXPECTED_DURATION, declared_length, duration_s
from scoring.lengths.length import LEVELS, Length, LengthSource, exact, from_samples, remaining_s

__all__ = [
    "EXPECTED_DURATION", "LEVELS", "Length", "LengthSource", "declared_length", "duration_s", "exact", "from_samples",
    "remaining_s",
]  # fmt: skip
