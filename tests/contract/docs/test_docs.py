"""What the documents say exists, does exist: links, files, commands, settings, metrics; tests of safety's rules."""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from cli.main import app
from extender.runtime.telemetry import Telemetry
from extender.settings.settings import Settings
from lab.testbed.parts.helm import CHART
from scoring.model.policy import KNOWN_OPTIONS, Policy, gang_options
from tests.contract.docs.vocabulary import VOCABULARY
from tests.contract.reference import pages as reference
from tests.newcomer.document import bare, fenced, typed_lines

ROOT = Path(__file__).parents[3]
DOCUMENTS = (
    *(ROOT / n for n in ("README.md", "CHANGELOG.md")),
    *sorted(
        path for path in (ROOT / "docs").rglob("*.md") if str(path.relative_to(ROOT / "docs")) not in reference.PAGES
    ),
)
HISTORY = (ROOT / "CHANGELOG.md",)  # it also says what there was
OURS = ("cli", "docs", "examples", "extender", "lab", "manifests", "probe", "scheduler-config", "scoring", "tests")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
RULES = re.compile(r"docs/safety\.md((?:,? S\d+)+)")


def _typed(document: Path) -> list[str]:
    return [bare(line) for block in fenced(document.read_text(), "sh") for line in typed_lines(block.splitlines())]


def _commands(document: Path) -> Iterator[list[str]]:
    """The words of each command up to a pipe, a redirection or the next command."""
    for command in _typed(document):
        words = shlex.split(command.replace("\\\n", " "))
        ends = [at for at, word in enumerate(words) if word in ("|", ">", "&", "&&")]
        yield words[: min(ends, default=len(words))]


def _text(path: Path) -> str | None:
    """Of a page that is committed or written from the code; `None`: there is none."""
    written = reference.PAGES.get(str(path.relative_to(ROOT / "docs"))) if path.is_relative_to(ROOT / "docs") else None
    if written is not None:
        return written()
    return path.read_text() if path.exists() else None


@cache
def _anchors(path: Path) -> frozenset[str]:
    return frozenset(map(_anchor, re.findall(r"^#+ (.+)$", _text(path) or "", re.MULTILINE)))


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _broken(link: str, document: Path) -> bool:
    name, _, anchor = link.partition("#")
    path = (document.parent / name).resolve() if name else document
    there = path.is_relative_to(ROOT) and (path.exists() or _text(path) is not None)
    return not there or bool(anchor and anchor not in _anchors(path))


def test_links_lead_somewhere() -> None:
    links = [(document, link) for document in DOCUMENTS for link in LINK.findall(document.read_text())]
    own = [one for one in links if not one[1].startswith(("http://", "https://"))]
    assert [(document.name, link) for document, link in own if _broken(link, document)] == []


def test_pages_and_rules_that_files_cite_exist() -> None:
    files = [path for name in (*OURS, "charts") for path in (ROOT / name).rglob("*")]
    texts = [path.read_text() for path in files if path.suffix in {".py", ".yaml", ".md"}]
    cited = {page for text in texts for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text)}
    assert len(cited) > 20
    assert [page for page in sorted(cited) if _text(ROOT / page) is None] == []
    rules = {rule for text in texts for cite in RULES.findall(text) for rule in re.findall(r"S\d+", cite)}
    assert {"S1", "S11"} <= rules <= {f"S{number}" for number in range(1, 30)}


def _paths(document: Path) -> Iterator[str]:
    text = document.read_text()
    yield from (code for code in CODE.findall(text) if re.fullmatch(rf"(?:{'|'.join(OURS)})/[\w./-]*", code))
    typed = [word.lstrip("@") for words in _commands(document) for word in words]
    yield from (word for word in typed if word.startswith(tuple(f"{name}/" for name in OURS)))


def test_paths_exist() -> None:
    named = {(document.name, path) for document in DOCUMENTS if document not in HISTORY for path in _paths(document)}
    made = "lab/bench/out"
    assert [one for one in sorted(named) if not (ROOT / one[1]).exists() and not one[1].startswith(made)] == []


