"""The command line: `python -m lab.simulator SCENARIO`, and `netgang simulate` in a checkout, which is the same."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from extender.errors import ConfigError
from lab.simulator.compare import compare
from lab.simulator.installed import ABOUT, run_installed
from lab.simulator.policies import NETGANG, POLICIES, SETTINGS, made
from lab.simulator.scenarios import ScenarioError, ScenarioFile, builtin_names, load
from lab.simulator.tables import show

app = typer.Typer(add_completion=False)
_INSTALLED = "installed"
"""The comparison that no file says"""
_WIDTH = 150
"""Of tables that go to a file."""
_EXAMPLE = "Example: netgang simulate kod2 --json; netgang simulate pollux --policy netgang --set preemption=off"


def _option(words: str, default: str, **more: Any) -> Any:
    return typer.Option(help=f"{words} Default: {default}.", show_default=False, **more)


@app.command(name="simulate", epilog=_EXAMPLE)
def simulate(
    scenario: Annotated[
        str | None, typer.Argument(help="A built-in scenario or a YAML file. Default: the list of those built in.")
    ] = None,
    policy: Annotated[list[str] | None, _option(f"Any of: {', '.join(POLICIES)}.", "the file's")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=f"Run {NETGANG} with this besides: {', '.join(SETTINGS)}."),
    ] = None,
    seed: Annotated[int | None, _option("Number from which the workload is drawn.", "the file's", min=0)] = None,
    seeds: Annotated[int, _option("Draw so many workloads: medians and ranges.", "1", min=1)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; the same seed prints the same bytes.")] = False,
) -> None:
    """Simulate training jobs under several policies in virtual time: no cluster is needed.

    Exit code: 0 it ran; 2 the scenario cannot be used.
    """
    try:
        if scenario is None:
            found = {name: load(name).about for name in builtin_names()} | {_INSTALLED: ABOUT}
            for name, about in sorted(found.items()):
                Console().print(f"[bold]{name}[/bold]  {escape(about)}", highlight=False)
            return
        if scenario == _INSTALLED:
            if policy or changes or seeds > 1:
                raise ScenarioError(f"{scenario} has its own policies: only --seed and --json apply")
            report = run_installed(seed=1 if seed is None else seed)
        else:
            fields = {name: one for name, one in (("policies", policy), ("seed", seed)) if one is not None}
            file = _with(load(scenario, changes=fields), changes or [])
            report = compare(file, seeds=seeds)
    except ConfigError as error:
        Console(stderr=True).print(f"error: {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error
    if as_json:
        typer.echo(json.dumps(report.document(), indent=2, ensure_ascii=False))
    else:
        console = Console()
        show(report, console if console.is_terminal else Console(width=_WIDTH))


def _with(file: ScenarioFile, changes: list[str]) -> ScenarioFile:
    """The same with netgang a second time, with these settings."""
    if not changes:
        return file
    changed = " ".join((NETGANG, *changes))
    try:
        made(changed)
    except ValueError as error:
        raise ScenarioError(f"--set: {error}") from error
    return file.model_copy(update={"policies": (*file.policies, changed)})
