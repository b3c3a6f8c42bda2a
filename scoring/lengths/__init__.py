"""How long gangs run: a distribution with a source, from what users declare, former runs, and reports."""

from scoring.lengths.length import LEVELS, Length, LengthSource, exact, from_samples, remaining_s

__all__ = ["LEVELS", "Length", "LengthSource", "exact", "from_samples", "remaining_s"]
