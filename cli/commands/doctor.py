"""`netgang doctor`: what is wrong with an installation, and what to change. Nothing is changed anywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from cli.commands.uninstall import Kubeconfig, Namespace
from cli.output import AsJson, clear_errors, option, print_json
from cli.service_options import busy, run
from extender.errors import ConfigError

if TYPE_CHECKING:
    from cli.doctor import Facts, Finding
    from cli.doctor.cluster_facts import Where

_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


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

    Each finding says what to change. With --url the running netgang is asked how its sources do; without it sources are
    asked from here. Nothing is changed, and what you may not read is left out, and said.

    Exit code: 0 nothing wrong (notes do not count); 1 something is, which is said; 2 no answer, or wrong use.
    """
    from cli.doctor import Severity, examine
    from cli.doctor.cluster_facts import Where

    with clear_errors(refused=2), busy("looking"):
        if no_cluster and url is None and config is None and scheduler_config is None:
            raise ConfigError("--no-cluster leaves nothing to look at: give --url, --config or --scheduler-config")
        where = Where(namespace, config, scheduler_config)
        seen = run(_look(kubeconfig, where, url=url, cluster=not no_cluster))
    findings = examine(seen)
    wrong = [one for one in findings if one.severity is not Severity.NOTE]
    if as_json:
        print_json({"ok": not wrong, "findings": [msgspec.to_builtins(one) for one in findings]})
    else:
        _print(Console(), findings, seen)
    raise typer.Exit(1 if wrong else 0)


async def _look(kubeconfig: Path | None, where: "Where", *, url: str | None, cluster: bool) -> "Facts":
    from cli.doctor.cluster_facts import Look, ask_running, ask_sources, of_files
    from extender.kube.client import OperatorApi
    from extender.kube.credentials import load
    from extender.runtime.clock import SystemClock

    clock, seen = SystemClock(), of_files(where)
    if cluster:
        async with OperatorApi.opened(load(kubeconfig, clock=clock)) as api:
            seen = await Look(api, where, seen).facts()
    if url is not None:
        return await ask_running(seen, url)
    return await ask_sources(seen, clock) if cluster and seen.settings_seen else seen


def _print(console: Console, findings: "Sequence[Finding]", seen: "Facts") -> None:
    for one in findings:
        colour = _COLOURS[one.severity.value]
        console.print(
            Text.assemble((f"{one.severity.value:8}", colour), (one.id, "bold"), f": {one.what}"), soft_wrap=True
        )
        console.print(Text(f"        → {one.fix}"), soft_wrap=True)
    counts = {name: sum(one.severity.value == name for one in findings) for name in _COLOURS}
    said = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count)
    looked = [f"Kubernetes {seen.kubernetes}"] if seen.kubernetes else []
    looked.append("default settings" if seen.settings_from == "defaults" else f"settings of {seen.settings_from}")
    looked += [seen.scheduler_from] if seen.scheduler is not None else []
    console.print(Text(f"{said or 'nothing wrong'} ({', '.join(looked)})"), soft_wrap=True)
