"""`netgang explain` and `netgang what-if`: why a gang waits, and what the plan would be if something were different.

The same documents come from a running netgang and from a saved cluster (--cluster).
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from cli import completion
from cli.output import clear_errors, option, print_body, say
from cli.service_options import Reach, having, reaching
from extender.errors import ConfigError

if TYPE_CHECKING:
    from client.documents import Answer
    from extender.schemas.explain import Explained, ExplainedPod
    from extender.schemas.what_if import Supposed
    from scoring.what_if import WhatIf

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

    def supposed(self, what: "WhatIf") -> "Answer[Supposed]":
        """What the plan would be. Errors: ConfigError, NetworkSourceError."""
        from cli.offline.plan import what_if_file
        from client import documents

        if self.files.cluster is None:
            return self.reach.ask(partial(documents.supposed, what=what), "asking the planner")
        return self._of_file(partial(what_if_file, self.files.cluster, self.files.network, what=what))

    def _of_file(self, ask: Callable[..., _T]) -> "Answer[_T]":
        import msgspec

        from cli.offline.plan import moment_s
        from client.documents import Answer
        from extender.settings.settings import Settings

        document = ask(settings=Settings.load(self.files.config), now_s=moment_s(self.files.now))
        return Answer(document, msgspec.json.encode(document))


_supposing: Final = partial(option, rich_help_panel="What would be different; jobs, nodes and settings may be repeated")
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Supposing:
    """What would be different."""

    filename: Annotated[
        Path | None,
        _supposing("Pods and Jobs of this manifest are applied; -: standard input.", "none", "--filename", "-f"),
    ] = None
    pods: Annotated[int | None, _supposing("So many pods more, a gang.", "none", metavar="N")] = None
    request: Annotated[
        str | None, _supposing("What each of --pods asks for.", "none", metavar="cpu=4,nvidia.com/gpu=1")
    ] = None
    min_available: Annotated[int | None, _supposing("How many of --pods must start at once.", "all of them")] = None
    priority: Annotated[
        int | None, _supposing("Priority of --pods, and of pods of -f whose class is not in the file.", "0")
    ] = None
    remove_job: Annotated[list[str] | None, _supposing("A gang or job is gone.", "none", metavar="NAMESPACE/NAME")] = (
        None
    )
    cordon: Annotated[list[str] | None, _supposing("A node takes no new pods.", "none", metavar="NODE")] = None
    uncordon: Annotated[list[str] | None, _supposing("A node takes pods again.", "none", metavar="NODE")] = None
    advance: Annotated[str | None, _supposing("Time passes: 90s, 10m, 2h, 1d.", "none", metavar="TIME")] = None
    set: Annotated[
        list[str] | None, _supposing("A setting that decides, such as queue.order=fifo.", "none", metavar="NAME=VALUE")
    ] = None

    def body(self, namespace: str) -> tuple[dict[str, Any], list[str]]:
        """The body of /v1/what-if, and notes on what is not known. Errors: ConfigError."""
        from cli.manifest import alike, read_manifest, submitted

        body: dict[str, Any] = {"remove_jobs": self.remove_job, "cordon": self.cordon, "uncordon": self.uncordon}
        body |= {"advance_s": self._advance_s(), "settings": self._settings()}
        body = {name: value for name, value in body.items() if value}
        notes: list[str] = []
        if (self.pods is None) is not (self.request is None):
            raise ConfigError("--pods and --request belong together")
        if self.pods is not None and self.filename is not None:
            raise ConfigError("--pods and -f: name one of them")
        if self.pods is not None and self.request is not None:
            least, priority = self.min_available, self.priority
            body |= alike(self.pods, self.request, least=least, namespace=namespace, priority=priority)
        if self.filename is not None:
            more, notes = submitted(read_manifest(self.filename), namespace=namespace, priority=self.priority)
            body |= more
        if not body:
            raise ConfigError("say what would be different: -f FILE, --pods N, --remove-job, --cordon; see --help")
        return body, notes

    def _advance_s(self) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", self.advance or "0")
        if found is None:
            raise ConfigError(f"--advance {self.advance}: write a time such as 90s, 10m, 2h or 1d")
        return float(found[1]) * _SECONDS[found[2]]

    def _settings(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for text in self.set or ():
            name, equals, value = text.partition("=")
            *sections, last = name.split(".")
            if not (all((*sections, last)) and equals):
                raise ConfigError(f"--set {text}: write NAME=VALUE, such as queue.order=fifo")
            inside = made
            for section in sections:
                inside = inside.setdefault(section, {})
            try:
                inside[last] = json.loads(value)
            except ValueError:
                inside[last] = value  # A word
        return made


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
    """Say why a gang is where it is: the cause and what helps, members, what each zone has for it, its rank.

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
@having("supposed", Supposing)
def what_if(
    reach: Reach,
    files: Files,
    supposed: Supposing,
    namespace: Annotated[
        str | None, option("Namespace of --pods, and of objects of -f that name none.", "default", "--namespace", "-n")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which gangs would be admitted, refused or moved if something were different. Nothing is changed anywhere.

    With -f or --pods: whether the gang would fit, where, with what network score, and else behind which gangs and when
    it would start, if that is known, or why never. All that is supposed is supposed together.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a node that is not known.
    """
    from extender.api.what_if import read_what_if
    from scoring.what_if import MisfitError

    place, errors = Place(reach, files), Console(stderr=True)
    with clear_errors(errors):
        place.check()
        body, notes = supposed.body(reach.namespace(namespace) or "default")
        for note in notes:
            say(errors, "note: ", "yellow", note)
        try:
            what = read_what_if(json.dumps(body))
        except MisfitError as error:
            raise ConfigError(str(error)) from error
        document, answered = place.supposed(what)
    if as_json:
        print_body(answered)
        return
    from cli.rendering.explained import print_supposed

    print_supposed(Console(), document)
