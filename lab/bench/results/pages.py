"""The pages of results, made from records: `python -m lab.bench results`.

Why generated: a figure that is typed goes wrong and stays. Rule: text that explains stands in results_words/
and holds no measured figure; tables are made from the newest record of each benchmark (of each load, for the comparison
with peers), and below each table stand its command, date and commit. What no record has is said to be missing.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lab.bench.exam.scenarios import SCENARIOS
from lab.bench.peers.figures import Figures
from lab.bench.peers.goals import PARTIAL
from lab.bench.peers.tables import HEADS, NOTHING, cells, goal_cells
from lab.bench.peers.workloads import WORKLOADS
from lab.bench.programs import BENCHES
from lab.bench.record import ROOT, Record, read
from lab.bench.results.beside import with_measured
from lab.bench.results.sources import Source, bare, by_load, goals_of, newest, rows_of, versions_of, wrapped
from lab.bench.results.tables import NO_GOAL, TABLES, Cells, markdown

DOCS = ROOT / "docs"
COMPARISON = "explanation/comparison.md"
RECORDS = ROOT / "bench" / "records"
WORDS = Path(__file__).with_name("results_words")
"""The pages' words: each file here becomes the page of the same name in docs/research/."""
_PLACE = re.compile(r"^\[\[(\w+)\]\]$", re.MULTILINE)
_EXAM_HEAD = ("scheduler", "verdict", "seen", "runs", "longest run, with start and stop")
_GOALS_HEAD = ("load", "way", "figure", "goal", "measured", "rounds", "")


def page(records: Sequence[Record], words: str) -> str:
    """One page. ValueError if the words name a table that does not exist."""
    ordered = sorted(records, key=lambda record: record.date)
    made: dict[str, Callable[[], str]] = {name: partial(_table, ordered, name) for name in TABLES}
    made |= {"runs": partial(_runs, ordered), "peers": partial(_peers, ordered), "goals": partial(_goals, ordered)}
    made["exam"] = partial(_exam, ordered)
    unknown = [name for name in _PLACE.findall(words) if name not in made]
    if unknown:
        raise ValueError(f"the words name tables that do not exist: {', '.join(unknown)}")
    return _PLACE.sub(lambda place: made[place[1]](), words)


def pages(records: Sequence[Record]) -> dict[str, str]:
    """Path in docs/ → text of every page. ValueError as `page`, and if the comparison has no place for figures."""
    made = {f"research/{path.name}": page(records, path.read_text()) for path in sorted(WORDS.glob("*.md"))}
    runs = partial(_beside, sorted(records, key=lambda record: record.date))
    return made | {COMPARISON: with_measured((ROOT / "docs" / COMPARISON).read_text(), runs)}


def _beside(records: Sequence[Record], load: str) -> list[list[Figures]]:
    """The lines of each run of a load that is shown, the newest first."""
    return [rows_of(source.section, bare(load)) for source in by_load(records).get(load, ())]


def _table(records: Sequence[Record], name: str) -> str:
    """The table of one benchmark, with its source."""
    source = newest(records, name)
    if source is None:
        [bench] = [one for one in BENCHES if one.name == name]
        return f"No record yet: `{bench.command(quick=False)}`."
    head, rows = TABLES[name](source.section.lines)
    return f"{markdown(head, rows)}\n\n{source.words()}"


def _runs(records: Sequence[Record]) -> str:
    """Machine and versions of every record of which something is shown."""
    head = ("run", "commit", "machine", "versions")
    of_peers = (source for found in by_load(records).values() for source in found)
    sources = [*(newest(records, name) for name in TABLES), *of_peers]
    used = {source.record.date for source in sources if source is not None}
    return markdown(
        head,
        [
            [record.date, record.commit, _machine(record.machine), _listed(versions_of(record))]
            for record in records
            if record.date in used
        ],
    )


def _machine(found: Mapping[str, object]) -> str:
    return f"{found['cores']} cores, {found['processor']}, {found['memory_gib']} GiB, Linux {found['kernel']}"


