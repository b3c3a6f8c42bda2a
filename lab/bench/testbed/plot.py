"""The runs as curves, as the paper draws them: time over the impairment's strength, one line per choice.

matplotlib is an optional extra (`plots`); without it the table and the JSON are all there is, and that is said.
Points are runs, and lines go through the medians of the values; a hollow point is a run that was cut short, whose time
is projected.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

from lab.bench.testbed.cases import Choice, Impairment
from lab.bench.testbed.result import Row

_STYLES: Final = {
    Choice.NETGANG: ("tab:green", "o"),
    Choice.RANDOM: ("tab:blue", "^"),
    Choice.WORST: ("tab:red", "s"),
    Choice.CLEAN_PS: ("tab:orange", "D"),
}
"""choice → colour, marker"""


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a picture (PNG or SVG, by the name): a column per impairment, a line per data set and topology."""
    from matplotlib.figure import Figure

    kinds = sorted({(row.dataset, row.topology, row.model) for row in rows})
    impairments = [one for one in Impairment if any(row.impairment == one for row in rows)]
    figure = Figure(figsize=(4.0 * len(impairments), 2.6 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), len(impairments), squeeze=False)
    for (dataset, topology, model), line in zip(kinds, panels, strict=True):
        for impairment, panel in zip(impairments, line, strict=True):
            kind = (dataset, topology, model, impairment)
            _curves(panel, [r for r in rows if (r.dataset, r.topology, r.model, r.impairment) == kind])
            panel.set_title(f"{dataset}, {topology}, {model}", fontsize=9)
            panel.set_xlabel(f"{impairment.value} of three nodes, {impairment.unit}", fontsize=8)
    panels[0][0].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _curves(panel: Any, rows: Sequence[Row]) -> None:
    """One panel: seconds of a run, on a scale of powers, over the impairment's value."""
    shown: list[float] = []
    for choice, (colour, marker) in _STYLES.items():
        points = sorted(
            (row.value, row.run.seconds, row.run.finished)
            for row in rows
            if row.choice == choice and row.run.seconds is not None
        )
        values = sorted({value for value, _, _ in points})
        middle = [median(seconds for value, seconds, _ in points if value == one) for one in values]
        panel.plot(values, middle, color=colour)
        for finished in (True, False):
            of = [(value, seconds) for value, seconds, whole in points if whole is finished]
            panel.scatter(
                [value for value, _ in of],
                [seconds for _, seconds in of],
                marker=marker,
                edgecolors=colour,
                facecolors=colour if finished else "none",
                label=choice.value if finished else None,
            )
        shown += [seconds for _, seconds, _ in points]
    panel.set_yscale("log")
    if shown:
        panel.set_ylim(min(shown) / 2.0, max(shown) * 2.0)
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter("")
    panel.set_ylabel("s per run", fontsize=8)
