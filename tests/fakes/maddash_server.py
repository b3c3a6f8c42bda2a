"""A small MaDDash server on loopback: the shapes and habits of 5.0.8, for a mesh that may change at any time."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus, unquote, unquote_plus

from tests.fakes.mesh import Link, Mesh, full_mesh, paper_mesh
from tests.fakes.raw_http import Answer, RawServer, ok

__all__ = ["MaddashServer", "full_mesh", "paper_mesh"]

CHECKS = {"Loss": "Packet Loss", "Delay": "One-way Delay", "Throughput": "Throughput"}  # grid → its only check


class MaddashServer(RawServer):
    def __init__(self, mesh: Mesh, *, checked_at_s: Callable[[], float]) -> None:
        super().__init__({})
        self.mesh = mesh
        self.checked_at_s = checked_at_s
        self.broken = False

    @property
    def url(self) -> str:
        return f"{super().url}/maddash"

    def answer_to(self, path: str) -> Answer:
        if self.broken:
            return ok(b"Index 255 out of bounds for length 6", status=500)
        _, kind, *rest = unquote(path.partition("?")[0]).removeprefix("/maddash").split("/", 2)
        if kind != "grids":
            return super().answer_to(path)
        if not rest:
            grids = [{"name": name, "uri": f"/maddash/grids/{quote_plus(name)}"} for name in CHECKS]
            return ok(json.dumps({"grids": grids}).encode())
        if (name := unquote_plus(rest[0])) not in CHECKS:
            return ok(f"Unable to find grid with name {name}".encode(), status=500)
        return ok(json.dumps(self._grid(name), separators=(",", ":")).encode())

    def _grid(self, name: str) -> dict[str, Any]:
        rows = {one: end.label for one, end in sorted(self.mesh.ends.items(), key=lambda one: one[1].label)}

        def cell(row: str, column: str, _: str) -> tuple[int, str] | None:
            link = self.mesh.links.get((row, column))
            return None if link is None else _check(name, link, row, column)

        document = grid_document(name, rows, [CHECKS[name]], cell)
        for one, row in zip(rows, document["rows"], strict=True):
            address = {"default": {"address": self.mesh.ends[one].address}}
            row["props"] = {"label": self.mesh.ends[one].label, "map": address}
        return at_time(document, self.checked_at_s())


def grid_document(
    name: str, rows: Mapping[str, str], checks: Sequence[str], cell: Callable[[str, str, str], tuple[int, str] | None]
) -> dict[str, Any]:
    """A grid as the server writes it. `cell`: (row, column, check) → status and message, or no check."""
    base = f"/maddash/grids/{quote_plus(name)}"

    def checked(row: str, column: str) -> list[dict[str, Any] | None] | None:
        found = [
            {"message": said[1], "status": said[0], "uri": f"{base}/{'/'.join(map(quote_plus, (row, column, check)))}"}
            if (said := cell(row, column, check)) is not None
            else None
            for check in checks
        ]
        return found if any(found) else None

    document = {
        "name": name,
        "statusLabels": ["good", "not so good", "bad", "Unable to find test data", "Check has not yet run"],
        "columnNames": list(rows.values()),
        "columnProps": [{} for _ in rows],
        "checkNames": list(checks),
        "rows": [{"name": label, "uri": f"{base}/{quote_plus(one)}", "props": {}} for one, label in rows.items()],
        "grid": [[checked(row, column) for column in rows] for row in rows],
        "report": {"mesh": {"name": name}, "global": {"severity": 0}, "sites": {}},
    }
    return at_time(document, 1_800_000_000.0)


def at_time(document: dict[str, Any], checked_at_s: float) -> dict[str, Any]:
    for check in (one for row in document["grid"] for cell in row for one in cell or () if one):
        check["prevCheckTime"] = int(checked_at_s)
    return document | {"lastUpdateTime": int(checked_at_s)}


def _check(grid: str, link: Link, row: str, column: str) -> tuple[int, str]:
    bps = link.throughput_bps
    value, text, limits = {
        "Loss": (link.loss_ratio, f" Average packet loss is {(link.loss_ratio or 0.0) * 100.0:.3f}% ", (1e-5, 1e-3)),
        "Delay": (link.delay_ms, f" Average minimum delay is {link.delay_ms or 0.0:.3f}ms ", (40.0, 60.0)),
        "Throughput": (bps, f" Average throughput is {(bps or 0.0) / 1e9:.3f}Gbps ", (-90e6, -20e6)),
    }[grid]
    if value is None:
        where = f"source is {row} and destination is {column}"
        return 3, f" Unable to find any tests with data in the given time range where {where}"
    compared = -value if grid == "Throughput" else value
    return sum(compared > limit for limit in limits), text