def _listed(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _peers(records: Sequence[Record]) -> str:
    """One table for each load, two if no record has all of its ways."""
    parts = []
    for name, sources in by_load(records).items():
        parts.append(f"### {name}: {rows_of(sources[0].section, bare(name))[0]['load']}")
        for source in sources:
            rows = rows_of(source.section, bare(name))
            parts.append(_ways(rows))
            pairs = sorted({int(row["pairs"]) for row in rows})
            parts.append(source.words(f"Measurements of each way: {', '.join(str(one) for one in pairs)}. "))
    missing = [name for name in WORKLOADS if name not in by_load(records)]
    if missing:
        names = " ".join(f"--workload {name}" for name in missing)
        parts.append(wrapped(f"No record yet: python -m lab.bench peers {names}"))
    return "\n\n".join(parts)


def _ways(rows: Sequence[Figures]) -> str:
    """A row for each way, without columns in which none has a figure."""
    shown = [cells(row) for row in rows]
    kept = [number for number in range(len(HEADS)) if any(line[number] != NOTHING for line in shown)]
    lines = [[str(row["way"]), *(line[number] for number in kept)] for row, line in zip(rows, shown, strict=True)]
    return markdown(("way", *(HEADS[number] for number in kept)), lines)


def _exam(records: Sequence[Record]) -> str:
    """A table for each scenario of the exam: the newest verdict of every scheduler."""
    newest_of: dict[str, dict[str, tuple[Figures, Source]]] = {}
    for record in records:
        for section in record.sections:
            for one in section.lines if section.bench == "exam" else ():
                newest_of.setdefault(one["scenario"], {})[one["way"]] = (dict(one), Source(record, section))
    parts = []
    for name in (one for one in SCENARIOS if one in newest_of):
        found = [line for line, _ in newest_of[name].values()]
        asked = f"knavigator: {found[0]['source']}. {found[0]['words']}. Passed: {found[0]['passes_if']}."
        head = f"### {name}\n\n{wrapped(asked)}"
        rows = [
            [
                one["way"],
                one["verdict"] if one["verdict"] == "passed" else f"**{one['verdict']}**",
                "; ".join([*one["misses"], *one.get("counts", ())]) or NO_GOAL,
                f"{one['runs']}",
                f"{one['run_s']:g} s",
            ]
            for one in found
        ]
        taken = dict.fromkeys(
            f"{source.record.date}, commit {source.record.commit}" for _, source in newest_of[name].values()
        )
        command = f"`python -m lab.bench exam --scenario {name}` with `--scheduler` and `--runs`"
        sources = wrapped(f"{command}: {'; '.join(taken)}.")
        parts += [
            head,
            markdown(
                _EXAM_HEAD,
                rows,
            ),
            sources,
        ]
    missing = [name for name in SCENARIOS if name not in newest_of]
    if missing:
        parts.append(f"No record yet: python -m lab.bench exam {' '.join(f'--scenario {name}' for name in missing)}")
    return "\n\n".join(parts)


def _goals(records: Sequence[Record]) -> str:
    """Every goal of the comparison, from the newest record that judges it.

    Loads in which the same ways left as many gangs in part share a line.
    """
    rows: list[Cells] = []
    alike: dict[tuple[str, str, str], list[tuple[str, list[Figures]]]] = {}
    for name, sources in by_load(records).items():
        judged: dict[tuple[str, str, str], Figures] = {}
        for source in sources:
            pairs = {row["way"]: int(row["pairs"]) for row in rows_of(source.section, bare(name))}
            for goal in goals_of(source.section, bare(name)):
                found = {**goal, "rounds": pairs[goal["way"]]} if goal["way"] in pairs else goal
                judged.setdefault((goal["way"], goal["reference"], goal["figure"]), found)
        for goal in judged.values():
            if goal["figure"] != PARTIAL:
                _, *shown, says = goal_cells(goal)
                rows.append([name, *shown, _rounds([goal]), says])
        partial = [goal for goal in judged.values() if goal["figure"] == PARTIAL]
        if partial:
            ways = ", ".join(str(goal["way"]) for goal in partial)
            says = "holds" if all(goal["holds"] for goal in partial) else "**misses**"
            worst = max(partial, key=lambda goal: (not goal["holds"], goal["value"]))
            alike.setdefault((ways, goal_cells(worst)[4], says), []).append((name, partial))
    for (ways, measured, says), loads in alike.items():
        names = ", ".join(name for name, _ in loads)
        every = [goal for _, goals in loads for goal in goals]
        rows.append([names, ways, "partial gangs", "0", measured, _rounds(every), says])
    return markdown(_GOALS_HEAD, rows) if rows else "No record yet."


def _rounds(goals: Iterable[Figures]) -> str:
    """How many rounds stand behind goals: fewest and most."""
    known = sorted({int(goal["rounds"]) for goal in goals if "rounds" in goal})
    if not known:
        return NO_GOAL
    return f"{known[0]}" if len(known) == 1 else f"{known[0]}–{known[-1]}"


def results(
    files: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, dir_okay=False, help="Records to add to lab/bench/records first."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; status 1 if a page is not up to date.")
    ] = False,
) -> None:
    """Write docs/research/results.md, results-peers.md, exam.md and the comparison's figures from lab/bench/records."""
    console = Console(stderr=True)
    try:
        added = [read(path) for path in files or ()] if check else [_added(path) for path in files or ()]
        known = [read(path) for path in sorted(RECORDS.glob("*.json"))]
        made = pages([*known, *(one for one in added if one not in known)])
    except ValueError as wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
        raise typer.Exit(2) from wrong
    if check:
        late = [name for name, text in made.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
        console.print(f"[red]not what the records say: {', '.join(late)}[/red]" if late else "up to date")
        raise typer.Exit(1 if late else 0)
    for name, text in made.items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(text)
    console.print(f"written from {len(known)} records: {', '.join(made)}", highlight=False)


def _added(path: Path) -> Record:
    """The record of a file, copied to the others under its date if it is not among them. ValueError if it is none."""
    record = read(path)
    if not path.resolve().is_relative_to(RECORDS):
        name = re.sub(r"\D+", "-", record.date).strip("-")
        RECORDS.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, RECORDS / f"{name}.json")
    return record
