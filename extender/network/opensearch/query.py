"""What is asked of a perfSONAR 5 archive: for each pair of ends the figures of its tests of the last time.

Rule: grouped by the names that the tests themselves use, so that a pair measured over several addresses stays one; the
archive's own clock bounds the time span, because test results carry the clocks of the measurement hosts, not ours.
"""

from collections.abc import Mapping
from typing import Any, Final

from extender.settings.sources import OpenSearchSource

DEFAULT_WIDTH_S: Final = 0.001  # Unit of a latency test's figures where the test does not say its bucket width
PAGE_PAIRS: Final = 1000  # Pairs in one answer: about a megabyte
_ROUND_TRIP_FIELD: Final = {"min": "min", "median": "mean", "mean": "mean", "p_95": "max"}
"""figure of a latency test → the nearest one that a round-trip test has"""


def search_body(
    kind: str, settings: OpenSearchSource, *, after: Mapping[str, str | None] | None, timeout: str
) -> dict[str, Any]:
    """One page of a kind of tests, by pair of ends, which `test.spec` names; else, for the source, `meta`."""
    window_s = settings.throughput_window_s if kind == "throughput" else settings.latency_window_s
    wanted: list[dict[str, Any]] = [
        {"range": {"pscheduler.start_time": {"gte": f"now-{round(window_s)}s"}}},
        {"term": {"result.succeeded": True}},
    ]
    if settings.task is not None:
        wanted.append({"term": {"reference.display-task-name.keyword": settings.task}})
    if settings.ip_version is not None:
        wanted.append({"term": {"test.spec.ip-version": settings.ip_version}})
    matching: dict[str, Any] = {"filter": wanted}
    if kind == "throughput":
        matching["must_not"] = [{"term": {"test.spec.udp": True}}]  # sent at a chosen rate: no limit of the link
    ends = {
        "source": "test.spec.source.keyword",
        "target": "test.spec.dest.keyword",
        "source_host": "meta.source.hostname.keyword",
        "target_host": "meta.destination.hostname.keyword",
    }
    grouped: dict[str, Any] = {
        "size": PAGE_PAIRS,
        "sources": [{key: {"terms": {"field": name, "missing_bucket": True}}} for key, name in ends.items()],
    }
    if after is not None:
        grouped["after"] = dict(after)
    return {
        "size": 0,
        "track_total_hits": False,
        "timeout": timeout,
        "query": {"bool": matching},
        "aggs": {"pairs": {"composite": grouped, "aggs": _figures(kind, settings)}},
    }


def _figures(kind: str, settings: OpenSearchSource) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "at": {"max": {"field": "pscheduler.start_time"}},
        "last": {
            "top_hits": {
                "size": 1,
                "sort": [{"pscheduler.start_time": "desc"}],
                "_source": [f"meta.{end}.{name}" for end in ("source", "destination") for name in ("ip", "hostname")],
            }
        },
    }
    if kind == "throughput":
        return figures | {"throughput": {"percentiles": {"field": "result.throughput", "percents": [50]}}}
    figures |= {
        "lost": {"sum": {"field": "result.packets.lost"}},
        "sent": {"sum": {"field": "result.packets.sent"}},
        "loss": {"avg": {"field": "result.packets.loss"}},
    }
    if kind == "rtt":
        return figures | {"delay": {"avg": {"field": f"result.rtt.{_ROUND_TRIP_FIELD[settings.delay.value]}"}}}
    width = {"field": "test.spec.bucket-width", "missing": DEFAULT_WIDTH_S}
    return figures | {
        "delay": {"avg": {"field": f"result.latency.{settings.delay}"}},
        "narrowest": {"min": width},
        "widest": {"max": width},
    }
