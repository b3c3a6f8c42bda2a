"""A small MaDDash server on loopback: the shapes and habits of 5.0.8, for a mesh that a test may change at any time.

with MaddashServer(paper_mesh(), checked_at_s=clock.now_s) as server:
    server.mesh.change("node1", "node2", delay_ms=80.0)
    server.faults["Loss"] = Fault.SERVER_ERROR    # a grid, or "grids" for the list of all
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any
from urllib.parse import quote_plus, unquote, unquote_plus

from tests.fakes.mesh import Link, Mesh, full_mesh, paper_mesh
from tests.fakes.raw_http import Answer, RawServer, ok

__all__ = ["Fault", "MaddashServer", "full_mesh", "paper_mesh"]

CHECKS = {"Loss": "Packet Loss", "Delay": "One-way Delay", "Throughput": "Throughput"}  # grid → its only check


class Fault(Enum):
    SERVER_ERROR = "500 with a plain text"
    EMPTY = "200 without a body; for the list of grids: no grids, as in a reload"
    SLOW = "no answer until the server stops"
    TRUNCATED = "half a body, then the connection ends"
    HTML = "200 with a log-in page"
    HALF = "half of the rows are missing, as in a reload"


class MaddashServer(RawServer):
    def __init__(self, mesh: Mesh, *, checked_at_s: Callable[[], float], prefix: str = "") -> None:
        """`checked_at_s` is the check time in every cell; `prefix` goes before each grid's name."""
        super().__init__({})
        self.mesh = mesh
        self.checked_at_s = checked_at_s
        self.faults: dict[str, Fault] = {}
        self._prefix = prefix

    @property
    def url(self) -> str:
        return f"{super().url}/maddash"

    def answer_to(self, path: str) -> Answer:
        status, content_type, body, fault = self.answer(path)
        whole = ok(body, status=status, content_type=content_type)
        return whole[: len(whole) - len(body) + len(body) // 2] if fault is Fault.TRUNCATED else whole

    def answer(self, raw_path: str) -> tuple[int, str, bytes, Fault | None]:
        """Status, content type and body for a path, and the fault that its sending has."""
        parts = unquote(raw_path.partition("?")[0]).split("/", 3)[1:]
        if parts[:1] != ["maddash"] or len(parts) < 2:
            return 404, "", b"", None
        echoed = parts[2] if len(parts) > 2 else ""
        name = unquote_plus(echoed).removeprefix(self._prefix)
        fault = self.faults.get(name or parts[1])
        if fault is Fault.SLOW:
            self.stopping.wait()
        if fault is Fault.SERVER_ERROR:
            return 500, "application/json", b"Index 255 out of bounds for length 6", None
        if fault is Fault.HTML:
            return 200, "text/html", b"<html><body>Please log in</body></html>", None
        if parts[1] == "grids" and echoed:
            if name not in CHECKS:
                return 500, "application/json", f"Unable to find grid with name {name}".encode(), None
            document = self._grid(name, echoed, half=fault is Fault.HALF)
        else:
            found = self._list(parts[1], empty=fault is Fault.EMPTY)
            if found is None:
                return 404, "", b"", None
            return 200, "application/json", json.dumps(found).encode(), fault
        body = b"" if fault is Fault.EMPTY else json.dumps(document, separators=(",", ":")).encode()
        return 200, "application/json", body, fault

    def _list(self, kind: str, *, empty: bool) -> dict[str, Any] | None:
        grids = [{"name": n, "uri": f"/maddash/grids/{quote_plus(n)}"} for n in map(self._prefix.__add__, CHECKS)]
        ends = [{"id": one, "name": end.label} for one, end in sorted(self.mesh.ends.items())]
        lists: dict[str, dict[str, Any]] = {
            "dashboards": {"dashboards": [{"name": "Mesh", "grids": grids}]},
            "grids": {"grids": [] if empty else grids},
            "rows": {"rows": ends},
            "columns": {"columns": ends},
            "checks": {"checks": [{"name": check} for check in CHECKS.values()]},
        }
        return lists.get(kind)

    def _grid(self, name: str, echoed: str, *, half: bool) -> dict[str, Any]:
        order = {one: end.label for one, end in sorted(self.mesh.ends.items(), key=lambda one: one[1].label)}
        rows = dict(list(order.items())[: len(order) // 2]) if half else order

        def cell(row: str, column: str, _: str) -> tuple[int, str] | None:
            link = self.mesh.links.get((row, column))
            return None if link is None else _check(name, link, row, column)

        document = grid_document(self._prefix + name, rows, [CHECKS[name]], cell, columns=order, echoed=echoed)
        for one, row in zip(rows, document["rows"], strict=True):
            address = {"default": {"address": self.mesh.ends[one].address}}
            row["props"] = {"label": self.mesh.ends[one].label, "map": address}
        return at_time(document, self.checked_at_s())


def grid_document(
    name: str,
    rows: Mapping[str, str],
    checks: Sequence[str],
    cell: Callable[[str, str, str], tuple[int, str] | None],
    *,
    columns: Mapping[str, str] | None = None,
    echoed: str = "",
) -> dict[str, Any]:
    """A grid as the server writes it. `cell`: (row, column, check) → status and message, or no check."""
    base = f"/maddash/grids/{echoed or quote_plus(name)}"
    beside = columns or rows

    def checked(row: str, column: str) -> list[dict[str, Any] | None] | None:
        found: list[dict[str, Any] | None] = []
        for check in checks:
            said = cell(row, column, check)
            uri = f"{base}/{'/'.join(map(quote_plus, (row, column, check)))}"
            found.append(None if said is None else {"message": said[1], "status": said[0], "uri": uri})
        return found if any(found) else None

    document = {
        "name": name,
        "statusLabels": ["good", "not so good", "bad", "Unable to find test data", "Check has not yet run"],
        "columnNames": list(beside.values()),
        "columnProps": [{} for _ in beside],
        "checkNames": list(checks),
        "rows": [{"name": label, "uri": f"{base}/{quote_plus(one)}", "props": {}} for one, label in rows.items()],
        "grid": [[checked(row, column) for column in beside] for row in rows],
        "report": {"mesh": {"name": name}, "global": {"severity": 0}, "sites": {}},
    }
    return at_time(document, 1_800_000_000.0)


def at_time(document: dict[str, Any], checked_at_s: float) -> dict[str, Any]:
    for check in (one for row in document["grid"] for cell in row for one in cell or () if one):
        check["prevCheckTime"] = int(checked_at_s)
    return document | {"lastUpdateTime": int(checked_at_s)}


def _check(grid: str, link: Link, row: str, column: str) -> tuple[int, str]:
    value, text, limits = {
        "Loss": (link.loss_ratio, f" Average packet loss is {(link.loss_ratio or 0.0) * 100.0:.3f}% ", (1e-5, 1e-3)),
        "Delay": (link.delay_ms, f" Average minimum delay is {link.delay_ms or 0.0:.3f}ms ", (40.0, 60.0)),
        "Throughput": (
            link.throughput_bps,
            f" Average throughput is {(link.throughput_bps or 0.0) / 1e9:.3f}Gbps ",
            (-90e6, -20e6),
        ),
    }[grid]
    if value is None:
        where = f"source is {row} and destination is {column}"
        return 3, f" Unable to find any tests with data in the given time range where {where}"
    compared = -value if grid == "Throughput" else value
    return sum(compared > limit for limit in limits), text
