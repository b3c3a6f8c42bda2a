"""`netgang mesh`: write the configurations of perfSONAR and MaDDash that measure a cluster's nodes and zones."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console

from cli.commands.nodes import MeshOptions
from cli.mesh.maddash import PLUGINS, maddash_document, maddash_yaml
from cli.mesh.plan import archive_base, check_notes, round_notes
from cli.mesh.psconfig import psconfig_template
from cli.output import clear_errors, option, print_json, say
from cli.reach import having
from extender.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True,
    help="Write configurations that measure the cluster's links with perfSONAR: all of a zone, gateways between zones.",
)


@app.command(
    epilog="Example: kubectl get nodes -o json | netgang mesh psconfig --cluster - "
    "--selector netgang.io/testpoint=true --archive https://archive.example.org > mesh.json"
)
@having("options", MeshOptions)
def psconfig(
    options: MeshOptions,
    throughput_duration_s: Annotated[int, typer.Option(min=1, help="How long each lasts.")] = 20,
    bucket_width_ms: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=100.0,
            help="Resolution of one-way delay. Leave it at 1 where MaDDash or esmond reads the results.",
        ),
    ] = 1.0,
    archive: Annotated[
        str | None, option("perfSONAR archive to send results to, such as https://archive.example.org.", "none")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any certificate of the archive.")] = False,
) -> None:
    """Print a pSConfig template (JSON): which endpoints test which others, what and how often.

    The nodes of a zone all test each other; --gateways of each zone test those of the other zones. Tests run at the
    endpoint that settings, annotation or label `netgang.io/endpoint` name, else at the node's InternalIP.

    Exit code: 0 printed; 1 the API server did not answer; 2 wrong use.
    """
    with clear_errors():
        plan = options.plan(throughput_duration_s=throughput_duration_s, bucket_width_ms=bucket_width_ms)
        site = options.site()
        base = None if archive is None else archive_base(archive)
        document = psconfig_template(site, plan, archive=base, verify_tls=not insecure)
    _notes((*site.notes, *round_notes(site, plan)))
    print_json(document)


@app.command(
    epilog="Example: netgang mesh maddash --kubeconfig ~/.kube/config --selector netgang.io/testpoint=true "
    "--archive https://archive.example.org > maddash.yaml"
)
@having("options", MeshOptions)
def maddash(
    options: MeshOptions,
    archive: Annotated[
        str,
        typer.Option(
            help="perfSONAR archive that MaDDash asks (esmond or elmond), such as https://archive.example.org."
        ),
    ],
    check_interval_s: Annotated[int, typer.Option(min=20, help="MaDDash looks at loss and delay this often.")] = 300,
    plugins: Annotated[str, typer.Option(help="Directory of perfSONAR's Nagios plugins on that machine.")] = PLUGINS,
) -> None:
    """Print a MaDDash configuration (YAML) for the same mesh: one grid per metric for each zone, and one between zones.

    Give the same options as to `netgang mesh psconfig`. netgang finds the grids by their checks; `dashboards: NAME` in
    its MaDDash source limits it to them.

    Exit code: 0 printed; 1 the API server did not answer; 2 wrong use.
    """
    with clear_errors():
        plan, every_s = options.plan(), check_interval_s
        if not plugins or any(char.isspace() for char in plugins):
            raise ConfigError(f"plugins {plugins!r}: MaDDash splits commands at blanks")
        site, base = options.site(), archive_base(archive)
        document = maddash_document(site, plan, archive=base, check_interval_s=every_s, plugins=plugins.rstrip("/"))
    _notes((*site.notes, *check_notes(site, interval_s=every_s)))
    sys.stdout.write(maddash_yaml(document))


def _notes(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(Console(stderr=True), "note: ", "yellow", sentence)
