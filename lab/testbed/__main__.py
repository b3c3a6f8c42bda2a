"""Command line of the testbed: `python -m lab.testbed build`, `… up`, `… archives`."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from lab.testbed.demo import up
from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.archives import VERSIONS, ensure, ensure_browser
from lab.testbed.programs.build import ensure_all, ensure_asset
from lab.testbed.programs.catalogue import ASSETS, CORE, E2E, PROGRAMS
from lab.testbed.programs.definitions import DEFINITIONS

app = typer.Typer(help="A real Kubernetes control plane on this computer; needs Go to build it once.")


@app.command()
def build(
    programs: Annotated[
        list[str] | None, typer.Argument(help=f"Any of: {', '.join(PROGRAMS)}. Default: what every cluster needs.")
    ] = None,
    e2e: Annotated[bool, typer.Option("--e2e", help="All that the tests of tests/e2e ask for.")] = False,
    optional: Annotated[bool, typer.Option("--optional", help="Exit with 0 even if one cannot be built.")] = False,
) -> None:
    """Build programs into the cache; those that are there already are left alone."""
    console = Console()
    chosen = list(programs or (E2E if e2e else CORE))
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: not among {', '.join(PROGRAMS)}")
    try:
        built = ensure_all(chosen)
        for asset in (*ASSETS, *(DEFINITIONS if e2e else ())):
            ensure_asset(asset)
    except ControlPlaneError as wrong:
        console.print(f"[red]{escape(str(wrong))}[/red]", highlight=False)
        raise typer.Exit(0 if optional else 1) from wrong
    for path in built.values():
        console.print(str(path), highlight=False, soft_wrap=True)


@app.command(name="up")
def start(port: Annotated[int, typer.Option(help="Port netgang listens on.")] = 8888) -> None:
    """Start the cluster with netgang and simulated nodes, and say what to try; Ctrl-C stops it."""
    console = Console()
    try:
        asyncio.run(up(console, port=port))
    except ControlPlaneError as wrong:
        console.print(f"[red]{wrong}[/red]", highlight=False)
        raise typer.Exit(1) from wrong


@app.command()
def archives(
    optional: Annotated[bool, typer.Option("--optional", help="Exit with 0 even if one cannot be had.")] = False,
) -> None:
    """Fetch what tests run against: real archives of measurements, and a browser; what is there is left alone."""
    console = Console()
    missing_any = False
    for name in (*VERSIONS, "chromium"):
        try:
            place = ensure_browser() if name == "chromium" else ensure(name)
        except ControlPlaneError as wrong:
            missing_any = True
            console.print(
                f"[yellow]no {name}, its tests will be skipped:[/yellow] {escape(str(wrong))}",
                highlight=False,
                soft_wrap=True,
            )
        else:
            console.print(f"{name}: {place}", highlight=False, soft_wrap=True)
    if missing_any and not optional:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
