"""Queries for exporters that measure between many ends.

Rule: a preset is what one exporter of a stated version exports by itself; what a site must add by relabelling is said.
Values that hide a failure as a number (0 seconds, −1) are left out by the query itself.
"""

from collections.abc import Iterable
from typing import Final

from extender.network.prometheus.source import Aliases, Query
from scoring.network.measurement import Metric

PRESETS: Final[dict[str, tuple[Query, ...]]] = {
    # goldpinger: HTTP between pods of all nodes; an application's delay, so never mix it with another source of delay.
    # Its histogram begins at 5 ms, therefore sum by count. Targets are addresses: aliases join them with node names.
    "goldpinger": (
        Query(
            Metric.DELAY,
            "sum by (goldpinger_instance,host_ip)"
            '(rate(goldpinger_peers_response_time_s_sum{call_type="ping"}[$window]))'
            " / sum by (goldpinger_instance,host_ip)"
            '(rate(goldpinger_peers_response_time_s_count{call_type="ping"}[$window]) > 0)',
            "s",
            source_label="goldpinger_instance",
            target_label="host_ip",
            round_trip=True,
        ),
        Query(
            Metric.LOSS,
            "max by (goldpinger_instance,host_ip)(avg_over_time(goldpinger_peers_loss_pct[$window]))",
            "percent",
            source_label="goldpinger_instance",
            target_label="host_ip",
        ),
    ),
    # smokeping_prober (SuperQ): ICMP; late answers can make a little less than no loss, which is clamped.
    "smokeping": (
        Query(
            Metric.LOSS,
            "1 - sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]))"
            " / sum by (instance,ip)(rate(smokeping_requests_total[$window]) > 0)",
            "ratio",
            source_label="instance",
            target_label="ip",
        ),
        Query(
            Metric.DELAY,
            "sum by (instance,ip)(rate(smokeping_response_duration_seconds_sum[$window]))"
            " / sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]) > 0)",
            "s",
            source_label="instance",
            target_label="ip",
            round_trip=True,
        ),
    ),
    # ping_exporter (czerwonk) from 1.0 on, when it went from milliseconds to seconds.
    "ping_exporter": (
        Query(
            Metric.LOSS,
            "max by (instance,ip)(avg_over_time(ping_loss_ratio[$window]))",
            "ratio",
            source_label="instance",
            target_label="ip",
        ),
        Query(
            Metric.DELAY,
            "max by (instance,ip)(avg_over_time(ping_rtt_mean_seconds[$window]))",
            "s",
            source_label="instance",
            target_label="ip",
            round_trip=True,
        ),
    ),
    # blackbox_exporter, module icmp; the site's relabelling sets `source` (which exporter) beside `instance` (the
    # target). A failed probe exports 0 seconds.
    "blackbox": (
        Query(
            Metric.LOSS,
            'max by (source,instance)(1 - avg_over_time(probe_success{source!=""}[$window]))',
            "ratio",
            target_label="instance",
        ),
        Query(
            Metric.DELAY,
            "max by (source,instance)"
            '(avg_over_time((probe_icmp_duration_seconds{phase="rtt",source!=""} > 0)[$window:]))',
            "s",
            target_label="instance",
            round_trip=True,
        ),
    ),
    # iperf3_exporter (edgard): one test per scrape, hours apart; gauges stay after it, a failed test exports 0.
    "iperf3": (
        Query(
            Metric.THROUGHPUT,
            "last_over_time((iperf3_received_bytes / (iperf3_received_seconds > 0)"
            " and on (instance,target,port) iperf3_up == 1)[$window:5m])",
            "byte/s",
            source_label="instance",
            window_s=93_600,
            time_text="max_over_time(timestamp(iperf3_up == 1)[$window:5m])",
        ),
    ),
    # Cilium's health probes, as long as they are exported per pair of nodes; −1 means none.
    "cilium": (
        Query(
            Metric.DELAY,
            "max by (source_node_name,target_node_name)(cilium_node_connectivity_latency_seconds"
            '{protocol="icmp",type="node",address_type="primary"} >= 0)',
            "s",
            source_label="source_node_name",
            target_label="target_node_name",
            round_trip=True,
        ),
    ),
}
"""preset → its queries"""
BY_ADDRESS: Final = frozenset({"goldpinger", "smokeping", "ping_exporter", "blackbox", "iperf3"})
"""Presets that name an end once by name and once by address, or by the address of a pod in the host's network."""


def queries_of(presets: Iterable[str], own: Iterable[Query]) -> tuple[Query, ...]:
    """The queries of presets, and one's own in place of all presets' for their metrics. KeyError: no such preset."""
    stated = tuple(own)
    replaced = {query.metric for query in stated}
    return (*stated, *(query for name in presets for query in PRESETS[name] if query.metric not in replaced))


def aliases_for(presets: Iterable[str]) -> Aliases | None:
    """What joins names and addresses, where a preset needs it."""
    return Aliases() if BY_ADDRESS.intersection(presets) else None
