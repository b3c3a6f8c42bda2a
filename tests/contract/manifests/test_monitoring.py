"""The chart's alerts, which fire when they should, and its dashboard: on metrics and labels that exist (promtool)."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.runtime.telemetry import Telemetry
from lab.testbed.parts.helm import CHART
from lab.testbed.programs import archives
from tests.contract.manifests.rendered import ROOT
from tests.extender.scheduling.world import node_json, running
from tests.liveness import LIVENESS_S

FOREIGN = {"scheduler_pending_pods": {"queue": {"gated"}}}
"""kube-scheduler's own metrics that are used → label → values; stable since Kubernetes 1.26"""
WORDS = {"absent", "and", "or", "on", "unless", "sum", "max", "min", "count", "by", "rate", "increase", "time"}
WORDS |= {"last_over_time", "histogram_quantile"}
_GROUPS = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
ALERTS: dict[str, Any] = {rule["alert"]: rule for group in _GROUPS for rule in group["rules"]}


def promtool(*arguments: str, directory: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """It comes with Prometheus (`make archives`, or on PATH)."""
    fetched = archives.find("prometheus")
    program = str(fetched / "usr/bin/promtool") if fetched else shutil.which("promtool")
    if program is None:
        pytest.skip(f"no promtool: {archives.why_missing('prometheus')}; rules and queries are NOT checked")
    command, limit_s = [program, *arguments], LIVENESS_S
    return subprocess.run(
        command, cwd=directory, input=given, capture_output=True, text=True, timeout=limit_s, check=False
    )


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


@pytest.mark.looptime
async def test_promtool_accepts_all_names_types_and_help_texts(tmp_path: Path) -> None:
    async with running(*(node_json(name) for name in ("n1", "n2"))) as world:
        await world.settle(2.0)
        await world.bind_and_settle(*await world.planned_gang("g", 2))
        await world.planned_gang("wide", 9, cpu="4")
        await world.settle(8.0)
        busy = (await world.get("/metrics")).text
    assert 'netgang_gang_wait_duration_seconds_count{gang_namespace="default"} 1.0' in busy
    for text in (busy, exposed()):
        done = promtool("check", "metrics", directory=tmp_path, given=text)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


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
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/how-to/operate.md#{alert.lower()}"
    text = (ROOT / "docs/how-to/operate.md").read_text()
    parts = dict(re.findall(r"^### (Netgang\w+)\n\n(.+?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert parts.keys() == ALERTS.keys()
    assert parts[alert].lower().startswith(ALERTS[alert]["labels"]["severity"])


WAITS = {'netgang_gangs{state="waiting"}': "1x10"}
LEADS = {"netgang_leader": "1x10", **WAITS}
GONE = {"netgang_leader": "1 1 stale", 'netgang_gangs{state="waiting"}': "3 3 stale"}
GATED = {'scheduler_pending_pods{queue="gated"}': "2x10", 'scheduler_pending_pods{queue="active"}': "0x10"}
STRANDED = {"NetgangNoLeader", "NetgangPodsStranded"}
ON = {"netgang_leader": "1x400"}
BUCKETS = {f'netgang_plan_duration_seconds_bucket{{le="{le}"}}': "0+60x400" for le in ("1", "2", "+Inf")}
WELL = {
    'netgang_bindings_total{outcome="bound"}': "0+9x400",
    'netgang_bindings_total{outcome="conflict"}': "0+1x400",
    'netgang_nudges_total{action="ungate",outcome="done"}': "0+9x400",
    'netgang_nudges_total{action="ungate",outcome="error"}': "0+1x400",
    'netgang_network_fetches_total{source="maddash",outcome="error"}': "0+1x400",
    'netgang_network_fetches_total{source="maddash",outcome="success"}': "0+1x400",
    'netgang_tls_expiry_timestamp_seconds{certificate="server"}': "900000x400",
    'netgang_plan_duration_seconds_bucket{le="0.1"}': "0+55x400",
}
FAILED = {'netgang_bindings_total{outcome="bound"}': "0+1x400", 'netgang_bindings_total{outcome="error"}': "0+4x400"}
SILENT = {
    'netgang_network_fetches_total{source="maddash",outcome="error"}': "0+1x400",
    'netgang_network_fetches_total{source="file",outcome="success"}': "0+1x400",
}
SOON, LATER = "5m", "2h"  # when is looked
CASES: dict[str, tuple[str, dict[str, str], set[str]]] = {  # case: (when, series in steps of 30 s, alerts then)
    "all is well": (SOON, LEADS, set()),
    "all is well, for long": (LATER, ON | WELL | BUCKETS, set()),
    "netgang is gone and gangs waited": (SOON, GONE, STRANDED),
    "netgang never was, kube-scheduler has gated pods": (SOON, GATED, STRANDED),
    "no replica leads": (
        SOON, {'netgang_leader{pod="a"}': "0x10", 'netgang_leader{pod="b"}': "0x10", **WAITS}, STRANDED),
    "a take-over of half a minute": (
        SOON, {'netgang_leader{pod="a"}': "1 0x9", 'netgang_leader{pod="b"}': "0 0 1x8"}, set()),
    "two lead": (
        SOON, {'netgang_leader{pod="a"}': "1x10", 'netgang_leader{pod="b"}': "1x10"}, {"NetgangTwoLeaders"}),
    "a bug": (SOON, LEADS | {'netgang_internal_errors_total{place="loop"}': "0 0 1x8"}, {"NetgangInternalError"}),
    "Bindings fail": (LATER, ON | FAILED, {"NetgangWritesFail"}),
    "plans are slow": (
        LATER, ON | BUCKETS | {'netgang_plan_duration_seconds_bucket{le="0.5"}': "0+1x400"}, {"NetgangPlansSlow"}),
    "one source of two is silent": (LATER, ON | SILENT, {"NetgangMeasurementsFail"}),
    "a node's links are bad": (
        LATER, ON | {'netgang_network_degraded{kind="node"}': "1x400"}, {"NetgangNetworkDegraded"}),
    "a certificate ends": (
        LATER, ON | {'netgang_tls_expiry_timestamp_seconds{certificate="server"}': "500000x400"},
        {"NetgangCertificateEnds"}),
}  # fmt: skip


def test_each_alert_is_seen_firing() -> None:
    assert set(ALERTS) == {alert for _, _, want in CASES.values() for alert in want}


@pytest.mark.slow
@pytest.mark.parametrize(("at", "series", "want"), CASES.values(), ids=CASES)
def test_alerts_fire_when_they_should(series: dict[str, str], want: set[str], at: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "netgang", "rules": [*ALERTS.values()]}]}))
    given = [{"series": name, "values": values} for name, values in series.items()]
    asked = [{"eval_time": at, "alertname": alert, "exp_alerts": []} for alert in sorted(ALERTS)]
    tests = [{"interval": "30s", "input_series": given, "alert_rule_test": asked}]
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", "tests.yaml", directory=tmp_path)
    fired = set(re.findall(r"alertname:\s*(\w+)", done.stdout + done.stderr))
    assert want == fired, done.stdout + done.stderr
    assert (done.returncode == 0) is not bool(want)


