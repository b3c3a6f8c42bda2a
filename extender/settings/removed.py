"""Settings of earlier versions that are constants now: an old file gets an answer that says what to do.

Why a table: these numbers are internal paces and bounds for which no cluster needs another value. Each constant stands
beside the code that uses it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

FIXED: Final[Mapping[str, str]] = {  # setting → the value that it has now
    "exact_zone_size": "12",
    "max_body_bytes": "33554432 (32 MiB)",
    "plan_interval_ms": "50",
    "prioritize_packing": "true",
    "prioritize_reservation": "true",
    "stale_s": "300",
    "tls.reload_s": "5",
    "network.refresh_s": "60",
    "network.sources.interval_s": "5 for a file",
    "score.unknown_penalty_ratio": "0.05",
    "lease.renew_deadline_s": "23/30 of lease.duration_s",
    "lease.retry_period_s": "1/6 of lease.duration_s",
    "repair.settle_s": "10",
    "repair.backoff_s": "60",
    "autoscaling.backoff_s": "60",
    "elastic.reserve_timeout_s": "120",
    "elastic.growth_timeout_s": "300",
    "elastic.metrics.min_points": "10",
    "elastic.metrics.stale_s": "900",
    "elastic.metrics.band_ratio": "0.02",
    "elastic.metrics.certainty": "3.5",
    "elastic.metrics.min_fit_ratio": "0.8",
    "elastic.metrics.min_gain_ratio": "0.001",
    "elastic.metrics.horizon_s": "1800",
    "elastic.metrics.stall_s": "41",
    "elastic.metrics.serial_ratio": "0.2",
    "reports.per_job_s": "2",
    "reports.all_jobs_s": "100",
    "reports.max_body_bytes": "65536",
}


def removed(path: Sequence[int | str]) -> str | None:
    """What to say about a setting that is no more; `None`: there was none at this place. Numbers of a list are skipped.

    >>> removed(["network", "sources", 0, "interval_s"])
    'no longer a setting, fixed at 5 for a file: remove it'
    >>> removed(["port"])
    """
    value = FIXED.get(".".join(part for part in path if isinstance(part, str)))
    return f"no longer a setting, fixed at {value}: remove it" if value is not None else None
