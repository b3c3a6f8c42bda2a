"""`netgang simulate`: run a scenario and compare the policies. Nothing heavy is imported before it is needed."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape

from cli.output import clear_errors, option, print_json
from cli.service_options import progress

if TYPE_CHECKING:
    from lab.simulator.compare import Report


class Draws(NamedTuple):
    """What is drawn and varied."""

    seed: int | None  # `None`: the file's.
    seeds: int | None  # How many; `None`: one, and its rows as they are.
    sweeping: bool


def simulate(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A built-in scenario (see --list), a YAML file, or a CSV file of jobs.",
            show_default="the list",
        ),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the scenarios that are built in.")] = False,
    policy: Annotated[list[str] | None, option("Only this policy; may be repeated.", "the file's", "--policy")] = None,
    seed: Annotated[
        int | None,
        option("Number from which the random workload is drawn: another number, another workload.", "the file's"),
    ] = None,
    seeds: Annotated[
        int | None,
        option("Draw so many workloads: medians and ranges, also as ratios to plain gangs and to KOD2.", "one", min=2),
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Vary the file's assumptions one by one.")] = False,
    nodes: Annotated[int | None, option("CSV: number of nodes.", "16", min=1)] = None,
    gpus: Annotated[int | None, option("CSV: GPUs of a node.", "4", min=1)] = None,
    scaling: Annotated[str | None, option("CSV: file of measured step times.", "jobs keep their size")] = None,
    min_ratio: Annotated[
        float | None, option("Least workers of a job, as a share of those that it asks for.", "0.5; built in: its own")
    ] = None,
    max_ratio: Annotated[
        float | None, option("Most workers of a job, as a multiple of those that it asks for.", "2; built in: its own")
    ] = None,
    suspendable: Annotated[
        float | None, option("Share of the jobs that may be suspended.", "0.5; built in: its own", min=0.0, max=1.0)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; the same seed prints the same bytes.")] = False,
    plot: Annotated[Path | None, option("Folder for plots, PNG and SVG.", "none")] = None,
) -> None:
    """Simulate training jobs under several policies in virtual time: no cluster is needed.

    Exit code: 0 it ran; 2 the scenario cannot be used, or plots are wanted and matplotlib is not there.
    """
    with clear_errors():
        if list_them or scenario is None:
            _list(as_json=as_json)
            return
        if plot is not None:
            from lab.simulator.plots import need_matplotlib

            need_matplotlib()
        given = {"min_ratio": min_ratio, "max_ratio": max_ratio, "suspendable": suspendable, "scaling": scaling}
        workload = {name: one for name, one in given.items() if one is not None}
        cluster = {name: one for name, one in (("nodes", nodes), ("gpus", gpus)) if one is not None}
        draws = Draws(seed, seeds, sweep)
        report = _run(scenario, policy, draws, workload=workload, cluster=cluster)
        if plot is not None:
            from lab.simulator.plots import draw

            for path in draw(report, plot):
                Console(stderr=True).print(f"written: {escape(str(path))}", highlight=False, soft_wrap=True)
    if as_json:
        print_json(report.document())
    else:
        from lab.simulator.tables import show

        show(report, Console())


def _run(
    name: str,
    policies: list[str] | None,
    draws: Draws,
    *,
    workload: Mapping[str, Any],
    cluster: Mapping[str, int],
) -> "Report":
    """`workload`: fields of the jobs that are given; `cluster`: nodes and GPUs, which a CSV file does not say."""
    from lab.simulator.compare import compare, sweep
    from lab.simulator.elastic import run_elastic
    from lab.simulator.scenarios import ScenarioError, load, load_csv

    seed, count, sweeping = draws
    changes: dict[str, object] = {"policies": policies} if policies else {}
    if name == "elastic":
        if changes or workload or cluster or sweeping or count:
            raise ScenarioError("elastic compares scaling policies of one job: only --seed, --json and --plot apply")
        with progress("") as told:
            return run_elastic(seed=1 if seed is None else seed, told=told)
    changes |= {"seed": seed} if seed is not None else {}
    if name.endswith(".csv"):
        file = load_csv(name, **cluster, workload=workload, changes=changes)
    elif cluster:
        raise ScenarioError("--nodes and --gpus are for a CSV file of jobs: a scenario has its own nodes")
    else:
        file = load(name, changes=changes, workload=workload)
    if sweeping and count:
        raise ScenarioError("--sweep is of one seed: leave --seeds away")
    if sweeping and not file.sweep:
        raise ScenarioError(f"{name}: it has no field sweep, which names the assumptions to vary")
    with progress("") as told:
        if sweeping:
            return sweep(file, told=told)
        if count:
            from lab.simulator.seeds import over_seeds

            return over_seeds(file, count, told=told)
        return compare(file, told=told)


def _list(*, as_json: bool) -> None:
    from lab.simulator.elastic import ABOUT
    from lab.simulator.scenarios import builtin_names, load

    found = {name: load(name).about for name in builtin_names()} | {"elastic": ABOUT}
    if as_json:
        print_json(dict(sorted(found.items())))
        return
    console = Console()
    for name, about in sorted(found.items()):
        console.print(f"[bold]{name}[/bold]  {escape(about)}", highlight=False)
