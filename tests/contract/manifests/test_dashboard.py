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


def test_legends_name_labels_that_the_query_keeps() -> None:
    """A `{{label}}` that was summed away shows nothing."""
    for title, panel in PANELS.items():
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = {
                label.strip() for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(",")
            }
            assert named <= kept, title


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", "rules.yaml", directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_panels_are_whole_and_do_not_overlap() -> None:
    assert len(PANELS) == len(DASHBOARD["panels"]) >= 12
    assert len({one["id"] for one in PANELS.values()}) == len(PANELS)
    cells: set[tuple[int, int]] = set()
    for panel in PANELS.values():
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & mine
        assert at["x"] + at["w"] <= 24
        cells |= mine
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "namespace"]
