"""The command line: `netgang serve`, `queue`, `explain` and the other commands, and groups `network` and `mesh`.

Rule: errors are sentences on standard error with exit code 2 and no traceback; `--json` prints for machines; tables are
coloured only on a terminal. Commands import what they need when they run, so that `--help` is instant.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.commands import doctor as cli_doctor
from cli.commands import explain as cli_explain
from cli.commands import jobs as cli_jobs
from cli.commands import mesh as cli_mesh
from cli.commands import network as cli_network
from cli.commands import queue as cli_queue
from cli.commands import record as cli_record
from cli.commands import simulate as cli_simulate
from cli.commands import uninstall as cli_uninstall
from cli.errors import clear_errors
from cli.reach import busy
from cli.rendering import scaling as cli_scaling
from extender.errors import ConfigError

if TYPE_CHECKING:
    from extender.settings.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Starts distributed training jobs whole, in one zone, on the best measured network.",
)

app.add_typer(cli_network.app, name="network")
app.add_typer(cli_mesh.app, name="mesh")
app.command(
    epilog="Example: netgang queue; netgang queue -n team-a --state waiting --state starving; netgang queue --watch"
)(cli_queue.queue)
app.command(epilog="Example: netgang jobs; netgang jobs team-a/resnet --json")(cli_jobs.jobs)
app.command(epilog="Example: netgang doctor; netgang doctor --scheduler-config scheduler.yaml --json")(
    cli_doctor.doctor
)
app.command(epilog="Example: netgang uninstall --dry-run")(cli_uninstall.uninstall)
app.command(epilog="Example: netgang explain demo/case1; netgang explain team-a/resnet --cluster cluster.json --json")(
    cli_explain.explain
)
app.command(
    "what-if",
    epilog="Example: netgang what-if --suggestion team-a/resnet; netgang what-if --end-job team-a/old --advance 10m",
)(cli_explain.what_if)
app.command(epilog="Example: netgang record -o decisions.log.gz --url http://127.0.0.1:8889")(cli_record.record)
app.command(epilog="Example: netgang replay decisions.log.gz; netgang replay decisions.log.gz --with other.yaml")(
    cli_record.replay
)
app.command(epilog="Example: netgang scores --from node28 --to node33 --url http://127.0.0.1:8888")(cli_network.scores)

app.command(
    epilog="Example: netgang simulate kod2 --json; netgang simulate pollux --plot plots; netgang simulate my.yaml"
)(cli_simulate.simulate)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"netgang {version('netgang')}\n")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Starts distributed training jobs whole, in one zone, on the best measured network."""


ConfigFile = Annotated[Path | None, typer.Option("--config", help="Settings file, YAML or JSON.", show_default="none")]
_DEMO = "paper-testbed.json"


@app.command(epilog="Example: netgang serve --config settings.yaml --kubeconfig ~/.kube/config --port 8888")
def serve(
    config: ConfigFile = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Credentials of the cluster.", show_default="as kubectl")
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option(help="Serve a saved cluster from memory instead of a live one.", show_default="none")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8888")] = None,
    debug_port: Annotated[
        int | None,
        typer.Option(help="Second port, for people: calls to it change nothing.", show_default="none"),
    ] = None,
) -> None:
    """Answer kube-scheduler: /filter, /prioritize, /bind. Every setting also by file and environment (NETGANG_…).

    Exit code: 0 after SIGTERM or Ctrl-C, with all that was held answered; 2 for bad settings; any other: it failed.
    """
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import LogFormat, configure_logging
    from extender.settings.settings import Settings

    with clear_errors():
        given = {"kubeconfig": kubeconfig, "snapshot": snapshot, "host": host, "port": port, "debug_port": debug_port}
        settings = Settings.load(config, given)
        form = LogFormat.HUMAN if settings.log_format.value == "text" else LogFormat.JSON
        configure_logging(level=settings.log_level.upper(), log_format=form)
        run(settings)


