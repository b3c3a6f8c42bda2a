"""Queries for exporters that measure between many ends.

Rule: a preset is what one exporter of a stated version exports by itself; what a site must add by relabelling is said.
Values that hide a failure as a number (0 seconds, −1) are left out by the query itself.
"""

from functools import partial
from typing import Final

from extender.settings.sources import (
    Preset,
    PrometheusAliases,
    PrometheusQueries,
    PrometheusQuery,
    PrometheusSource,
    Unit,
)
from scoring.network.measurement import METRICS, Metric

_GOLDPINGER: Final = partial(PrometheusQuery, source_label="goldpinger_instance", target_label="host_ip")
_PINGED: Final = partial(PrometheusQuery, source_label="instance", target_label="ip")

PRESETS: Final[dict[Preset, PrometheusQueries]] = {
    # HTTP between pods of all nodes; an application's delay, so never mix it with another source of delay.
    # Its histogram begins at 5 ms, therefore sum by count. Targets are addresses: aliases join them with node names.
    Preset.GOLDPINGER: PrometheusQueries(
        delay=_GOLDPINGER(
            query="sum by (goldpinger_instance,host_ip)"
            '(rate(goldpinger_peers_response_time_s_sum{call_type="ping"}[$window]))'
            " / sum by (goldpinger_instance,host_ip)"
            '(rate(goldpinger_peers_response_time_s_count{call_type="ping"}[$window]) > 0)',
            unit=Unit.SECONDS,
            round_trip=True,
        ),
        loss=_GOLDPINGER(
            query="max by (goldpinger_instance,host_ip)(avg_over_time(goldpinger_peers_loss_pct[$window]))",
            unit=Unit.PERCENT,
        ),
    ),
    # smokeping_prober (SuperQ): ICMP; late answers can make a little less than no loss, which is clamped.
    Preset.SMOKEPING: PrometheusQueries(
        loss=_PINGED(
            query="1 - sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]))"
            " / sum by (instance,ip)(rate(smokeping_requests_total[$window]) > 0)",
            unit=Unit.RATIO,
        ),
        delay=_PINGED(
            query="sum by (instance,ip)(rate(smokeping_response_duration_seconds_sum[$window]))"
            " / sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]) > 0)",
            unit=Unit.SECONDS,
            round_trip=True,
        ),
    ),
    # ping_exporter (czerwonk) from 1.0 on, when it went from milliseconds to seconds.
    Preset.PING_EXPORTER: PrometheusQueries(
        loss=_PINGED(query="max by (instance,ip)(avg_over_time(ping_loss_ratio[$window]))", unit=Unit.RATIO),
        delay=_PINGED(
            query="max by (instance,ip)(avg_over_time(ping_rtt_mean_seconds[$window]))",
            unit=Unit.SECONDS,
            round_trip=True,
        ),
    ),
    # blackbox_exporter, module icmp; the site's relabelling sets `source` (which exporter) beside `instance` (the
    # target). A failed probe exports 0 seconds.
    Preset.BLACKBOX: PrometheusQueries(
        loss=PrometheusQuery(
            query='max by (source,instance)(1 - avg_over_time(probe_success{source!=""}[$window]))',
            unit=Unit.RATIO,
            target_label="instance",
        ),
        delay=PrometheusQuery(
            query="max by (source,instance)"
            '(avg_over_time((probe_icmp_duration_seconds{phase="rtt",source!=""} > 0)[$window:]))',
            unit=Unit.SECONDS,
            target_label="instance",
            round_trip=True,
        ),
    ),
    # iperf3_exporter (edgard): one test per scrape, hours apart; gauges stay after it, a failed test exports 0.
    Preset.IPERF3: PrometheusQueries(
        throughput=PrometheusQuery(
            query="last_over_time((iperf3_received_bytes / (iperf3_received_seconds > 0)"
            " and on (instance,target,port) iperf3_up == 1)[$window:5m])",
            unit=Unit.BYTES,
            source_label="instance",
            window_s=93_600,
            time_query="max_over_time(timestamp(iperf3_up == 1)[$window:5m])",
        )
    ),
    # Cilium's health probes, as long as they are exported per pair of nodes; −1 means none.
    Preset.CILIUM: PrometheusQueries(
        delay=PrometheusQuery(
            query="max by (source_node_name,target_node_name)(cilium_node_connectivity_latency_seconds"
            '{protocol="icmp",type="node",address_type="primary"} >= 0)',
            unit=Unit.SECONDS,
            source_label="source_node_name",
            target_label="target_node_name",
            round_trip=True,
        )
    ),
}
BY_ADDRESS: Final = frozenset(PRESETS) - {Preset.CILIUM}
"""Presets that name an end once by name and once by address, or by the address of a pod in the host's network."""


def queries_of(settings: PrometheusSource) -> tuple[tuple[Metric, PrometheusQuery], ...]:
    """The queries of presets, and one's own in place of all presets' for their metrics."""
    own = _asked(settings.queries)
    replaced = {metric for metric, _ in own}
    presets = (one for name in settings.presets for one in _asked(PRESETS[name]) if one[0] not in replaced)
    return (*own, *presets)


def aliases_of(settings: PrometheusSource) -> PrometheusAliases | None:
    """What joins names and addresses: as stated, else what is usual where a preset needs it."""
    needed = PrometheusAliases() if BY_ADDRESS.intersection(settings.presets) else None
    return settings.aliases or needed


def _asked(queries: PrometheusQueries) -> list[tuple[Metric, PrometheusQuery]]:
    found = [(metric, getattr(queries, metric.value)) for metric in METRICS]
    return [(metric, query) for metric, query in found if query is not None]
