"""Links on the terminal: a coloured matrix per metric, as wide as it allows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from cli.output import plain
from extender.network.survey import Link, Survey
from scoring.network.link_grades import Bounds, Grade, bounds_of
from scoring.network.matrix import Metric

_NAME_CELLS: Final = 36
_VALUE_CELLS: Final = 7
_WORST: Final = 5
_LEAST_CELLS: Final = 10
_STYLE: Final = {
    Grade.GOOD: "green",
    Grade.FAIR: "yellow",
    Grade.POOR: "hot_pink",
    Grade.UNKNOWN: "dark_orange",
    Grade.UNCHECKED: "bright_black",
}


@dataclass(frozen=True, slots=True)
class _View:
    title: str
    unit: str
    values: Mapping[tuple[str, str], float | None]
    bounds: Bounds

    def grade(self, pair: tuple[str, str]) -> Grade:
        return self.bounds.grade(self.values[pair]) if pair in self.values else Grade.UNCHECKED

    def legend(self) -> tuple[tuple[Grade, str], ...]:
        good, poor = _number(self.bounds.good), _number(self.bounds.poor)
        if self.bounds.highest_is_best:
            limits = (f"{good} {self.unit} and more", "less", f"below {poor} {self.unit}")
        else:
            limits = (f"up to {good} {self.unit}", "more", f"from {poor} {self.unit}")
        words = (*limits, "no value", "not checked")
        return tuple(zip(Grade, words, strict=True))


def draw(console: Console, survey: Survey) -> None:
    """Print the matrices, the worst links where the numbers do not fit, and a summary. Cost: O(ends²)."""
    ends = sorted({end for link in survey.links for end in (link.source, link.target)}, key=natural_key)
    drawing = _Drawing(console, ends, survey.labels)
    for view in views(survey.links):
        drawing.show(view)
    console.print(_summary(survey, len(ends)), highlight=False, soft_wrap=True)


def views(links: Sequence[Link]) -> tuple[_View, ...]:
    """The three metrics in the units that people read."""

    def values(name: str, factor: float = 1.0) -> dict[tuple[str, str], float | None]:
        found = {(link.source, link.target): getattr(link, name) for link in links}
        return {pair: None if value is None else value * factor for pair, value in found.items()}

    best_bps = max((link.throughput_bps for link in links if link.throughput_bps is not None), default=0.0)
    unit, factor = ("Gbit/s", 1e-9) if best_bps >= 1e9 else ("Mbit/s", 1e-6)
    rates = bounds_of(Metric.THROUGHPUT, best=best_bps).scaled(factor)
    return (
        _View("packet loss", "%", values("loss_ratio", 100.0), bounds_of(Metric.LOSS).scaled(100.0)),
        _View("one-way delay", "ms", values("delay_ms"), bounds_of(Metric.DELAY)),
        _View("throughput", unit, values("throughput_bps", factor), rates),
    )


class _Drawing:
    def __init__(self, console: Console, ends: Sequence[str], labels: Mapping[str, str]) -> None:
        self._console = console
        self._ends = ends
        self._coloured = console.color_system is not None
        self._block = "■" if "utf" in console.encoding.lower() else "#"
        digits = len(str(len(ends)))
        called = (end if labels.get(end, end) == end else f"{end} ({labels[end]})" for end in ends)
        names = [plain(name, console.encoding) for name in called]
        widest = min(max(map(cell_len, names), default=0), _NAME_CELLS)
        self._heads = [f"{number:>{digits}} {set_cell_size(name, widest)} " for number, name in enumerate(names, 1)]
        room = max(console.width - digits - widest - 2, _LEAST_CELLS)
        fitting = [cells for cells in (_VALUE_CELLS, 2, 1) if cells * len(ends) <= room]
        self._cells = fitting[0] if fitting else 1
        self._columns = max(room // self._cells, 1)

    def show(self, view: _View) -> None:
        console = self._console
        console.print(Text(f"{view.title} ({view.unit}), from row to column", style="bold"))
        if not any(value is not None for value in view.values.values()):
            console.print("no value of any link\n", highlight=False)
            return
        for first in range(0, len(self._ends), self._columns):
            columns = range(first, min(first + self._columns, len(self._ends)))
            for line in self._numbers(columns):
                console.print(line, no_wrap=True, crop=False, overflow="ignore")
            for head, source in zip(self._heads, self._ends, strict=True):
                line = Text(head)
                for column in columns:
                    line.append_text(self._cell(view, (source, self._ends[column])))
                console.print(line, no_wrap=True, crop=False, overflow="ignore")
        legend = Text("   ").join(
            Text(f"{self._sign(grade)} {words}", style=_STYLE[grade]) for grade, words in view.legend()
        )
        console.print(legend, soft_wrap=True)
        if self._cells < _VALUE_CELLS:
            for text in _worst(view):
                console.print(Text(plain(text, console.encoding)), soft_wrap=True)
        console.print()

    def _numbers(self, columns: range) -> Iterable[Text]:
        """The heads of columns: their numbers, digit below digit where a cell has less room than that."""
        margin = " " * cell_len(self._heads[0])
        numbers = [str(column + 1) for column in columns]
        if self._cells == _VALUE_CELLS:
            yield Text(margin + "".join(f"{number:>{_VALUE_CELLS}}" for number in numbers), style="dim")
            return
        digits = max(map(len, numbers))
        for place in range(digits):
            row = "".join(number.rjust(digits)[place].ljust(self._cells) for number in numbers)
            yield Text(margin + row, style="dim")

    def _cell(self, view: _View, pair: tuple[str, str]) -> Text:
        if pair[0] == pair[1]:
            return Text(" " * self._cells)
        grade = view.grade(pair)
        value = view.values.get(pair)
        if self._cells < _VALUE_CELLS:
            return Text(self._sign(grade).ljust(self._cells), style=_STYLE[grade])
        text = grade.value if value is None else _number(value)
        return Text(f"{text:>{_VALUE_CELLS}}", style=_STYLE[grade])

    def _sign(self, grade: Grade) -> str:
        if not self._coloured or grade in (Grade.UNKNOWN, Grade.UNCHECKED):
            return grade.value
        return self._block


def _worst(view: _View) -> Iterable[str]:
    known = [(value, pair) for pair, value in view.values.items() if value is not None]
    known.sort(key=lambda one: (-one[0] if not view.bounds.highest_is_best else one[0], one[1]))
    for value, (source, target) in known[:_WORST]:
        yield f"  {_number(value)} {view.unit}  {source} → {target}"


def _summary(survey: Survey, ends: int) -> str:
    fields = {"loss": "loss_ratio", "delay": "delay_ms", "throughput": "throughput_bps"}
    known = {metric: sum(getattr(link, name) is not None for link in survey.links) for metric, name in fields.items()}
    counts = ", ".join(f"{metric} {count}" for metric, count in known.items())
    text = f"{ends} ends, {len(survey.links)} directions; with a value: {counts}"
    if ages := [link.age_s for link in survey.links if link.age_s is not None]:
        text += f"; checked {duration(min(ages))} to {duration(max(ages))} ago"
    return f"{text}; {survey.note}" if survey.note else text


def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key by which node2 comes before node10: the texts and the numbers between them, by turns.

    >>> sorted(["node10", "node2", "n", "10.0.0.9", "10.0.0.10"], key=natural_key)
    ['10.0.0.9', '10.0.0.10', 'n', 'node2', 'node10']
    """
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


def _number(value: float) -> str:
    """At most five characters where that is possible.

    >>> [_number(value) for value in (0.0, 0.0005, 0.056, 1.0, 12.865, 100.0, 9411.87)]
    ['0', '5e-04', '0.056', '1', '12.9', '100', '9412']
    """
    if value == 0.0:
        return "0"
    if abs(value) < 0.001:
        return f"{value:.0e}"
    return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1.0 else f"{value:.{3 if abs(value) < 1000 else 4}g}"


def duration(seconds: float) -> str:
    """Rough, for people.

    >>> [duration(seconds) for seconds in (0.4, 59.0, 600.0, 90000.0)]
    ['0 s', '59 s', '10 min', '25 h']
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"
