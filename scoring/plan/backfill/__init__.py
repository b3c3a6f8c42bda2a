"""Back-fill by end times: when a waiting gang can start, what is kept for it, and what fills the gap until then."""

from scoring.plan.backfill.promised_order import promised_first
from scoring.plan.backfill.promises import KeptRoom

__all__ = ["KeptRoom", "promised_first"]
