"""Show measurements as a MaDDash server would: the only way in which netgang gets to know them.

The shapes are those of MaDDash 5.0: a list of grids, one document per grid with rows as sources and columns as targets,
and values as the sentences that perfSONAR's plugins print, with three decimals (so 1 Mbit/s and 0.001 % are the
steps). Served on a free port of the loopback, for the service in the same process.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import quote_plus, unquote, unquote_plus

from lab.bench.testbed.nodes import address
from lab.bench.testbed.probes import Link, Measured

CHECKS: Final = {"Bed - Loss": "Packet Loss", "Bed - Delay": "One-way Delay", "Bed - Throughput": "Throughput"}
"""grid → its check"""
_NO_DATA: Final = " Unable to find any tests with data in the given time range where source is {} and destination is {}"


def documents(measured: Measured, *, checked_at_s: float) -> Mapping[str, bytes]:
    """Path → body, for all that a reader asks. Cost: O(pairs)."""
    nodes = sorted({source for source, _ in measured})
    grids = [{"name": name, "uri": f"/maddash/grids/{quote_plus(name)}"} for name in CHECKS]
    found: dict[str, Any] = {
        "/maddash/grids": {"grids": grids},
        "/maddash/dashboards": {"dashboards": [{"name": "Test bed", "grids": grids}]},
    }
    for name in CHECKS:
        found[f"/maddash/grids/{name}"] = _grid(name, nodes, measured, int(checked_at_s))
    return {path: json.dumps(document).encode() for path, document in found.items()}


def _grid(name: str, nodes: list[str], measured: Measured, checked_at_s: int) -> dict[str, Any]:
    base, check = f"/maddash/grids/{quote_plus(name)}", CHECKS[name]

    def cell(row: str, column: str) -> list[dict[str, Any]] | None:
        link = measured.get((row, column))
        if link is None:
            return None
        status, message = sentence(name, link, row, column)
        uri = f"{base}/{row}/{column}/{quote_plus(check)}"
        return [{"message": message, "status": status, "prevCheckTime": checked_at_s, "uri": uri}]

    return {
        "name": name,
        "statusLabels": ["good", "not so good", "bad", "Unable to find test data", "Check has not yet run"],
        "lastUpdateTime": checked_at_s,
        "columnNames": nodes,
        "columnProps": [{} for _ in nodes],
        "checkNames": [check],
        "rows": [
            {
                "name": node,
                "uri": f"{base}/{node}",
                "props": {"label": node, "map": {"default": {"address": address(node)}}},
            }
            for node in nodes
        ],
        "grid": [[cell(row, column) for column in nodes] for row in nodes],
        "report": {"mesh": {"name": name}, "global": {"severity": 0}, "sites": {}},
    }


def sentence(grid: str, link: Link, row: str, column: str) -> tuple[int, str]:
    """Status and message of a cell.

    >>> sentence("Bed - Loss", Link(0.05, 0.1, None), "a", "b")
    (2, ' Average packet loss is 5.000% ')
    >>> sentence("Bed - Throughput", Link(0.05, 0.1, 9.5e7), "a", "b")
    (0, ' Average throughput is 0.095Gbps ')
    """
    match CHECKS[grid]:
        case "Packet Loss":
            status = sum(link.loss_ratio > limit for limit in (1e-5, 1e-3))
            return status, f" Average packet loss is {link.loss_ratio * 100.0:.3f}% "
        case "One-way Delay" if link.delay_ms is not None:
            return sum(
                link.delay_ms > limit for limit in (40.0, 60.0)
            ), f" Average minimum delay is {link.delay_ms:.3f}ms "
        case "Throughput" if link.throughput_bps is not None:
            gbps = link.throughput_bps / 1e9
            return sum(gbps < limit for limit in (0.09, 0.02)), f" Average throughput is {gbps:.3f}Gbps "
        case _:
            return 3, _NO_DATA.format(row, column)


@contextmanager
def served(measured: Measured, *, checked_at_s: float) -> Iterator[str]:
    """The address of a server of these measurements, until the end of the block."""
    bodies = documents(measured, checked_at_s=checked_at_s)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(unquote_plus(unquote(self.path.partition("?")[0])))  # encoded twice, as MaDDash is
            self.send_response(200 if body is not None else 500)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/maddash"
        finally:
            server.shutdown()
            thread.join()
