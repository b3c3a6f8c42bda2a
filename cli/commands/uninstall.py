"""`netgang uninstall`: take the policies away and release pods that wait at the gate, before netgang itself goes."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from cli.output import AsJson, clear_errors, option, print_json
from cli.service_options import busy, run
from extender.errors import ConfigError

if TYPE_CHECKING:
    from cli.removal import Removed

Kubeconfig = Annotated[Path | None, option("Credentials of the cluster.", "as kubectl")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where netgang is installed.")]


def uninstall(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = "netgang-system",
    leave_gates: Annotated[
        bool, typer.Option("--leave-gates", help="Delete the policies only: pods wait until netgang comes back.")
    ] = False,
    leases: Annotated[
        bool, typer.Option("--leases", help="Delete the Leases instead: for after netgang's pods are gone.")
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
        with busy("releasing pods"):
            done = run(_remove(kubeconfig, namespace, gates=not leave_gates, leases=leases, dry_run=dry_run))
    if as_json:
        print_json({"dry_run": dry_run, **msgspec.to_builtins(done)})
    else:
        _print(Console(), done, would=dry_run)
    raise typer.Exit(1 if done.left else 0)


async def _remove(kubeconfig: Path | None, namespace: str, *, gates: bool, leases: bool, dry_run: bool) -> "Removed":
    from cli.removal import Removal
    from extender.kube.client import OperatorApi
    from extender.kube.credentials import load
    from extender.runtime.clock import SystemClock

    clock = SystemClock()
    async with OperatorApi.opened(load(kubeconfig, clock=clock)) as api:
        removal = Removal(api, clock, dry_run=dry_run)
        if leases:
            await removal.leases(namespace)
        else:
            await removal.policies()
            if gates:
                await removal.gates()
        return removal.done


def _print(console: Console, done: "Removed", *, would: bool) -> None:
    deleted = "would delete" if would else "deleted"
    lines = [f"{deleted} {name}" for name in (*done.policies, *(f"leases/{name}" for name in done.leases))]
    if done.released:
        pods = "1 pod that waits" if len(done.released) == 1 else f"{len(done.released)} pods that wait"
        lines.append(f"{'would let go' if would else 'let go'} {pods} at the gate")
    for scheduler, count in sorted(Counter(done.released.values()).items()):
        if scheduler != "default-scheduler":
            named = f"{count} of them name schedulerName {scheduler}"
            lines.append(f"{named}: once its kube-scheduler is gone they wait for it")
    lines += [f"left: {what}: {why}" for what, why in sorted(done.left.items())]
    for line in lines or ["nothing of it is there"]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
