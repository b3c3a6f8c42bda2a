"""Commands about an installation: the service itself, what is wrong with it, and how it goes."""

import gc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from cli.output import AsJson, ConfigFile, clear_errors, option, print_json
from cli.service_options import run
from extender.errors import ApiError, ApiUnavailableError, ConfigError, NetgangError

if TYPE_CHECKING:
    from cli.doctor.checks import Finding
    from cli.doctor.facts import Facts, Where
    from cli.removal import Removed
    from extender.kube.client import OperatorApi

_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}
Kubeconfig = Annotated[Path | None, option("Credentials of the cluster.", "as kubectl")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where netgang is installed.")]


def serve(
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    snapshot: Annotated[Path | None, option("Serve a saved cluster from memory instead of a live one.", "none")] = None,
    port: Annotated[int | None, option("Port to listen on.", "8888")] = None,
    debug_port: Annotated[int | None, option("Second port, for people: calls to it change nothing.", "none")] = None,
) -> None:
    """Answer kube-scheduler: /filter, /prioritize, /bind. Settings come from a file, NETGANG_… and options.

    Exit code: 0 after SIGTERM or Ctrl-C, with all that was held answered; 2 for bad settings; any other: it failed.
    """
    gc.disable()  # What is imported stays: looking through it is 6 % of the start (measured)
    from extender.bootstrap import serve as service
    from extender.runtime.log_lines import configure_logging
    from extender.settings.settings import Settings

    with clear_errors():
        given = {"kubeconfig": kubeconfig, "snapshot": snapshot, "port": port, "debug_port": debug_port}
        settings = Settings.load(config, given)
        configure_logging(level=settings.log_level.upper(), log_format=settings.log_format)
        service.run(settings)


def doctor(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = "netgang-system",
    scheduler_config: Annotated[
        Path | None, option("kube-scheduler's configuration file.", "that of netgang-scheduler")
    ] = None,
    config: Annotated[Path | None, option("netgang's settings file.", "the installed ConfigMap")] = None,
    url: Annotated[str | None, option("Address of a running netgang to ask as well.", "none")] = None,
    no_cluster: Annotated[bool, typer.Option(help="Look at files and --url alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong with an installation: rights, scheduler configuration, policies, leader, zones.

    Each finding says what to change. With --url the running netgang is asked, too: how its sources and agents do, and
    which nodes are measured. Nothing is changed, and what you may not read is left out, and said.

    Exit code: 0 nothing wrong (notes do not count); 1 something is, which is said; 2 no answer, or wrong use.
    """
    from cli.doctor.checks import Severity, examine
    from cli.doctor.facts import Where

    with clear_errors(refused=2), Console(stderr=True).status("looking"):
        if no_cluster and url is None and config is None and scheduler_config is None:
            raise ConfigError("--no-cluster leaves nothing to look at: give --url, --config or --scheduler-config")
        where = Where(namespace, config, scheduler_config)
        seen = run(_look(kubeconfig, where, url=url, cluster=not no_cluster))
    findings = examine(seen)
    wrong = [finding for finding in findings if finding.severity is not Severity.NOTE]
    if as_json:
        print_json({"ok": not wrong, "findings": [msgspec.to_builtins(finding) for finding in findings]})
    else:
        _print_findings(Console(), findings, seen)
    raise typer.Exit(1 if wrong else 0)


@asynccontextmanager
async def _cluster(kubeconfig: Path | None) -> AsyncIterator["OperatorApi"]:
    """The API server. What it refuses, and that it does not answer, is said with the way out. Errors: NetgangError."""
    from client.way import Door, spoken
    from extender.kube.client import OperatorApi
    from extender.kube.credentials import load
    from extender.ports import SystemClock

    server = load(kubeconfig, clock=SystemClock())
    try:
        async with OperatorApi(server) as api:
            yield api
    except ApiUnavailableError as error:
        raise NetgangError(spoken(Door(server.url, server, prefix="/"), error)) from error
    except ApiError as error:
        way_out = (
            "; name an administrator's --kubeconfig (ClusterRole cluster-admin)" if error.status in (401, 403) else ""
        )
        raise NetgangError(f"{error}{way_out}") from error


async def _look(kubeconfig: Path | None, where: "Where", *, url: str | None, cluster: bool) -> "Facts":
    from cli.doctor.facts import Look, ask_running, of_files

    seen = of_files(where)
    if cluster:
        async with _cluster(kubeconfig) as api:
            seen = await Look(api, where, seen).facts()
    return seen if url is None else await ask_running(seen, url)


def _print_findings(console: Console, findings: "Sequence[Finding]", seen: "Facts") -> None:
    from scoring.explain.words import counted

    for finding in findings:
        kind = (f"{finding.severity:8}", _COLOURS[finding.severity])
        console.print(Text.assemble(kind, (finding.id, "bold"), f": {finding.what}"), soft_wrap=True)
        console.print(Text(f"        → {finding.fix}"), soft_wrap=True)
    counts = Counter(finding.severity.value for finding in findings)
    summary = ", ".join(counted(counts[name], name) for name in _COLOURS if counts[name])
    looked = [f"Kubernetes {seen.kubernetes}"] if seen.kubernetes else []
    looked.append("default settings" if seen.settings_from == "defaults" else f"settings of {seen.settings_from}")
    looked += [seen.scheduler_from] if seen.scheduler is not None else []
    console.print(Text(f"{summary or 'nothing wrong'} ({', '.join(looked)})"), soft_wrap=True)


def uninstall(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = "netgang-system",
    leave_gates: Annotated[
        bool, typer.Option("--leave-gates", help="Delete the policies only: pods wait until netgang comes back.")
    ] = False,
    leases: Annotated[
        bool, typer.Option("--leases", help="Leases and what is on nodes alone: for after netgang's pods are gone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete netgang's admission policies, then release every pod that waits at its gate; netgang's pods stay.

    Run it before `kubectl delete -f` or `helm uninstall` (whose hook does), with an administrator's credentials. Pods
    are released one by one: from here on gangs may start in part. Doing it again does no harm.

    Exit code: 0 done; 1 something is left, which is said; 2 not tried: no answer, no rights, wrong use.
    """
    with clear_errors(refused=2):
        if leases and leave_gates:
            raise ConfigError("--leases and --leave-gates exclude each other: the first is for after netgang is gone")
        with Console(stderr=True).status("releasing pods"):
            done = run(_remove(kubeconfig, namespace, gates=not leave_gates, leases=leases, dry_run=dry_run))
    if as_json:
        print_json({"dry_run": dry_run, **msgspec.to_builtins(done)})
    else:
        _print_removed(Console(), done, would=dry_run)
    raise typer.Exit(1 if done.left else 0)


async def _remove(kubeconfig: Path | None, namespace: str, *, gates: bool, leases: bool, dry_run: bool) -> "Removed":
    from cli.removal import Removal
    from extender.ports import SystemClock

    async with _cluster(kubeconfig) as api:
        removal = Removal(api, SystemClock(), dry_run=dry_run)
        if leases:
            await removal.leases(namespace)
        else:
            await removal.policies()
            if gates:
                await removal.gates()
        await removal.marks()
        return removal.done


def _print_removed(console: Console, done: "Removed", *, would: bool) -> None:
    deleted = "would delete" if would else "deleted"
    lines = [f"{deleted} {name}" for name in (*done.policies, *(f"leases/{name}" for name in done.leases))]
    if count := len(done.released):
        pods = "1 pod that waits" if count == 1 else f"{count} pods that wait"
        lines.append(f"{'would let go' if would else 'let go'} {pods} at the gate")
    lines += [f"{'would unmark' if would else 'unmarked'} node {name}" for name in done.nodes]
    for scheduler, count in sorted(Counter(done.released.values()).items()):
        if scheduler != "default-scheduler":
            named = f"{count} of them name schedulerName {scheduler}"
            lines.append(f"{named}: once its kube-scheduler is gone they wait for it")
    lines += [f"left: {what}: {why}" for what, why in sorted(done.left.items())]
    for line in lines or ["nothing is left to remove"]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
