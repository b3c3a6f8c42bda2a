"""The chart's alerts, which fire when they should, and its dashboard: on metrics and labels that exist (promtool)."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.runtime.telemetry import Telemetry
from lab.testbed.parts.helm import CHART
from tests.contract.manifests.promtool import promtool
from tests.contract.manifests.rendered import ROOT

FOREIGN = {"scheduler_pending_pods": {"queue": {"gated"}}}
"""kube-scheduler's own metrics that are used → label → values; stable since Kubernetes 1.26"""
WORDS = {"absent", "and", "or", "on", "unless", "sum", "max", "min", "count", "by", "rate", "increase", "time"}
WORDS |= {"last_over_time", "histogram_quantile"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules()}


@cache
def exposed() -> str:
    """The metrics of a process to which everything has happened that an alert asks about."""
    telemetry = Telemetry()
    telemetry.leads(1)
    telemetry.gangs({"waiting": 1, "admitted": 1})
    telemetry.internal_error("loop")
    telemetry.planned(0.01)
    for outcome in ("bound", "error"):
        telemetry.binding_posted(outcome)
    for outcome in ("done", "error"):
        telemetry.nudged("ungate", outcome)
    for outcome in ("success", "error"):
        telemetry.network_fetches.labels("maddash", outcome).inc()
    telemetry.network_degraded({"node": 1})
    telemetry.tls_expiry.labels("server").set(1.0)
    return telemetry.exposition().decode()


@pytest.mark.parametrize("rule", ALERTS)
def test_rules_name_metrics_that_exist(rule: str) -> None:
    expr = ALERTS[rule]["expr"]
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)|on \([^)]*\)", " ", expr)
    names = set(re.findall(r"[a-z_][a-z_:0-9]+", bare)) - WORDS
    assert names
    for name in names:
        assert name in FOREIGN or re.search(rf"^{name}[ {{]", exposed(), re.MULTILINE), name
    selectors = [(name, one) for name, all_of in re.findall(r"([a-z_]+)\{([^}]*)\}", expr) for one in all_of.split(",")]
    for name, selector in selectors:
        label, sign, value = re.fullmatch(r'(\w+)(!?=)"([^"]*)"', selector).groups()  # type: ignore[union-attr]
        if name in FOREIGN:
            assert value in FOREIGN[name][label]
        else:
            assert re.search(rf'^{name}\{{[^}}]*\b{label}="{value}"', exposed(), re.MULTILINE), (name, sign, value)
    for labels in re.findall(r"by \(([^)]*)\)", expr):
        assert all(f"{label.strip()}=" in exposed() for label in labels.split(","))