@app.command(
    epilog="Example: kubectl get nodes,pods,podgroups -A -o json > c.json; netgang plan c.json --network mesh.yaml"
)
def plan(
    file: Annotated[Path, typer.Argument(help="What `kubectl get nodes,pods,podgroups -A -o json` prints.")],
    network: Annotated[
        Path | None,
        typer.Option(
            help="Mesh: list of {source, target, loss_ratio, delay_ms, throughput_bps, age_s}.", show_default="none"
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(help="Moment to plan for, such as 2026-01-31T12:00:00Z or Unix seconds.", show_default="now"),
    ] = None,
    scaling: Annotated[
        Literal["ours", "literal"] | None,
        typer.Option(
            help="Also who would give up workers and who would get some: as netgang does it, or as published, node by "
            "node. The file must have the jobs, too: kubectl get nodes,pods,podgroups,jobs,tfjobs,hpa …",
            show_default="no",
        ),
    ] = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say who would start where and who would wait for what, from files alone. Nothing is changed anywhere.

    Exit code: 0 shown; 2 wrong use, or a file cannot be read.
    """
    from cli.moment import moment_s
    from cli.offline.plan import plan_files
    from extender.runtime.clock import SystemClock
    from extender.settings.settings import Settings

    with clear_errors():
        settings = Settings.load(config)
        now_s = SystemClock().now_s() if now is None else moment_s(now)
        with busy(Console(stderr=True), "planning"):
            document = plan_files(file, network, settings, now_s=now_s, scaling=scaling)
    if as_json:
        json.dump(document, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        _print_plan(document)


@app.command(epilog="Example: netgang demo --port 8888")
def demo(
    port: Annotated[int, typer.Option(help="Port to listen on, this machine only.")] = 8888,
) -> None:
    """Serve the paper's test bed (36 nodes, zones A-D, three impaired nodes) and print what to try with curl.

    Exit code: 0 after SIGTERM or Ctrl-C; 2 the example files are not there; 3 the port cannot be had.
    """
    from cli.commands.demo import demo_settings, what_to_try
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import LogFormat, configure_logging

    with clear_errors():
        settings = demo_settings(port)
        configure_logging(level="WARNING", log_format=LogFormat.HUMAN)
        sys.stdout.write(what_to_try(port))
        sys.stdout.flush()
        run(settings)


@app.command(
    "check-config",
    epilog="Example: netgang check-config settings.yaml --cluster cluster.json --network mesh.json",
)
def check_config(
    config: Annotated[Path | None, typer.Argument(help="Settings file; the environment counts as well.")] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(help="A saved cluster: show which of its nodes would be measured where.", show_default="none"),
    ] = None,
    network: Annotated[Path | None, typer.Option(help="The mesh for --cluster.", show_default="none")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check settings; print them as they would be used.

    With a saved cluster and a mesh, print instead which node would be measured at which endpoint, and what is in doubt;
    `netgang network show --maddash URL --json` makes a mesh of a MaDDash server.

    Exit code: 0 the settings are good; 2 they are not, or a file cannot be read.
    """
    from extender.settings.settings import Settings

    with clear_errors():
        if (cluster is None) != (network is None):
            raise ConfigError("--cluster and --network belong together")
        settings = Settings.load(config)
        if cluster is not None and network is not None:
            _show_endpoints(cluster, network, settings, as_json=as_json)
            return
    text = settings.model_dump_json(indent=2)
    if as_json:
        sys.stdout.write(text + "\n")
    else:
        Console().print_json(text)


def _show_endpoints(cluster: Path, network: Path, settings: "Settings", *, as_json: bool) -> None:
    from cli.offline.plan import map_files
    from extender.runtime.clock import SystemClock

    document = map_files(cluster, network, settings, now_s=SystemClock().now_s())
    if as_json:
        json.dump(document, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    table = Table("node", *document["counts"])
    for node, ends in document["nodes"].items():
        table.add_row(escape(node), *(escape(end) if end is not None else "–" for end in ends.values()))
    totals = (f"{count['mapped']} of {sum(count.values())}" for count in document["counts"].values())
    table.add_row("nodes with an endpoint", *totals)
    console = Console()
    console.print(table)
    for problem in document["problems"]:
        console.print(escape(problem), soft_wrap=True, highlight=False)
    if document["unused"]:
        console.print(
            f"no node is measured at: {escape(', '.join(document['unused']))}", soft_wrap=True, highlight=False
        )


def main() -> None:
    """Run the command line."""
    single_threaded()
    app()


def single_threaded() -> None:
    """Keep numpy to one thread: products of small matrices lose ten times more by handing work over than they gain."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by numpy's import


def _print_plan(document: dict[str, Any]) -> None:
    console = Console()
    queue = ("rank", "gang", "state", "ω′", "ω")
    admitted = Table(*queue, "zone", "score", "members", title="admitted", title_justify="left")
    for one in document["admitted"]:
        where = ", ".join(f"{pod} → {node}" for pod, node in one["members"].items())
        score = "–" if one["score"] is None else f"{one['score']:.1f}"
        admitted.add_row(*_turn(one, "green"), escape(one["zone"]), score, escape(where))
    waiting = Table(*queue, "reason", "detail", title="waiting", title_justify="left")
    for one in document["waiting"]:
        waiting.add_row(*_turn(one, "yellow"), one["reason"], escape(one["detail"]))
    for table in (admitted, waiting):
        console.print(table if table.row_count else f"{table.title}: none")
    for gang, nodes in document["held"].items():
        console.print(f"held for {escape(gang)}: {escape(', '.join(nodes))}", soft_wrap=True, highlight=False)
    if "scaling" in document:
        cli_scaling.print_scaling(console, document["scaling"])


def _turn(one: dict[str, Any], colour: str) -> tuple[str, str, str, str, str]:
    """Rank, name, state and weight of a gang; gangs that netgang does not rank have no weight."""
    state, weight = one.get("state", "–"), one.get("weight")
    name = f"[{colour}]{escape(one['gang'])}[/{colour}]"
    if weight is None:
        return str(one["rank"]), name, state, "–", "–"
    shown = f"{weight['omega_prime']:.4g}" + (" (given)" if weight["given"] else "")
    return str(one["rank"]), name, state, shown, f"{weight['omega']:.4f}"


if __name__ == "__main__":
    main()
