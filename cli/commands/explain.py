"""`netgang explain` and `netgang what-if`: why a gang waits, what would get it admitted, and what a change would do.

The same documents come from a running netgang and from a saved cluster (--cluster).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from cli import completion
from cli.output import clear_errors, option, print_body, say
from cli.service_options import Reach, having, having_texts, reaching
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.documents import Answer
    from extender.schemas.explain import Explained, ExplainedPod
    from extender.schemas.what_if import Supposed
    from scoring.what_if.changes import WhatIf

_T = TypeVar("_T")
AsJson = Annotated[bool, typer.Option("--json", help="Print the document as it is.")]


_file: Final = partial(option, rich_help_panel="Files in place of a running netgang")


@dataclass(frozen=True, slots=True)
class Files:
    """What takes the place of a running netgang."""

    cluster: Annotated[
        Path | None,
        _file("Instead of a running netgang: what `kubectl get nodes,pods,podgroups -A -o json` prints.", "none"),
    ] = None
    network: Annotated[
        Path | None, _file("Measured links for --cluster, as `netgang network show --json` prints them.", "none")
    ] = None
    config: Annotated[Path | None, _file("Settings file for --cluster.", "none")] = None
    now: Annotated[str | None, _file("Moment for --cluster, such as 2026-01-31T12:00:00Z.", "now")] = None


_CHANGES: Final = {  # what would be different: option → its form and what it means
    "--set": ("NAME=VALUE", "A setting that decides, such as queue.order=fifo."),
    "--annotate": ("NAMESPACE/GANG:NAME=VALUE", "Annotation netgang.io/NAME of a gang."),
    "--link": (
        "FROM:TO:METRIC=VALUE",
        "A link, by loss (ratio), delay (ms) or throughput (bit/s): node1:node2:delay=90.",
    ),
    "--remove-node": ("NODE", "A node is gone."),
    "--cordon": ("NODE", "A node takes no new pods."),
    "--uncordon": ("NODE", "A node takes pods again."),
    "--taint": ("NODE:KEY[=VALUE]:EFFECT", "A node has one taint more."),
    "--untaint": ("NODE:KEY[:EFFECT]", "A node loses a taint."),
    "--add-nodes": ("ZONE:COUNT:like=NODE", "More nodes; of a size of their own: ZONE:COUNT:cpu=8,memory=32Gi."),
    "--add-capacity": ("ZONE[/NODE]:RESOURCE=AMOUNT", "More room in a zone, or on a node: D:nvidia.com/gpu=2."),
    "--end-job": ("NAMESPACE/JOB", "A gang or job ends."),
    "--shrink-job": ("NAMESPACE/JOB:BY", "A job has so many workers fewer."),
    "--grow-job": ("NAMESPACE/JOB:BY", "A job has so many workers more."),
    "--remove-pod": ("NAMESPACE/POD", "A pod is gone."),
    "--add-pods": ("NAMESPACE/GANG:COUNT[:cpu=2]", "More pods of a gang, or a new gang."),
    "--advance": ("TIME", "Time passes: 90s, 10m, 2h, 1d."),
}
_COMPLETERS: Final = {  # option → what a shell offers for it
    **dict.fromkeys(("--annotate", "--end-job", "--add-pods"), completion.gangs),
    **dict.fromkeys(("--shrink-job", "--grow-job"), completion.jobs),
    **dict.fromkeys(("--remove-node", "--cordon", "--uncordon", "--taint", "--untaint"), completion.nodes),
    **dict.fromkeys(("--add-nodes", "--add-capacity"), completion.zones),
    "--link": completion.links,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the answer comes from: a running netgang, or files."""

    reach: Reach
    files: Files

    def check(self) -> None:
        """Errors: ConfigError for options that do not belong together."""
        if self.files.cluster is not None and self.reach.said.given:
            raise ConfigError(f"{self.reach.said.given[0]} and --cluster: name one of them")
        given = [name for name in ("network", "config", "now") if getattr(self.files, name) is not None]
        if self.files.cluster is None and given:
            raise ConfigError(f"--{given[0]} is for --cluster")

    def explanation(self, name: str) -> "Answer[Explained | ExplainedPod]":
        """The document of a gang or pod. Errors: ConfigError, NetworkSourceError."""
        from cli.offline.plan import explain_file
        from client import documents

        if self.files.cluster is None:
            return self.reach.ask(partial(documents.explanation, name=name), "asking the planner")
        return self._of_file(partial(explain_file, self.files.cluster, self.files.network, name=name))

    def supposed(self, body: "WhatIf") -> "Answer[Supposed]":
        """What the changes would make of the plan. Errors: ConfigError, NetworkSourceError."""
        from cli.offline.plan import what_if_file
        from client import documents

        if self.files.cluster is None:
            return self.reach.ask(partial(documents.supposed, body=body), "asking the planner")
        return self._of_file(partial(what_if_file, self.files.cluster, self.files.network, changes=body.changes))

    def _of_file(self, ask: Callable[..., _T]) -> "Answer[_T]":
        import msgspec

        from cli.offline.plan import moment_s
        from client.documents import Answer
        from extender.settings.settings import Settings

        document = ask(settings=Settings.load(self.files.config), now_s=moment_s(self.files.now))
        return Answer(document, msgspec.json.encode(document))