@pytest.mark.parametrize("alert", ALERTS)
def test_alerts_lead_to_what_is_to_be_done(alert: str) -> None:
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/how-to/alerts.md#{alert.lower()}"
    text = (ROOT / "docs/how-to/alerts.md").read_text()
    parts = dict(re.findall(r"^## (\w+)\n\n(.+?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert parts.keys() == ALERTS.keys()
    assert parts[alert].lower().startswith(ALERTS[alert]["labels"]["severity"])


LEADS = {"netgang_leader": "1x10", 'netgang_gangs{state="waiting"}': "3x10"}
GONE = {"netgang_leader": "1 1 stale", 'netgang_gangs{state="waiting"}': "3 3 stale"}
FIRING: dict[str, tuple[dict[str, str], set[str]]] = {  # case: (series in steps of 30 s, alerts after five minutes)
    "all is well": (LEADS, set()),
    "netgang is gone and gangs waited": (GONE, {"NetgangNoLeader", "NetgangPodsStranded"}),
    "netgang never was, kube-scheduler has gated pods": (
        {'scheduler_pending_pods{queue="gated"}': "2x10", 'scheduler_pending_pods{queue="active"}': "0x10"},
        {"NetgangNoLeader", "NetgangPodsStranded"},
    ),
    "no replica leads": (
        {
            'netgang_leader{pod="a"}': "0x10",
            'netgang_leader{pod="b"}': "0x10",
            'netgang_gangs{state="waiting"}': "1x10",
        },
        {"NetgangNoLeader", "NetgangPodsStranded"},
    ),
    "a take-over of half a minute": ({'netgang_leader{pod="a"}': "1 0x9", 'netgang_leader{pod="b"}': "0 0 1x8"}, set()),
    "two lead": ({'netgang_leader{pod="a"}': "1x10", 'netgang_leader{pod="b"}': "1x10"}, {"NetgangTwoLeaders"}),
    "a bug": ({**LEADS, 'netgang_internal_errors_total{place="loop"}': "0 0 1x8"}, {"NetgangInternalError"}),
}


BUCKETS = {f'netgang_plan_duration_seconds_bucket{{le="{le}"}}': "0+60x400" for le in ("1", "2", "+Inf")}
SLOWLY: dict[str, tuple[dict[str, str], set[str]]] = {  # the same, for alerts that wait longer: after two hours
    "all is well": (
        {
            "netgang_leader": "1x400",
            'netgang_bindings_total{outcome="bound"}': "0+9x400",
            'netgang_bindings_total{outcome="conflict"}': "0+1x400",
            'netgang_nudges_total{action="ungate",outcome="done"}': "0+9x400",
            'netgang_nudges_total{action="ungate",outcome="error"}': "0+1x400",
            'netgang_network_fetches_total{source="maddash",outcome="error"}': "0+1x400",
            'netgang_network_fetches_total{source="maddash",outcome="success"}': "0+1x400",
            'netgang_tls_expiry_timestamp_seconds{certificate="server"}': "900000x400",
            'netgang_plan_duration_seconds_bucket{le="0.1"}': "0+55x400",
            **BUCKETS,
        },
        set(),
    ),
    "Bindings fail": (
        {
            "netgang_leader": "1x400",
            'netgang_bindings_total{outcome="bound"}': "0+1x400",
            'netgang_bindings_total{outcome="error"}': "0+4x400",
        },
        {"NetgangWritesFail"},
    ),
    "plans are slow": (
        {"netgang_leader": "1x400", 'netgang_plan_duration_seconds_bucket{le="0.5"}': "0+1x400", **BUCKETS},
        {"NetgangPlansSlow"},
    ),
    "one source of two is silent": (
        {
            "netgang_leader": "1x400",
            'netgang_network_fetches_total{source="maddash",outcome="error"}': "0+1x400",
            'netgang_network_fetches_total{source="file",outcome="success"}': "0+1x400",
        },
        {"NetgangMeasurementsFail"},
    ),
    "a node's links are bad": (
        {"netgang_leader": "1x400", 'netgang_network_degraded{kind="node"}': "1x400"},
        {"NetgangNetworkDegraded"},
    ),
    "a certificate ends": (
        {"netgang_leader": "1x400", 'netgang_tls_expiry_timestamp_seconds{certificate="server"}': "500000x400"},
        {"NetgangCertificateEnds"},
    ),
}
CASES = [
    *((case, series, want, "5m") for case, (series, want) in FIRING.items()),
    *((f"{case}, for long", series, want, "2h") for case, (series, want) in SLOWLY.items()),
]


def test_each_alert_is_seen_firing() -> None:
    assert set(ALERTS) == {alert for _, _, want, _ in CASES for alert in want}


@pytest.mark.parametrize(("series", "want", "at"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_alerts_fire_when_they_should(series: dict[str, str], want: set[str], at: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "netgang", "rules": rules()}]}))

    tests = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": alert, "exp_alerts": []} for alert in sorted(ALERTS)
                ],
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    done = promtool("test", "rules", "tests.yaml", directory=tmp_path)
    fired = set(re.findall(r"alertname:\s*(\w+)", done.stdout + done.stderr))
    assert want == fired, done.stdout + done.stderr
    assert (done.returncode == 0) is not bool(want)


DASHBOARD: dict[str, Any] = json.loads((CHART / "files/dashboard.json").read_text())
PANELS: dict[str, dict[str, Any]] = {one["title"]: one for one in DASHBOARD["panels"]}
SCRAPED = {"namespace", "pod"}  # labels that Prometheus Operator adds from the pod that it scrapes


def queries() -> list[str]:
    found = [target["expr"] for panel in PANELS.values() for target in panel["targets"]]
    found += [one["expr"] for one in DASHBOARD["annotations"]["list"]]
    fill = {"$namespace": "netgang-system", "$__rate_interval": "1m", "$__range": "6h"}
    for name, value in fill.items():
        found = [query.replace(name, value) for query in found]
    return found


def labels_exposed() -> dict[str, set[str]]:
    """Metric, with the suffixes that it has in Prometheus → its labels."""
    telemetry = Telemetry()
    plain = re.findall(r"^# TYPE (\w+)", telemetry.exposition().decode(), re.MULTILINE)
    found: dict[str, set[str]] = {name: set() for name in plain}
    for name, collector in telemetry.registry._names_to_collectors.items():
        labels = set(getattr(collector, "_labelnames", ()))
        found[name] = labels | ({"le"} if name.endswith("_bucket") else set())
    return found


@pytest.mark.parametrize("query", queries())
def test_queries_name_what_is_exposed(query: str) -> None:
    known = labels_exposed()
    used = re.findall(r"\b((?:netgang|process)_\w+)(?:\{([^}]*)\})?", query)
    assert used
    by = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
    for name, selector in used:
        assert name in known, name
        asked = {re.split(r"[=!]", one)[0].strip() for one in selector.split(",") if one}
        assert asked <= known[name] | SCRAPED, name
        assert by <= known[name] | SCRAPED, name


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", "rules.yaml", directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
