"""The mesh as a pSConfig template: what perfSONAR's agents on the nodes test.

Why: pSConfig configures which hosts perfSONAR tests; each agent picks the tests of its own addresses. Rule: one group
and one task per zone and kind of test, and one mesh of all zones' gateways in which pairs of the same zone are
excluded; names are those of zones, so that a new node changes its zone's group only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.mesh.mesh import End, Group, Kind, Site
from cli.mesh.plan import SAMPLE_S, LatencyTest, MeshPlan
from extender.errors import ConfigError

_ARCHIVE: Final = "archive"
_PACKETS_PER_S: Final = 10
_TOOLS: Final = {LatencyTest.LATENCYBG: "powstream", LatencyTest.LATENCY: "owping", LatencyTest.RTT: "ping"}


def psconfig_template(
    site: Site, plan: MeshPlan, *, archive: str | None = None, verify_tls: bool = True
) -> dict[str, Any]:
    """The template; results go to `archive`, or where each testpoint sends them. ConfigError for a zone's name."""
    for group in site.groups():
        if not all(char.isascii() and (char.isalnum() or char in ":._-") for char in group.name):
            zone = group.name.partition("-zone-")[2]
            raise ConfigError(f"zone {zone!r}: pSConfig names have letters, digits and : . _ - only")
    groups = {group.name: _group(group) for group in site.groups()}
    tasks = {group.name: _task(group, plan, archive=archive) for group in site.groups()}
    document = {
        "_meta": {"display-name": plan.name},
        "addresses": {end.key: {"address": end.address, "_meta": {"display-name": end.label}} for end in site.ends},
        "groups": groups,
        "tests": {
            Kind.LATENCY.value: _latency_test(plan),
            Kind.THROUGHPUT.value: _test("throughput", duration=f"PT{plan.throughput_duration_s}S"),
        },
        "schedules": _schedules(plan),
        "tasks": tasks,
    }
    if archive is not None:
        document["archives"] = {_ARCHIVE: _archive(archive, verify_tls=verify_tls)}
    return document


def _named(ends: Sequence[End]) -> list[dict[str, str]]:
    return [{"name": end.key} for end in ends]


def _group(group: Group) -> dict[str, Any]:
    excludes = [
        {"local-address": {"name": end.key}, "target-addresses": _named(others)}
        for end, others in group.excluded.items()
    ]
    found = {"type": "mesh", "addresses": _named(group.ends)}
    return found | ({"excludes": excludes} if excludes else {})


def _task(group: Group, plan: MeshPlan, *, archive: str | None) -> dict[str, Any]:
    kind, name = group.kind.value, f"{group.where} - {group.kind}"
    task: dict[str, Any] = {
        "group": group.name,
        "test": kind,
        "tools": [_TOOLS[plan.latency] if group.kind is Kind.LATENCY else "iperf3"],
        "reference": {"display-task-name": f"{plan.name} - {name}", "display-task-group": [plan.name]},
        "_meta": {"display-name": name},
    }
    if kind in _schedules(plan):
        task["schedule"] = kind
    if archive is not None:
        task["archives"] = [_ARCHIVE]
    return task


def _latency_test(plan: MeshPlan) -> dict[str, Any]:
    if plan.latency is LatencyTest.RTT:
        return _test(plan.latency.value, count=SAMPLE_S, interval="PT1S")
    seconds = SAMPLE_S if plan.latency is LatencyTest.LATENCY else plan.latency_interval_s
    packets = {"packet-count": seconds * _PACKETS_PER_S, "packet-interval": 1 / _PACKETS_PER_S}
    return _test(plan.latency.value, **packets, **{"bucket-width": round(plan.bucket_width_ms / 1000, 9)})


def _test(kind: str, **more: object) -> dict[str, Any]:
    return {"type": kind, "spec": {"source": "{% address[0] %}", "dest": "{% address[1] %}", **more}}


def _schedules(plan: MeshPlan) -> Mapping[str, Any]:
    """Kind → its schedule; a background test has none."""
    schedules = {Kind.THROUGHPUT.value: _schedule(plan.throughput_interval_s)}
    if plan.latency is not LatencyTest.LATENCYBG:
        schedules[Kind.LATENCY.value] = _schedule(plan.latency_interval_s)
    return schedules


def _schedule(interval_s: int) -> dict[str, Any]:
    """Once every interval at a random moment of it, so that hosts do not all begin at once."""
    return {"repeat": f"PT{interval_s}S", "slip": f"PT{interval_s}S", "sliprand": True}


def _archive(base: str, *, verify_tls: bool) -> dict[str, Any]:
    """A perfSONAR 5 archive that lets the nodes write by their addresses; passwords are never printed."""
    return {
        "archiver": "http",
        "data": {
            "schema": 3,
            "_url": f"{base}/logstash",
            "verify-ssl": verify_tls,
            "op": "put",
            "_headers": {"x-ps-observer": "{% scheduled_by_address %}", "content-type": "application/json"},
        },
        "_meta": {"esmond_url": f"{base}/esmond/perfsonar/archive/"},
    }
