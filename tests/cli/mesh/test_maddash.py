"""The MaDDash configuration: its exact text, and that netgang reads what a MaDDash with it would show."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from cli.mesh.maddash import maddash_document, maddash_yaml
from cli.mesh.mesh import Site, site_of
from cli.mesh.plan import LatencyTest, MeshPlan
from extender.network.maddash.client import grid_path
from extender.network.maddash.grid_choice import Wanted
from extender.network.mapping import MappingConfig, map_nodes
from scoring.network.matrix import METRICS, Metric
from tests.builders import node
from tests.cli.mesh.sites import at, two_zones
from tests.cli.world import as_json, served
from tests.extender.network.recorded import read_grid
from tests.fakes.maddash_server import grid_document
from tests.fakes.raw_http import RawServer, ok

ARCHIVE = "https://archive.example.org"
MESSAGES = {
    "check_loss.pl": " Average packet loss is 0.012% ",
    "check_owdelay.pl": " Average median delay is 1.500ms ",
    "check_ping_loss.pl": " Average loss is 0.01% ",
    "check_rtt.pl": " Average minimum rtt is 3.000ms ",
    "check_throughput.pl": " Average throughput is 9.412Gbps ",
}


def written(site: Site, plan: MeshPlan | None = None) -> dict[str, Any]:
    return yaml.safe_load(maddash_yaml(maddash_document(site, plan or MeshPlan(), archive=ARCHIVE)))


def _checked(excluded: Any, message: Any, row: str, column: str, check: str) -> tuple[int, str] | None:
    return None if row == column or column in excluded.get(row, []) else message(check)


def shown(config: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    labels = {one["id"]: one["label"] for one in config["groupMembers"]}
    commands = {check["name"]: check["params"]["command"] for check in config["checks"].values()}

    def message(check: str) -> tuple[int, str]:
        return 0, MESSAGES[commands[check].split()[0].rpartition("/")[2]]

    for grid in config["grids"]:
        ends = {one: labels[one] for one in sorted(config["groups"][grid["rows"]], key=labels.__getitem__)}
        excluded = grid.get("excludeChecks", {})
        body = grid_document(
            grid["name"],
            ends,
            [config["checks"][one]["name"] for one in grid["checks"]],
            partial(_checked, excluded, message),
        )
        yield grid["name"], json.dumps(body).encode()


def found_in(config: dict[str, Any]) -> list[dict[str, Any]]:
    grids = dict(shown(config))
    answers = {f"/maddash{grid_path(name)}": ok(body) for name, body in grids.items()}
    listed = served({"grids": [{"name": name} for name in grids]})
    with RawServer({"/maddash/grids": listed, **answers}) as server:
        links = as_json("network", "show", "--maddash", f"{server.url}/maddash")
    assert isinstance(links, list)
    return links


def test_the_text_is_what_maddash_reads() -> None:
    site = site_of([at("a1", "A", "192.0.2.1"), at("a2", "A", "2001:db8::2")])
    text = maddash_yaml(maddash_document(site, MeshPlan(), archive=ARCHIVE))
    check = """\
    loss:
        name: "Packet Loss"
        description: "Packet Loss from %row to %col"
        type: "net.es.maddash.checks.PSNagiosCheck"
        params:
            maUrl:
                default: "https://archive.example.org/esmond/perfsonar/archive"
            graphUrl: "https://archive.example.org/perfsonar-graphs/?url=%maUrl&dest=%col&source=%row"
            command: "/usr/lib/nagios/plugins/check_loss.pl -w 0.001 -c 0.1 -u %maUrl -r 900 -s %row -d %col"
        checkInterval: 300
        retryInterval: 300
        retryAttempts: 1
        timeout: 60
"""
    grid = """\
    - name: "netgang - zone A - Throughput"
      rows: "throughput-zone-A"
      columns: "throughput-zone-A"
      checks:
          - "throughput"
      rowOrder: "alphabetical"
      colOrder: "alphabetical"
      excludeSelf: 1
      columnAlgorithm: "all"
      statusLabels:
          ok: "Throughput is >= 100Mbps"
