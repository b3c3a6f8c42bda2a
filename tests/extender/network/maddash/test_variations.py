"""Recordings as other sites would have made them: other names, languages, units, orders and encodings, same values.

Each variation is applied to recorded grids of a real server and sent over HTTP to the real client; what comes out must
be, pair by pair, what the recordings say.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

import pytest

from extender.network.maddash.client import MaddashServer as Address
from extender.network.maddash.client import grid_path
from extender.network.survey import survey_maddash
from tests.extender.network import recorded
from tests.fakes.raw_http import RawServer, ok

NOW_S = recorded.RUN_2_S + 10.0
Grid = dict[str, Any]
RECORDED = {"L": "grid-loss.json", "D": "grid-delay.json", "T": "grid-throughput.json"}


def checks(grid: Grid) -> Iterator[dict[str, Any]]:
    """Every check of a grid document."""
    for row in grid["grid"]:
        for cell in row:
            yield from (check for check in cell or () if check is not None)


def said(grid: Grid, change: Callable[[str], str]) -> Grid:
    """Every message in other words."""
    for check in checks(grid):
        check["message"] = change(check["message"] or "")
    return grid


def addressed(grid: Grid, change: Callable[[list[str]], list[str]]) -> Grid:
    """Every cell's row, column and check under other names or in another encoding."""
    for check in checks(grid):
        start, *parts = check["uri"].rsplit("/", 3)
        check["uri"] = "/".join([start, *change(parts)])
    return grid


def scaled(factors: Mapping[str, tuple[int, str]]) -> Callable[[str], str]:
    """Numbers in another unit: unit → (factor, other unit)."""

    def change(message: str) -> str:
        found = re.search(r"is (-?[\d.]+)(Gbps|ms|%)", message)
        if found is None:
            return message
        factor, unit = factors.get(found[2], (1, found[2]))
        return f"{message[: found.start()]}is {float(found[1]) * factor:.6f} {unit}{message[found.end() :]}"

    return change


def renamed(check: str) -> Callable[[Grid], Grid]:
    """Another name for all checks."""

    def change(grid: Grid) -> Grid:
        grid["checkNames"] = [check]
        return addressed(grid, lambda parts: [*parts[:2], quote_plus(check)])

    return change


def beside_others(grid: Grid) -> Grid:
    """Each cell has other checks before and behind: of other metrics, without a value, and none."""
    for row in grid["grid"]:
        for number, cell in enumerate(row):
            if not cell:
                continue
            others = []
            for name, message, status in (
                ("A path", "Average path count is 7", 0),
                ("Z jitter", "Average delay variation is 0.001ms", 0),
                ("Z loss v6", "Average packet loss is 99.000%", 4),
                ("Z raté", "Command timed-out after 60 seconds", 3),
            ):
                other = deepcopy(cell[0])
                other["uri"] = f"{other['uri'].rpartition('/')[0]}/{quote_plus(name)}"
                others.append({**other, "message": message, "status": status})
            row[number] = [others[0], None, *cell, *others[1:]]
    return grid


def without_labels(grid: Grid) -> Grid:
    """Labels that are all alike and properties that are none, with unknown keys."""
    grid |= {"columnNames": ["node"] * len(grid["columnNames"]), "columnProps": None, "checkNames": [], "extra": {}}
    grid["rows"] = [{"name": "node", "uri": row["uri"], "props": None, "new": [1]} for row in grid["rows"]]
    return grid


def turned(grid: Grid) -> Grid:
    """Rows and columns in another order."""
    grid["rows"].reverse()
    grid["grid"] = [list(reversed(row)) for row in reversed(grid["grid"])]
    grid["columnNames"].reverse()
    return grid


def raw(parts: list[str]) -> list[str]:
    """As a server writes them that was asked with single encoding: only what must be is encoded."""
    return [quote(unquote_plus(part), safe=" :[]@") for part in parts]


VARIATIONS: dict[str, Callable[[Grid], Grid]] = {
    "as recorded": lambda grid: grid,
    "checks named in Korean": renamed("패킷 손실 / 지연"),
    "checks named in French": renamed("Débit, délai & pertes (10 min)"),
    "checks named by a number": renamed("1"),
    "checks named by what they are not": renamed("Throughput Loss Delay"),
    "numbers in small units": lambda grid: said(grid, scaled({"Gbps": (1000, "Mbps"), "ms": (1000, "us")})),
    "numbers in odd units": lambda grid: said(
        grid, scaled({"Gbps": (10**6, "Kbits/sec"), "ms": (1000, "µs"), "%": (1, "percent")})
    ),
    "as the plugins print it": lambda grid: said(
        grid, lambda text: f"PS_CHECK OK - {text.strip()} | Count=4;; Min=1;;" if "Average" in text else text
    ),
    "in capitals": lambda grid: said(grid, lambda text: text.upper() if "Average" in text else text),
    "without blanks at the ends": lambda grid: said(grid, str.strip),
    "beside other checks": beside_others,
    "without labels": without_labels,
    "in another order": turned,
    "singly encoded": lambda grid: addressed(grid, raw),
}
NAMES = ("Loss", "Lab 100% A+B / v4", "대역폭·지연", "a?b*c[d]", "..", "Délai")


@pytest.mark.parametrize("variation", VARIATIONS)
@pytest.mark.parametrize("name", NAMES)
async def test_the_same_values_however_they_are_named(variation: str, name: str) -> None:
    """Each direction has its recorded loss, delay and throughput, and no other has any."""
    grids = {f"{name} {key}": json.loads(recorded.body(file)) for key, file in RECORDED.items()}
    answers = {
        f"/maddash{grid_path(called)}": ok(json.dumps(VARIATIONS[variation](grid)).encode())
        for called, grid in grids.items()
    }
    listed = json.dumps({"grids": [{"name": called} for called in grids]}).encode()
    with RawServer({"/maddash/grids": ok(listed), **answers}) as server:
        survey = await survey_maddash(Address(server.url), now_s=NOW_S)
    assert len(survey.links) == 30
    recorded.agree(survey.links, *grids)


async def test_all_metrics_in_one_grid() -> None:
    """Three checks a cell, one of each metric, in one grid: each counts for its own metric."""
    one = json.loads(recorded.body("grid-loss.json"))
    others = [json.loads(recorded.body(file)) for file in ("grid-delay.json", "grid-throughput.json")]
    for r, row in enumerate(one["grid"]):
        for c, cell in enumerate(row):
            row[c] = [*(cell or []), *(check for other in others for check in other["grid"][r][c] or [])] or None
    with RawServer(
        {"/maddash/grids": ok(b'{"grids":[{"name":"all"}]}'), "/maddash/grids/all": ok(json.dumps(one).encode())}
    ) as server:
        survey = await survey_maddash(Address(server.url), now_s=NOW_S)
    recorded.agree(survey.links, "all", "all", "all")