@reaching
@having("files", Files)
def explain(
    reach: Reach,
    files: Files,
    name: Annotated[
        str,
        typer.Argument(metavar="[NAMESPACE/]NAME", help="A gang, or one of its pods.", autocompletion=completion.gangs),
    ],
    namespace: Annotated[
        str | None,
        option("Namespace of NAME.", "none", "--namespace", "-n", autocompletion=completion.namespaces),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a gang is where it is: members, what each zone has for it, its rank, and what would get it admitted.

    Each of the ways in was tried by the planner on the cluster as it is; `netgang what-if --suggestion NAMESPACE/NAME`
    shows what else the first of them would change.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a gang that is not known.
    """
    place = Place(reach, files)
    with clear_errors():
        place.check()
        document, body = place.explanation(reach.named(name, namespace))
    if as_json:
        print_body(body)
        return
    from cli.rendering.explained import print_explanation

    print_explanation(Console(), document)


@reaching
@having("files", Files)
@having_texts("options", _CHANGES, _COMPLETERS, panel="What would be different; each may be repeated")
def what_if(
    reach: Reach,
    files: Files,
    options: dict[str, list[str]],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[cordon|uncordon|taint|untaint NODE...]",
            help="As kubectl: nodes; for taint and untaint also KEY[=VALUE]:EFFECT.",
            show_default="none",
            autocompletion=completion.node_words,
        ),
    ] = None,
    filename: Annotated[
        Path | None,
        option(
            "A manifest that would be applied: Pod, Job, TFJob, PyTorchJob, MPIJob, JobSet, TrainJob …; -: standard "
            "input.",
            "none",
            "--filename",
            "-f",
        ),
    ] = None,
    namespace: Annotated[
        str | None, option("Namespace of objects of -f that name none.", "default", "--namespace", "-n")
    ] = None,
    priority: Annotated[int | None, option("Priority of pods of -f whose class is not in the file.", "0")] = None,
    changes: Annotated[
        Path | None, typer.Option("--changes", help="File with changes as /v1/what-if takes them; -: standard input.")
    ] = None,
    suggestion: Annotated[
        str | None,
        typer.Option(
            "--suggestion",
            metavar="NAMESPACE/NAME",
            help="Apply explain's first suggestion for this gang.",
            autocompletion=completion.gangs,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would be admitted, refused or moved if something were different. Nothing is changed anywhere.

    With -f: whether the job would fit, where, with what network score, and else behind which gangs and when it would
    start, if that is known, or why never.
    All changes are supposed together.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a node that is not known.
    """
    place = Place(reach, files)
    from cli.commands.changes import checked, from_file, from_options, from_words

    errors = Console(stderr=True)
    with clear_errors(errors):
        place.check()
        listed: list[object] = [*(from_file(changes) if changes is not None else ())]
        listed.extend(_suggested(place, suggestion) if suggestion is not None else ())
        listed.extend(from_words(words or ()))
        listed.extend(from_options(options))
        if filename is not None:
            submitted, notes = _submitted(place, filename, namespace, priority)
            listed.append(submitted)
            for note in notes:
                say(errors, "note: ", "yellow", note)
        if not listed:
            raise ConfigError(
                "say what would be different: -f FILE, --add-nodes, --end-job, --changes FILE; see --help"
            )
        document, body = place.supposed(checked(listed))
    if as_json:
        print_body(body)
        return
    from cli.rendering.explained import print_supposed

    print_supposed(Console(), document)


def _submitted(
    place: Place, filename: Path, namespace: str | None, priority: int | None
) -> tuple[Mapping[str, Any], list[str]]:
    """The change that submits a manifest, and notes on it. Errors: ConfigError, and those of reading a runtime."""
    from cli.job_manifests import runtimes
    from cli.job_manifests.add_job import add_job
    from cli.job_manifests.manifest import read_manifest

    elsewhere = runtimes.ELSEWHERE_NONE
    if place.files.cluster is not None:
        elsewhere = runtimes.of_file(place.files.cluster)
    elif place.reach.through_api_server:
        elsewhere = runtimes.of_api_server(place.reach)
    usual = place.reach.namespace(namespace) or "default"
    return add_job(read_manifest(filename), namespace=usual, priority=priority, elsewhere=elsewhere)


def _suggested(place: Place, name: str) -> list[dict[str, Any]]:
    """The changes that explain offers first. Errors: ConfigError when it offers none."""
    from extender.schemas.explain import Explained

    document = place.explanation(name).document
    if not isinstance(document, Explained):
        raise ConfigError(f"{name}: a pod of no gang")
    found = document.would_help
    if found is None:
        raise ConfigError(f"{name}: the what-if worker is busy; ask again")
    if not found.suggestions:
        raise ConfigError(f"{name}: {found.text or 'it does not wait'}")
    return list(found.suggestions[0].changes)