"""
    assert check in text
    assert grid in text
    assert text.startswith('database: "/var/lib/maddash/"\nserverHost: "localhost"\nhttp:\n    port: 8881\n')


def test_the_text_is_the_document() -> None:
    site = site_of([at("a1", "A", "2001:db8::1"), at("a2", "A"), at("b1", "B"), at("b2", "B")], gateways=2)
    document = maddash_document(site, MeshPlan(name='l "ab" ö: #'), archive=ARCHIVE)
    assert yaml.safe_load(maddash_yaml(document)) == document


def test_everything_named_is_there() -> None:
    config = written(site_of(two_zones(), gateways=2))
    assert {grid[side] for grid in config["grids"] for side in ("rows", "columns")} == config["groups"].keys()
    assert {check for grid in config["grids"] for check in grid["checks"]} == config["checks"].keys()
    members = [one["id"] for one in config["groupMembers"]]
    assert {one for group in config["groups"].values() for one in group} == set(members)
    assert len(set(members)) == len(members)
    assert not [one for one in members if " " in one]
    (dashboard,) = config["dashboards"]
    names = [grid["name"] for grid in config["grids"]]
    assert [one["name"] for one in dashboard["grids"]] == names
    assert len(set(names)) == len(names) == 3 * 3


def test_gateways_of_one_zone_are_left_to_its_grid() -> None:
    between = [g for g in written(site_of(two_zones(), gateways=2))["grids"] if "between zones" in g["name"]]
    assert [grid["excludeChecks"] for grid in between] == 3 * [
        {f"{a}.lab.example": [f"{b}.lab.example"] for a, b in (("a1", "a2"), ("a2", "a1"), ("b1", "b2"), ("b2", "b1"))}
    ]
    assert not [grid for grid in written(site_of(two_zones()))["grids"] if "excludeChecks" in grid]


def test_windows_follow_the_intervals() -> None:
    """A mean over at least a quarter of an hour or three results; over a day or two throughput tests."""
    plan = MeshPlan(latency=LatencyTest.RTT, latency_interval_s=600, throughput_interval_s=86_400)
    checks = written(site_of(two_zones()), plan)["checks"]
    commands = {name: check["params"]["command"].rpartition("/")[2] for name, check in checks.items()}
    assert commands == {
        "loss": "check_ping_loss.pl -w 0.001 -c 0.1 -u %maUrl -r 1800 -s %row -d %col",
        "rtt": "check_rtt.pl -w 40 -c 80 -u %maUrl -r 1800 -s %row -d %col",
        "throughput": "check_throughput.pl -w .1: -c .01: -u %maUrl -r 172800 -s %row -d %col",
    }
    assert {name: check["checkInterval"] for name, check in checks.items()} == {
        "loss": 300,
        "rtt": 300,
        "throughput": 21_600,
    }


@pytest.mark.parametrize("test", [LatencyTest.LATENCYBG, LatencyTest.RTT])
def test_netgang_reads_what_such_a_maddash_shows(test: LatencyTest) -> None:
    plan = MeshPlan(latency=test, latency_interval_s=300)
    links = found_in(written(site_of(two_zones(), gateways=2), plan))
    assert len(links) == 6 + 2 + 8
    loss = 0.0001 if test is LatencyTest.RTT else 0.00012
    assert {(one["loss_ratio"], one["delay_ms"], one["throughput_bps"]) for one in links} == {(loss, 1.5, 9.412e9)}
    (between,) = [one for one in links if (one["source"], one["target"]) == ("a2.lab.example", "b1.lab.example")]
    assert between["grid"].startswith("netgang - between zones - Loss, netgang - between zones - ")


def test_the_dashboard_names_the_grids() -> None:
    config = written(site_of(two_zones()))
    (dashboard,) = config["dashboards"]
    grids = [grid["name"] for grid in config["grids"]]
    boards = {dashboard["name"]: {one["name"] for one in dashboard["grids"]}}
    places = Wanted(dashboards=dict.fromkeys(METRICS, ("netgang",))).among([*grids, "Other"], boards)
    assert places.missing == ()
    assert [name for name in [*grids, "Other"] if places.reads(name)] == grids


def test_every_node_finds_its_endpoint() -> None:
    other = {"netgang.io/endpoint-throughput": "bw3.example.org"}
    nodes = [
        at("a1", "A", "192.0.2.1"),
        at("a2", "A", "192.0.2.2", annotations={"netgang.io/endpoint": "ps2.example.org"}),
        at("a3", "A", "192.0.2.3", annotations=other),
        at("b1", "B", "2001:db8::1"),
    ]
    readings = [read_grid(body, name=name) for name, body in shown(written(site_of(nodes)))]
    endpoints = {one.id: one for reading in readings for one in reading.endpoints}
    measured = {
        metric: {end.id for reading in readings if reading_of in reading.name for end in reading.endpoints}
        for metric, reading_of in ((Metric.LOSS, "Loss"), (Metric.DELAY, "Delay"), (Metric.THROUGHPUT, "Throughput"))
    }
    records = [
        node(one.name, zone=one.zone, addresses=one.addresses, annotations=tuple(one.annotations.items()))
        for one in nodes
    ]
    mapping = map_nodes(records, list(endpoints.values()), MappingConfig(), measured=measured)
    latency = {"a1": "192.0.2.1", "a2": "ps2.example.org", "a3": "192.0.2.3", "b1": "2001:db8::1"}
    assert mapping.endpoint_of[Metric.LOSS] == mapping.endpoint_of[Metric.DELAY] == latency
    assert mapping.endpoint_of[Metric.THROUGHPUT] == latency | {"a3": "bw3.example.org"}
    assert (mapping.ambiguous, mapping.unknown, mapping.unused) == ((), (), ())