def test_a_newcomer_s_questions_have_answers() -> None:
    """tests/newcomer/questions.toml is for readers; a file that goes or gets another name is one to be asked again."""
    questions = tomllib.loads((ROOT / "tests/newcomer/questions.toml").read_text())["question"]
    assert len(questions) == 15
    assert [path for one in questions for path in one["answer"] if not (ROOT / path).exists()] == []


QUESTIONS = {  # of the first hour: (a link of docs/README.md, words of the answer behind it)
    "feeding a source": ("how-to/measurements.md", ("the better source", "(#maddash)", "Prometheus", "mesh file")),
    "netgang down": ("how-to/operate.md#when-something-fails", ("netgang is down", "running pods are not touched")),
    "Kueue": ("how-to/teams-and-kueue.md#kueue", ("Kueue decides **when**", "### A job in a queue")),
    "elastic PyTorchJob": (
        "how-to/job-kinds.md#with-the-training-operator-pytorchjob", ("elasticPolicy: {minReplicas: 2", "No Master")),
    "upgrade": ("start/install.md#change-and-update", ("helm upgrade netgang", "helm rollback", "not touched")),
    "managed clusters": ("start/install.md#platforms", ("| GKE |", "| EKS |", "| AKS |", "| OpenShift |")),
    "the command": ("how-to/operate.md#command-line", ("pipx install", "### kubectl netgang")),
    "bad links": ("reference/network.md#nodes-and-zones-with-bad-links", ("NetworkDegraded", "from 0.1 %")),
    "who may ask": ("how-to/operate.md#documents", ("port-forward", "documentsFrom", "RBAC")),
    "RDMA": ("start/install.md#platforms", ("| RDMA, NVLink |", "not modelled", "Karpenter")),
    "versions": ("start/install.md#versions", ("| 1.35 | 1.36 | 1.37 |", "are not supported")),
    "why not Volcano": ("explanation/comparison.md#volcano", ("**Better there.**", "**Better here.**")),
}  # fmt: skip


def test_questions_of_the_first_hour_are_two_links_from_their_answers() -> None:
    start = _section(ROOT / "docs/README.md", "start")
    assert "(docs/README.md#start)" in (ROOT / "README.md").read_text()
    for question, (link, words) in QUESTIONS.items():
        path, _, anchor = link.partition("#")
        answer = _section(ROOT / "docs" / path, anchor)
        assert (f"({link})" in start, [word for word in words if word not in answer]) == (True, []), question


def _section(path: Path, anchor: str) -> str:
    """The heading that has this anchor, up to the next one of its rank; without an anchor all of it."""
    _, *parts = re.split(r"^(#+) (.+)$", path.read_text(), flags=re.MULTILINE)
    at = next(at for at in range(1, len(parts), 3) if not anchor or _anchor(parts[at]) == anchor)
    end = (i for i in range(at + 2, len(parts), 3) if len(parts[i]) <= len(parts[at - 1]))
    return "\n".join(f"{parts[i - 1]} {parts[i]}{parts[i + 1]}" for i in range(at, next(end, len(parts)), 3))


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [one for one in DOCUMENTS if one not in HISTORY]
    shown = [line for one in pages for line in (*_typed(one), *CODE.findall(one.read_text()))]
    assert {match for line in shown for match in re.findall(r"^make ([a-z0-9-]+)", line)} <= targets


def _refused(words: list[str]) -> str:
    """Let the command line take the words apart without doing anything; what it says against them."""
    command, parent, rest = get_command(app), None, words[1:]
    while isinstance(command, TyperGroup):
        parent = command.make_context(words[0], [], parent=parent, resilient_parsing=True)
        found = command.get_command(parent, rest[0])
        if found is None and rest[0].startswith("-"):
            return ""
        if found is None:
            return f"no such command: {shlex.join(words)}"
        command, rest = found, rest[1:]
    try:
        command.make_context(words[0], rest, parent=parent)
    except TyperException as refused:  # not of a file that only the reader has, or an option named without a value
        return f"{shlex.join(words)}: {refused}" if type(refused).__name__ == "NoSuchOption" else ""
    return ""


