"""`netgang explain` and `netgang what-if`: why a gang waits, and what the plan would be if something were different."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from cli.output import AsJson, clear_errors, option, print_answer, say
from cli.service_options import Reach, having
from extender.errors import ConfigError

_supposing: Final = partial(option, rich_help_panel="What would be different; jobs, nodes and settings may be repeated")
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Supposing(msgspec.Struct, frozen=True):
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
        from extender.settings.reading import unfold

        flat: dict[str, Any] = {}
        for text in self.set or ():
            name, equals, value = text.partition("=")
            if not (all(name.split(".")) and equals):
                raise ConfigError(f"--set {text}: write NAME=VALUE, such as queue.order=fifo")
            try:
                flat[name] = json.loads(value)
            except ValueError:
                flat[name] = value  # A word
        return unfold(flat)


@having(reach=Reach)
def explain(
    reach: Reach,
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="A gang, or one of its pods.")],
    namespace: Annotated[str | None, option("Namespace of NAME.", "none", "--namespace", "-n")] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a gang is where it is: the cause and what helps, members, what each zone has for it, its rank.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a gang that is not known.
    """
    from cli.rendering.explained import print_explanation
    from client import documents

    with clear_errors():
        asked = partial(documents.explanation, name=reach.named(name, namespace))
        document, body = reach.ask(asked, "asking the planner")
    print_answer(body, partial(print_explanation, Console(), document), as_json=as_json)


@having(supposed=Supposing, reach=Reach)
def what_if(
    reach: Reach,
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
    from cli.rendering.explained import print_supposed
    from client import documents
    from extender.api.what_if import read_what_if
    from scoring.what_if import MisfitError

    errors = Console(stderr=True)
    with clear_errors(errors):
        body, notes = supposed.body(reach.namespace(namespace) or "default")
        for note in notes:
            say(errors, "note: ", "yellow", note)
        try:
            what = read_what_if(json.dumps(body))
        except MisfitError as error:
            raise ConfigError(str(error)) from error
        document, answered = reach.ask(partial(documents.supposed, what=what), "asking the planner")
    print_answer(answered, partial(print_supposed, Console(), document), as_json=as_json)
