"""The dashboard for Grafana: queries that Prometheus can read (promtool), on metrics and labels that exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.runtime.telemetry import Telemetry
from lab.testbed.parts.helm import CHART
from tests.contract.manifests.promtool import promtool

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


def exposed() -> dict[str, set[str]]:
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
    known = exposed()
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
