"""The mesh as a MaDDash configuration: one grid per zone and metric, and one per metric between zones.

Why: netgang reads one grid with one request, so grids are few and square, with one check per cell: row = source,
column = target. Ids are the tests' addresses and labels the nodes' names; netgang matches nodes by both. Rule: the
text is written here and not by a YAML library, because MaDDash reads an old subset: block style, quoted texts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cli.mesh.mesh import Group, Kind, Site
from cli.mesh.plan import LatencyTest, MeshPlan

Value: TypeAlias = "str | int | Sequence[Any] | Mapping[str, Any]"

PLUGINS: Final = "/usr/lib/nagios/plugins"
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Check:
    """One check of MaDDash and the grid that shows it."""

    id: str
    kind: Kind
    name: str  # By this and by the message netgang knows the metric
    grid: str
    plugin: str
    limits: tuple[str, str, str]  # What OK, warning and critical mean


_LOSS: Final = ("<= 0.001%", "> 0.001%", "> 0.1%")
_DELAY: Final = ("<= 20ms", "> 20ms", "> 40ms")
_TRIP: Final = ("<= 40ms", "> 40ms", "> 80ms")
_RATE: Final = (">= 100Mbps", "< 100Mbps", "< 10Mbps")
_ONE_WAY: Final = (
    Check("loss", Kind.LATENCY, "Packet Loss", "Loss", "check_loss.pl -w 0.001 -c 0.1", _LOSS),
    Check("delay", Kind.LATENCY, "One-way Delay", "Delay", "check_owdelay.pl -q median -w 20 -c 40", _DELAY),
)
_ROUND_TRIP: Final = (
    Check("loss", Kind.LATENCY, "Loss", "Loss", "check_ping_loss.pl -w 0.001 -c 0.1", _LOSS),
    Check("rtt", Kind.LATENCY, "RTT", "Round Trip", "check_rtt.pl -w 40 -c 80", _TRIP),
)
_THROUGHPUT: Final = Check(
    "throughput", Kind.THROUGHPUT, "Throughput", "Throughput", "check_throughput.pl -w .1: -c .01:", _RATE
)


def maddash_document(
    site: Site, plan: MeshPlan, *, archive: str, check_interval_s: int = 300, plugins: str = PLUGINS
) -> dict[str, Value]:
    """The configuration as values; `archive` is scheme and host, read through its esmond interface. Cost: O(ends)."""
    checks = (*(_ROUND_TRIP if plan.latency is LatencyTest.RTT else _ONE_WAY), _THROUGHPUT)
    groups = {group.name: [end.address for end in group.ends] for group in site.groups()}
    grids = [_grid(plan, group, check) for group in site.groups() for check in checks if check.kind is group.kind]
    return {
        "database": "/var/lib/maddash/",
        "serverHost": "localhost",
        "http": {"port": 8881},
        "groups": groups,
        "groupMembers": [{"id": end.address, "label": end.label} for end in site.ends],
        "checks": {one.id: _check(one, plan, archive, check_interval_s, plugins) for one in checks},
        "grids": grids,
        "dashboards": [{"name": plan.name, "grids": [{"name": grid["name"]} for grid in grids]}],
    }


def maddash_yaml(document: Mapping[str, Value]) -> str:
    r"""Write the document in MaDDash's subset of YAML.

    >>> print(maddash_yaml({"a": {"b": ["x y", {"c": 1, "::1": ["d"]}]}}), end="")
    a:
        b:
            - "x y"
            - c: 1
              "::1":
                  - "d"
    """
    return "".join(f"{line}\n" for line in _lines(document))


def _check(check: Check, plan: MeshPlan, archive: str, interval_s: int, plugins: str) -> dict[str, Value]:
    """How the check runs: means over a quarter of an hour at least, for throughput over a day."""
    if check.kind is Kind.LATENCY:
        window_s = max(900, 3 * plan.latency_interval_s)
    else:
        window_s = max(86_400, 2 * plan.throughput_interval_s)
        interval_s = max(interval_s, plan.throughput_interval_s // 4)
    return {
        "name": check.name,
        "description": f"{check.name} from %row to %col",
        "type": "net.es.maddash.checks.PSNagiosCheck",
        "params": {
            "maUrl": {"default": f"{archive}/esmond/perfsonar/archive"},
            "graphUrl": f"{archive}/perfsonar-graphs/?url=%maUrl&dest=%col&source=%row",
            "command": f"{plugins}/{check.plugin} -u %maUrl -r {window_s} -s %row -d %col",
        },
        "checkInterval": interval_s,
        "retryInterval": min(interval_s, 300),
        "retryAttempts": 1,
        "timeout": 60,
    }


def _grid(plan: MeshPlan, group: Group, check: Check) -> dict[str, Value]:
    good, warning, critical = (f"{check.grid.capitalize()} is {limit}" for limit in check.limits)
    excluded = {end.address: [other.address for other in others] for end, others in group.excluded.items()}
    return {
        "name": f"{plan.name} - {group.where} - {check.grid}",
        "rows": group.name,
        "columns": group.name,
        "checks": [check.id],
        "rowOrder": "alphabetical",
        "colOrder": "alphabetical",
        "excludeSelf": 1,
        "columnAlgorithm": "all",
        "statusLabels": {
            "ok": good,
            "warning": warning,
            "critical": critical,
            "unknown": "No data in the archive",
            "notrun": "Check has not run yet",
        },
        **({"excludeChecks": excluded} if excluded else {}),
    }


def _lines(value: Value) -> Iterator[str]:
    """Lines of a mapping or list, without indentation of its own."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            name = key if _PLAIN.fullmatch(key) else _text(key)
            if isinstance(one, str | int):
                yield f"{name}: {_text(one)}"
            else:
                yield f"{name}:"
                yield from (f"    {line}" for line in _lines(one))
    elif not isinstance(value, str | int):
        for one in value:
            lines = iter([_text(one)] if isinstance(one, str | int) else _lines(one))
            yield f"- {next(lines)}"
            yield from (f"  {line}" for line in lines)


def _text(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)