def _of_ours(document: Path) -> Iterator[list[str]]:
    """Commands of ours with at least a subcommand: those to be typed, and those in the text without placeholders."""
    yield from (words for words in _commands(document) if words[:1] == ["netgang"])
    for code in re.findall(r"`(?:kubectl )?(netgang [a-z-]+(?: [^`]*)?)`", document.read_text()):
        if not re.search(r"[A-Z]{3,}|…", code):
            yield shlex.split(code)


def test_commands_of_ours_exist_with_their_options() -> None:
    lines = {tuple(words) for document in DOCUMENTS if document not in HISTORY for words in _of_ours(document)}
    assert len(lines) > 50
    assert [said for words in sorted(lines) if (said := _refused(list(words)))] == []


def _unknown(values: Mapping[str, Any], known: Any, path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if not isinstance(known, Mapping) or name not in known:
            yield f"{path}{name}"
        elif isinstance(value, Mapping) and known[name]:
            yield from _unknown(value, known[name], f"{path}{name}.")


def _set(words: list[str]) -> Iterator[Mapping[str, Any]]:
    for word, value in pairwise(words):
        if word == "--set":
            name, _, text = value.partition("=")
            values: Any = text
            for part in reversed(name.split(".")):
                values = {part: values}
            yield values


def _shown(document: Path) -> Iterator[Mapping[str, Any]]:
    text = document.read_text()
    for one in (one for block in fenced(text, "yaml") for one in yaml.safe_load_all(block)):
        if isinstance(one, Mapping) and not one.keys() & {"kind", "metadata", "spec"}:
            yield one
    lines = [*_commands(document), *map(shlex.split, re.findall(r"`(helm [^`]+)`", text))]
    yield from (one for words in lines if words[:1] == ["helm"] for one in _set(words))


def test_settings_and_values_exist() -> None:
    chart = yaml.safe_load((CHART / "values.yaml").read_text())
    for one in (one for document in DOCUMENTS for one in _shown(document)):
        if one.keys() <= set(Settings.__struct_fields__):
            assert Settings().changed(one) != Settings()
        elif one.keys() <= chart.keys():
            assert list(_unknown(one, chart)) == []
            Settings().changed(one.get("settings", {}))


def _named(pattern: str) -> set[str]:
    return {name for one in DOCUMENTS if one not in HISTORY for name in re.findall(pattern, one.read_text())}


def test_annotations_exist() -> None:
    assert _named(r"`(netgang\.io/[a-z-]+)[`:=]") <= {word.name for word in VOCABULARY}


def test_metrics_exist() -> None:
    known = set(re.findall(r"^# TYPE (\w+)", Telemetry().exposition().decode(), re.MULTILINE))
    assert _named(r"`(netgang_\w+)`") - known == {"netgang_report"}  # which is a package


def _annotations(one: object) -> Iterator[Mapping[str, str]]:
    if isinstance(one, Mapping):
        yield from (value for key, value in one.items() if key == "annotations" and isinstance(value, Mapping))
        for value in one.values():
            yield from _annotations(value)
    elif isinstance(one, list):
        for value in one:
            yield from _annotations(value)


def test_options_of_examples_are_understood() -> None:
    read = [list(yaml.safe_load_all(path.read_text())) for path in (ROOT / "examples").rglob("*.yaml")]
    for annotations in _annotations(read):
        own = {key.removeprefix("netgang.io/"): value for key, value in annotations.items()}
        options = {name: value for name, value in own.items() if name in KNOWN_OPTIONS}
        assert gang_options(options, Policy()).problems == ()


def test_every_rule_of_safety_is_there_once_and_names_tests_that_exist() -> None:
    _, *parts = re.split(r"^### (S\d+) ", (ROOT / "docs/safety.md").read_text(), flags=re.MULTILINE)
    assert parts[::2] == [f"S{number}" for number in range(1, 30)]
    for number, text in zip(parts[::2], parts[1::2], strict=True):
        named = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", text.partition("Held by:")[2])
        assert named, number
        for path, function in named:
            defined = rf"^\s*(?:async )?def {function}\(" if function else ""
            assert re.search(defined, (ROOT / path).read_text(), re.MULTILINE), f"{path} has no {function}"
