"""The measured part of docs/explanation/comparison.md: netgang and the others on the same loads, in columns.

Why generated: a figure that is typed there goes wrong and stays. Rule: a line is of one run, in which the ways took
turns; the best figure of each line is bold, ours or not, and a way that bound a gang partly or left pods unbound has no
figure but that.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.bench.peers.figures import Figures
from lab.bench.peers.others import COSCHEDULING, KUEUE, KUEUE_SECOND, VOLCANO, VOLCANO_SAMPLED
from lab.bench.peers.tables import NOTHING
from lab.bench.results.tables import markdown

_COLUMNS: Mapping[str, str] = {
    "second": "netgang",
    "second-gated": "netgang, gated",
    "native": "netgang, native gangs",
    COSCHEDULING: "coscheduling",
    VOLCANO: "Volcano",
    KUEUE: "Kueue, kube-scheduler",
    "native-alone": "Kubernetes' own gangs",
    "none": "kube-scheduler, single pods",
}
"""way → head of its column"""
_PEERS = (COSCHEDULING, VOLCANO, VOLCANO_SAMPLED, "native-alone")
_BLOCK = re.compile(r"(<!-- measured: make results -->\n).*?(<!-- end of measured -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Line:
    load: str
    words: str
    instead: Mapping[str, str] = field(default_factory=dict)
    """way of a column → the way that this line takes for it"""
    peers: Sequence[str] = _PEERS
    """Its run is the newest in which one of these took part"""
    waits: bool = False
    """Whether it is about the wait of whole gangs, not about pods/s."""


_SAMPLED = {"none": "none-sampled", VOLCANO: VOLCANO_SAMPLED}
_LINES = (
    _Line("gangs", "100 gangs of 10 on 100 nodes, pods/s"),
    _Line("gangs", "the same as Jobs below Kueue's quota, pods/s", {"second": KUEUE_SECOND}, peers=(KUEUE,)),
    _Line("gangs on 1.37.2", "the same on Kubernetes 1.37.2"),
    _Line("trios", "300 gangs of 3 on 500 nodes, pods/s"),
    _Line("wide", "100 gangs of 4 on 5,000 nodes, all looked at, pods/s"),
    _Line("wide", "the same, others look at a sample, pods/s", _SAMPLED),
    _Line("oversized", "40 gangs of 10 behind one that never fits, pods/s"),
    _Line("burst", "a burst of 4 gangs of 10, p99 of whole gangs, s", waits=True),
)

Runs = Callable[[str], Sequence[Sequence[Figures]]]
"""load → the lines of each of its runs, the newest first"""


def with_measured(text: str, runs: Runs) -> str:
    """The page with what the records say between its two marks. ValueError if it has not both once."""
    changed, count = _BLOCK.subn(lambda found: f"{found[1]}\n{_table(runs)}\n\n{found[2]}", text)
    if count != 1:
        raise ValueError(f"the comparison has {count} places for what was measured, expected one")
    return changed


def without_measured(text: str) -> str:
    r"""The page without what comes from records.

    >>> without_measured("a <!-- measured: make results -->\n1 <!-- end of measured --> b")
    'a  b'
    """
    return _BLOCK.sub("", text)


def _table(runs: Runs) -> str:
    lines = [[line.words, *_cells(line, _rows(line, runs(line.load)))] for line in _LINES]
    return markdown(("load", *_COLUMNS.values()), lines)


def _rows(line: _Line, runs: Sequence[Sequence[Figures]]) -> Sequence[Figures]:
    return next((rows for rows in runs if any(row["way"] in line.peers for row in rows)), ())


def _cells(line: _Line, rows: Sequence[Figures]) -> list[str]:
    by_way = {str(row["way"]): row for row in rows}
    found = [by_way.get(line.instead.get(way, way)) for way in _COLUMNS]
    whole = [row for row in found if row is not None and _is_whole(row)]
    figures = [_figure(row, line) for row in whole]
    best = (min if line.waits else max)(figures, default=None)
    return [_cell(row, line, best) for row in found]


def _cell(row: Figures | None, line: _Line, best: float | None) -> str:
    if row is None:
        return NOTHING
    if not _is_whole(row):
        return f"partial gangs: {row['partial_gangs']}, pods unbound: {row['unfinished']}"
    figure = _figure(row, line)
    spread = "" if line.waits else f" ({row['pods_per_s_min']:.0f}–{row['pods_per_s_max']:.0f})"
    shown = f"{figure:.2f}" if line.waits else f"{figure:.0f}"
    return (f"**{shown}**" if figure == best else shown) + spread


def _is_whole(row: Figures) -> bool:
    return not (row["partial_gangs"] or row["unfinished"])


def _figure(row: Figures, line: _Line) -> float:
    return float(row["gang_p99_s" if line.waits else "pods_per_s"])
