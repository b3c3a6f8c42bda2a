"""Reports as plots, PNG and SVG, by matplotlib (the optional extra `plots`).

Rule: the same report gives the same picture; SVG has neither date nor random names.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.simulator.compare import Report
from lab.simulator.scenarios import ScenarioError
from lab.simulator.summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = {
    # column → what its axis says
    "jct_mean_s": "mean job completion time, s",
    "jct_p99_s": "99th percentile of job completion times, s",
    "cpu_utilisation_ratio": "CPU that trains, share",
    "slowdown_max": "largest slow-down",
}


def need_matplotlib() -> None:
    """Refuse, before anything is run, where plots cannot be made."""
    if find_spec("matplotlib") is None:
        raise ScenarioError("plots need matplotlib: pip install netgang[plots]")


def draw(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write the report's plots into `folder`, which is made; gives the files. ScenarioError: it cannot be written."""
    import matplotlib
    from matplotlib.figure import Figure

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"--plot {folder}: {error.strerror}") from error
    written: list[Path] = []
    with matplotlib.rc_context({"svg.hashsalt": "netgang", "svg.fonttype": "none"}):
        for column, words in _columns(report):
            figure = Figure(figsize=(9, 5), layout="constrained")
            _fill(figure, report, column, words)
            written += _save(figure, folder / f"{report.scenario}-{column}")
    return tuple(written)


def _columns(report: Report) -> list[tuple[str, str]]:
    if any("loss" in row for row in report.rows):
        return [("loss", "loss at the end"), ("run_time_s", "run time, s")]
    return [(name, words) for name, words in _COLUMNS.items() if any(row.get(name) is not None for row in report.rows)]


def _save(figure: "Figure", path: Path) -> list[Path]:
    found: list[Path] = []
    for ending, facts in ((".svg", {"Date": None}), (".png", {"Software": None})):
        target = path.with_suffix(ending)
        try:
            figure.savefig(target, metadata=facts)
        except OSError as error:
            raise ScenarioError(f"--plot {target}: {error.strerror}") from error
        found.append(target)
    return found


def _fill(figure: "Figure", report: Report, column: str, words: str) -> None:
    """One panel for each model, bars by batch and policy; without models one panel of bars."""
    models = list(dict.fromkeys(str(row["model"]) for row in report.rows if "model" in row)) or [""]
    panels: Any = figure.subplots(1, len(models), squeeze=False, sharey=False)[0]
    for panel, model in zip(panels, models, strict=True):
        rows = [row for row in report.rows if not model or row["model"] == model]
        _bars(panel, rows, column)
        panel.set_title(model or report.scenario)
    panels[0].set_ylabel(words)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _bars(panel: "Axes", rows: Sequence[Row], column: str) -> None:
    batches = list(dict.fromkeys(row["batch"] for row in rows if "batch" in row))
    series = list(dict.fromkeys(str(row["policy"]) for row in rows)) if batches else [""]
    width = 0.8 / len(series)
    for number, name in enumerate(series):
        mine = [row for row in rows if not batches or row["policy"] == name]
        values = [float(value) if isinstance(value := row.get(column), int | float) else 0.0 for row in mine]
        places = [place + number * width for place in range(len(mine))]
        panel.bar(places, values, width, label=name)
    ticks = [str(batch) for batch in batches] or [_label(row) for row in rows]
    panel.set_xticks([place + 0.4 - width / 2 for place in range(len(ticks))], ticks)
    if not batches:
        panel.tick_params("x", labelrotation=90)
    if batches:
        panel.set_xlabel("batch")


def _label(row: Row) -> str:
    parts = [row.get(name) for name in ("policy", "sync", "every_steps", "assumption", "value")]
    return " ".join(str(part).removesuffix("chronous") for part in parts if part is not None)
