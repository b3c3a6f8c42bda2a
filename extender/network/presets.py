"""Queries for exporters that measure between many ends.

Rule: a preset is what one exporter of a stated version exports by itself; what a site must add by relabelling is said.
Values that hide a failure as a number (0 seconds, −1) are left out by the query itself.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from extender.settings.network import Preset, PrometheusQuery, PrometheusSettings, Unit
from scoring.network.measurement import Metric


def _links(
    source: str, target: str, *, loss_unit: Unit = Unit.RATIO, **queries: str
) -> Mapping[Metric, PrometheusQuery]:
    """`queries`: by metric; what all exporters call a delay is a round trip in seconds. `source`, `target`: labels."""
    of = partial(PrometheusQuery, source_label=source, target_label=target)
    units = {Metric.LOSS: loss_unit, Metric.DELAY: Unit.SECONDS}
    asked = {Metric(name): query for name, query in queries.items()}
    return {one: of(query=query, unit=units[one], round_trip=one is Metric.DELAY) for one, query in asked.items()}


def _goldpinger_mean(name: str, labels: str = "") -> str:
    total, count = (
        f"sum by (goldpinger_instance,host_ip)(rate(goldpinger_peers_{name}_{kind}{labels}[$window]))"
        for kind in ("sum", "count")
    )
    return f"{total} / ({count} > 0)"


# kubenurse's connects to neighbours. Durations count from the start of the request: a connect took the difference of
# two events. TCP repeats a lost first packet after a second, the next after one or two more.
_EVENT: Final = (
    "sum by (instance,type)(rate(kubenurse_httpclient_trace_request_duration_seconds_"
    '{kind}{{type=~"path_.+",event="connect_{event}"{within}}}[$window]))'
)
_SUM, _COUNT = (_EVENT.format(kind=kind, event="done", within="") for kind in ("sum", "count"))
_START_SUM, _STARTED = (_EVENT.format(kind=kind, event="start", within="") for kind in ("sum", "count"))
_WITHIN_1_S, _WITHIN_2_5_S = (
    _EVENT.format(kind="bucket", event="done", within=f',le=~"{le}"')
    for le in (r"1(\\.0)?", r"2\\.5")  # Prometheus 3 writes 1.0
)
_TO_NODE: Final = 'label_replace({}, "target", "$1", "type", "path_(.+)")'


PRESETS: Final[Mapping[Preset, Mapping[Metric, PrometheusQuery]]] = {
    # UDP where it is switched on, else HTTP between pods: an application's delay, timeouts included, so never mix that
    # with another source. Its histogram begins at 5 ms, therefore sum by count. Older versions go on with the last loss
    # of a pod that is gone: it counts while the pod is pinged.
    Preset.GOLDPINGER: _links(
        "goldpinger_instance",
        "host_ip",
        delay=f"{_goldpinger_mean('udp_rtt_s')} or "
        f"""{_goldpinger_mean("response_time_s", '{call_type="ping"}')} unless """
        "max by (goldpinger_instance,host_ip)(last_over_time(goldpinger_peers_loss_pct[$window]))",
        loss="max by (goldpinger_instance,host_ip)(avg_over_time(goldpinger_peers_loss_pct[$window])"
        " and on (goldpinger_instance,host_ip,pod_ip)"
        ' rate(goldpinger_peers_response_time_s_count{call_type="ping"}[$window]) > 0)',
        loss_unit=Unit.PERCENT,
    ),
    # kubenurse from 1.13 on. Connects that failed or were repeated are the loss; the seconds that they waited are taken
    # off the delay. Without a bucket of 1 s (its default has one) there is neither.
    Preset.KUBENURSE: _links(
        "instance",
        "target",
        loss=_TO_NODE.format(f"1 - ({_WITHIN_1_S} or {_STARTED} * 0 unless {_COUNT} > 0) / ({_STARTED} > 0)"),
        delay=_TO_NODE.format(
            f"({_SUM} - ({_COUNT} - {_WITHIN_1_S}) - 2 * ({_COUNT} - ({_WITHIN_2_5_S} or {_COUNT})))"
            f" / ({_COUNT} > 0) - {_START_SUM} / ({_STARTED} > 0)"
        ),
    ),
    # smokeping_prober (SuperQ): ICMP; late answers can make a little less than no loss, which is clamped.
    Preset.SMOKEPING: _links(
        "instance",
        "ip",
        loss="1 - sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]))"
        " / sum by (instance,ip)(rate(smokeping_requests_total[$window]) > 0)",
        delay="sum by (instance,ip)(rate(smokeping_response_duration_seconds_sum[$window]))"
        " / sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]) > 0)",
    ),
    # ping_exporter (czerwonk) from 1.0 on, when it went from milliseconds to seconds.
    Preset.PING_EXPORTER: _links(
        "instance",
        "ip",
        loss="max by (instance,ip)(avg_over_time(ping_loss_ratio[$window]))",
        delay="max by (instance,ip)(avg_over_time(ping_rtt_mean_seconds[$window]))",
    ),
    # blackbox_exporter, module icmp alone; the site's relabelling sets `source` (which exporter) beside `instance` (the
    # target). A failed probe exports 0 seconds, so the sum is divided by the number of those that succeeded.
    Preset.BLACKBOX: _links(
        "source",
        "instance",
        loss='max by (source,instance)(1 - avg_over_time(probe_success{source!=""}[$window])'
        ' and ignoring (phase) count_over_time(probe_icmp_duration_seconds{phase="rtt",source!=""}[$window]))',
        delay='max by (source,instance)(sum_over_time(probe_icmp_duration_seconds{phase="rtt",source!=""}[$window])'
        ' / ignoring (phase) (sum_over_time(probe_success{source!=""}[$window]) > 0))',
    ),
    # iperf3_exporter (edgard): one test per scrape, hours apart; gauges stay after it, a failed test exports 0.
    Preset.IPERF3: {
        Metric.THROUGHPUT: PrometheusQuery(
            query="last_over_time((iperf3_received_bytes / (iperf3_received_seconds > 0)"
            " and on (instance,target,port) iperf3_up == 1)[$window:5m])",
            unit=Unit.BYTES,
            source_label="instance",
            window_s=93_600,
            time_query="max_over_time(timestamp(iperf3_up == 1)[$window:5m])",
        )
    },
    # Cilium's health probes, as long as they are exported per pair of nodes; −1 means none.
    Preset.CILIUM: _links(
        "source_node_name",
        "target_node_name",
        delay="max by (source_node_name,target_node_name)(cilium_node_connectivity_latency_seconds"
        '{protocol="icmp",type="node",address_type="primary"} >= 0)',
    ),
}
BY_ADDRESS: Final = frozenset(PRESETS) - {Preset.CILIUM}
"""Presets that name an end once by name and once by address, or by the address of a pod in the host's network."""
NODES: Final = "kube_node_info"  # kube-state-metrics: node names and their addresses
PODS_TOO: Final = (
    "kube_node_info or label_replace("
    'kube_pod_info{created_by_kind="DaemonSet",created_by_name=~".*kubenurse.*",pod_ip!=""},'
    ' "internal_ip", "$1", "pod_ip", "(.+)")'
)  # kubenurse's pods have addresses of their own: kube-state-metrics says on which node each is


def queries_of(settings: PrometheusSettings) -> tuple[tuple[Metric, PrometheusQuery], ...]:
    """The queries of presets, and one's own in place of all presets' for their metrics."""
    own = settings.queries
    presets = (one for name in settings.presets for one in PRESETS[name].items() if one[0] not in own)
    return (*own.items(), *presets)


def aliases_of(settings: PrometheusSettings) -> str | None:
    """The query that joins names and addresses, where a preset needs one."""
    if not BY_ADDRESS.intersection(settings.presets):
        return None
    return PODS_TOO if Preset.KUBENURSE in settings.presets else NODES
