"""`netgang explain` and `netgang what-if`: why a gang waits, what would get it admitted, and what a change would do.

The same documents come from a running netgang and from a saved cluster (--cluster).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from cli.output import clear_errors, option, print_body
from cli.reach import Reach, having, having_texts, reaching
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.documents import Answer
    from extender.schemas.explain import Explained, ExplainedPod
    from extender.schemas.what_if import Supposed
    from scoring.what_if.changes import WhatIf

_T = TypeVar("_T")
AsJson = Annotated[bool, typer.Option("--json", help="Print the document as it is.")]


@dataclass(frozen=True, slots=True)
class Files:
    """What takes the place of a running netgang."""

    cluster: Annotated[
        Path | None,
        option("Instead of a running netgang: what `kubectl get nodes,pods,podgroups -A -o json` prints.", "none"),
    ] = None
    network: Annotated[Path | None, option("The mesh for --cluster.", "none")] = None
    config: Annotated[Path | None, option("Settings file for --cluster.", "none")] = None
    now: Annotated[str | None, option("Moment for --cluster, such as 2026-01-31T12:00:00Z.", "now")] = None


_CHANGES: Final = {  # what would be different: option → its form and what it means
    "--set": ("NAME=VALUE", "A setting that decides, such as queue.order=fifo."),
    "--annotate": ("NAMESPACE/GANG:NAME=VALUE", "Annotation netgang.io/NAME of a gang."),
    "--link": ("FROM:TO:METRIC=VALUE", "A link: loss (ratio), delay (ms), throughput."),
    "--remove-node": ("NODE", "A node that is gone."),
    "--add-nodes": ("ZONE:COUNT:like=NODE", "More nodes; or ZONE:COUNT:cpu=8,memory=32Gi."),
    "--add-capacity": ("ZONE[/NODE]:RESOURCE=AMOUNT", "More room."),
    "--end-job": ("NAMESPACE/JOB", "A gang or job that ends."),
    "--shrink-job": ("NAMESPACE/JOB:BY", "A job with fewer workers."),
    "--grow-job": ("NAMESPACE/JOB:BY", "A job with more workers."),
    "--remove-pod": ("NAMESPACE/POD", "A pod that is gone."),
    "--add-pods": ("NAMESPACE/GANG:COUNT[:cpu=2]", "More pods of a gang, or a new gang."),
    "--advance": ("TIME", "Time passes: 90s, 10m, 2h, 1d."),
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
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="A gang, or one of its pods.")],
    namespace: Annotated[str | None, option("Namespace of NAME.", "none", "--namespace", "-n")] = None,
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
@having_texts("options", _CHANGES)
def what_if(
    reach: Reach,
    files: Files,
    options: dict[str, list[str]],
    changes: Annotated[
        Path | None, typer.Option("--changes", help="File with changes as /v1/what-if takes them; -: standard input.")
    ] = None,
    suggestion: Annotated[
        str | None,
        typer.Option("--suggestion", metavar="NAMESPACE/NAME", help="Apply explain's first suggestion for this gang."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would be admitted, refused or moved if something were different. Nothing is changed anywhere.

    Options may be given several times; all changes are supposed together.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a node that is not known.
    """
    place = Place(reach, files)
    from cli.commands.changes import checked, from_file, from_options

    with clear_errors():
        place.check()
        listed: list[object] = [*(from_file(changes) if changes is not None else ())]
        listed.extend(_suggested(place, suggestion) if suggestion is not None else ())
        listed.extend(from_options(options))
        if not listed:
            raise ConfigError("say what would be different: --add-nodes, --end-job, --changes FILE; see --help")
        document, body = place.supposed(checked(listed))
    if as_json:
        print_body(body)
        return
    from cli.rendering.explained import print_supposed

    print_supposed(Console(), document)


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