def queries() -> list[str]:
    board: dict[str, Any] = json.loads((CHART / "files/dashboard.json").read_text())
    found: list[str] = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [one["expr"] for one in board["annotations"]["list"]]
    for name, value in {"$namespace": "netgang-system", "$__rate_interval": "1m", "$__range": "6h"}.items():
        found = [query.replace(name, value) for query in found]
    return found


@pytest.mark.parametrize("query", queries())
def test_queries_name_what_is_exposed(query: str) -> None:
    telemetry = Telemetry()
    known: dict[str, set[str]] = {}  # metric, with the suffixes that it has in Prometheus → its labels
    for name in re.findall(r"^# TYPE (\w+)", telemetry.exposition().decode(), re.MULTILINE):
        known[name] = set()
    for name, collector in telemetry.registry._names_to_collectors.items():
        known[name] = {*getattr(collector, "_labelnames", ()), *(["le"] if name.endswith("_bucket") else [])}
    used = re.findall(r"\b((?:netgang|process)_\w+)(?:\{([^}]*)\})?", query)
    assert used
    by = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
    for name, selector in used:
        asked = {re.split(r"[=!]", one)[0].strip() for one in selector.split(",") if one}
        assert asked | by <= known[name] | {"namespace", "pod"}, name  # which Prometheus Operator adds


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", "rules.yaml", directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
