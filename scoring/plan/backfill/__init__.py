"""Back-fill by end times: when a waiting gang can start, what is kept for it, and what fills the gap until then."""

from scoring.plan.backfill.promise import KeptRoom, promised_first

__all__ = ["KeptRoom", "promised_first"]
