"""docs/how-to, the comparison and the questions: what they print is read, parsed and, without a cluster, run."""

import asyncio
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command
from typer.testing import CliRunner

from cli.main import app
from extender.bootstrap import empty_cache, fill
from extender.convert.clusterfile import parse_cluster
from extender.settings.settings import Settings
from lab.testbed.parts.helm import CHART
from lab.testbed.parts.installed import installed_settings
from scoring.ids import ResourceName
from scoring.model.policy import Policy, gang_options
from scoring.model.resources import amount
from tests.contract.docs.job_pods import made
from tests.contract.docs.test_explain_docs import demonstration
from tests.newcomer.document import SHELLS, bare, fenced, parts, typed_lines
from tests.newcomer.page import needs_no_cluster
from tests.newcomer.walk import DOCUMENTS as WALKED

ROOT = Path(__file__).parents[3]
_SHORT = (
    *("from-coscheduling", "gates", "kueue", "maddash", "opensearch", "pytorch-elastic", "quotas", "team-priority"),
    *("tfjob", "which-scheduler"),
)
HOW_TOS = [ROOT / f"docs/how-to/{name}.md" for name in _SHORT]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PAGES = [*HOW_TOS, ROOT / "docs/explanation/comparison.md", ROOT / "docs/start/faq.md"]
KUEUE = "kueue.x-k8s.io/"
DEMO = ("http://127.0.0.1:8889", "http://127.0.0.1:8888")
VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
OWN_TESTS = frozenset({ROOT / "docs/how-to/explain.md", *(walk.path for walk in WALKED)})
"""Pages whose tests compare what is printed: tests/contract/docs/test_explain_docs.py,
tests/e2e/people/test_newcomer.py."""


@pytest.fixture(params=PAGES, ids=[one.stem for one in PAGES])
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


def yaml_blocks(page: Path) -> list[dict[str, Any]]:
    return [one for text in fenced(page.read_text(), "yaml") for one in yaml.safe_load_all(text)]


def commands(page: Path, program: str) -> list[list[str]]:
    """The words of each line that begins with this program, comments, pipes and redirections left out."""
    return [words for words in map(words_of, page_commands(page)) if words[:1] == [program]]


def words_of(command: str) -> list[str]:
    words = shlex.split(command.replace("\\\n", " "))
    ends = [at for at, word in enumerate(words) if word in ("|", ">", "&", "&&")]
    return words[: min(ends, default=len(words))]


def page_commands(page: Path) -> list[str]:
    shells = [one for one in parts(page.read_text()) if one.language in SHELLS]
    return [bare(line) for one in shells for line in typed_lines(one.lines)]


def inline(page: Path) -> Iterator[list[str]]:
    for code in re.findall(r"`(?:kubectl )?(netgang [^`]+)`", page.read_text()):
        if not re.search(r"[A-Z]{3,}|…", code):
            yield shlex.split(code)


def are_values(values: Mapping[str, Any], known: Mapping[str, Any] = VALUES, path: str = "") -> None:
    """AssertionError: the chart has no such value."""
    for name, value in values.items():
        assert name in known, f"the chart has no value {path}{name}"
        if isinstance(value, Mapping) and known[name]:
            are_values(value, known[name], f"{path}{name}.")


def check_values(values: Mapping[str, Any]) -> None:
    are_values(values)
    if "settings" in values:
        Settings(**values["settings"])


def check_manifest(one: Mapping[str, Any]) -> None:
    """A gang of ours, with annotations that exist; and if an example shows the same job, the example has all of it."""
    seen = {"kind": "List", "items": made([one])}
    settings = Settings.model_validate(installed_settings())
    cache = empty_cache(settings)
    fill(cache, parse_cluster(json.dumps(seen).encode(), name="page", zone_label=settings.zone_label), now_s=0.0)
    (gang,) = cache.snapshot().gangs.values()
    assert (gang.problem, gang.problem_detail, gang.own) == (None, "", True)
    assert gang.min_member <= len(gang.members)
    assert gang_options(dict(gang.options), Policy()).problems == ()
    paths = (ROOT / "examples/kinds").glob("*.yaml")
    examples = (two for path in paths for two in yaml.safe_load_all(path.read_text()))
    whole = {(two["kind"], two["metadata"]["name"]): two for two in examples}
    example = whole.get((one["kind"], one["metadata"]["name"]))
    assert example is None or contains(example, one), one["metadata"]["name"]


def check_policy(one: Mapping[str, Any]) -> None:
    """A PriorityClass by which no single member is evicted (docs/safety.md S3), or a ResourceQuota of amounts.

    Kueue's objects are applied by tests/e2e/jobs/test_kueue.py.
    """
    if one["apiVersion"].startswith(KUEUE):
        assert one["apiVersion"] == f"{KUEUE}v1beta2"
        return
    if one["kind"] == "PriorityClass":
        assert (one["apiVersion"], one["preemptionPolicy"]) == ("scheduling.k8s.io/v1", "Never")
        assert 0 < one["value"] <= 10**9
        return
    assert one["apiVersion"] == "v1"
    assert all(
        amount(ResourceName(name.removeprefix("requests.")), of) >= 0 for name, of in one["spec"]["hard"].items()
    )


def contains(whole: object, part: object) -> bool:
    """Whether everything that `part` says stands in `whole`; of lists of words only that they share the first.

    >>> contains({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"c": 2}]})
    True
    """
    match whole, part:
        case dict(), dict():
            return all(name in whole and contains(whole[name], value) for name, value in part.items())
        case list(), list() if all(isinstance(one, str) for one in part):
            return set(part) <= set(whole)
        case list(), list():
            return len(whole) == len(part) and all(map(contains, whole, part))
        case _:
            return whole == part


def kind_of_block(one: Mapping[str, Any]) -> str:
    if one.get("kind") in ("PriorityClass", "ResourceQuota") or one.get("apiVersion", "").startswith(KUEUE):
        return "policy"
    if "kind" in one:
        return "manifest"
    return "settings" if one.keys() <= set(Settings.model_fields) else "values"


def test_every_block_is_what_it_is_used_for(page: Path) -> None:
    for one in yaml_blocks(page):
        match kind_of_block(one):
            case "manifest":
                check_manifest(one)
            case "policy":
                check_policy(one)
            case "settings":
                assert Settings(**one) != Settings()
            case _:
                check_values(one)


def test_all_kinds_of_blocks_occur() -> None:
    found = {kind_of_block(one) for page in PAGES for one in yaml_blocks(page)}
    assert found == {"manifest", "policy", "settings", "values"}


def parsed(words: list[str]) -> str:
    """Let the program take the words apart without doing anything; "" if it does, else the name of its complaint."""
    command, parent, rest = get_command(app), None, words[1:]
    while isinstance(command, TyperGroup):
        parent = command.make_context(words[0], [], parent=parent, resilient_parsing=True)
        found = command.get_command(parent, rest[0])
        assert found is not None, f"no such command: {shlex.join(words)}"
        command, rest = found, rest[1:]
    try:
        command.make_context(words[0], rest, parent=parent)
    except TyperException as refused:
        return type(refused).__name__
    return ""


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the pages speak of: the demonstration's cluster and mesh, and the project's."""
    shutil.copy(ROOT / "examples/snapshot/paper-testbed.json", tmp_path / "cluster.json")
    shutil.copy(ROOT / "examples/mesh/paper-testbed.json", tmp_path / "mesh.json")
    shutil.copy(ROOT / "examples/gang-job.yaml", tmp_path / "job.yaml")
    for name in ("examples", "scheduler-config", "manifests", "charts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "settings.yaml").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


PARSED = [*PAGES, ROOT / "docs/how-to/cli.md"]
LINES = {f"{one.stem}: {shlex.join(words)}": words for one in PARSED for words in commands(one, "netgang")}
NAMED = sorted({shlex.join(words) for one in PARSED for words in inline(one) if words[1][0] != "-"})


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize("words", LINES.values(), ids=LINES)
def test_every_command_line_is_taken(words: list[str]) -> None:
    assert parsed(words) == ""


@pytest.mark.parametrize("line", NAMED)
def test_every_command_in_the_text_exists(line: str) -> None:
    assert parsed(shlex.split(line)) in ("", "MissingParameter")


def in_process() -> dict[Path, list[str]]:
    """Page → its commands that need no cluster: those of all documents but the ones with tests of their own."""
    found = {page: list(filter(needs_no_cluster, page_commands(page))) for page in DOCUMENTS if page not in OWN_TESTS}
    return {page: lines for page, lines in found.items() if lines}


async def test_commands_that_need_no_cluster_do_what_they_should(beside: Path) -> None:
    ran: dict[str, int] = {}
    async with demonstration() as url:
        own = dict.fromkeys(DEMO, url)
        for page, lines in in_process().items():
            blocks = [one for one in yaml_blocks(page) if isinstance(one, Mapping)]
            settings = [one for one in blocks if kind_of_block(one) == "settings"]
            (beside / "settings.yaml").write_text(yaml.safe_dump(settings[0] if settings else {}))
            for line in lines:
                words = ["demo/case1" if one.startswith("team/") else one for one in words_of(with_own(line, own))]
                done = await asyncio.to_thread(
                    CliRunner().invoke, app, words[1:], env={"COLUMNS": "200", "NO_COLOR": "1", "NETGANG_URL": url}
                )
                assert done.exit_code == 0, (page.name, line, done.output)
                ran[" ".join(words_of(line)[1:3])] = len(done.output)
    assert {"network --json", "network node28", "plan cluster.json", "what-if --pods"} <= set(ran)
    assert {"explain team/retrain", "doctor --no-cluster"} <= set(ran)
    assert min(ran.values()) > 0


def with_own(line: str, own: Mapping[str, str]) -> str:
    for printed, ours in own.items():
        line = line.replace(printed, ours)
    return line


def test_helm_lines_set_values_that_exist(page: Path) -> None:
    lines = [*commands(page, "helm"), *(shlex.split(one) for one in re.findall(r"`(helm [^`]+)`", page.read_text()))]
    for words in lines:
        assert all((ROOT / word).exists() for word in words if word.startswith("charts/"))
        for word, value in pairwise(words):
            if word == "--set":
                name, _, text = value.partition("=")
                values: Any = text
                for part in reversed(name.split(".")):
                    values = {part: values}
                are_values(values)


def test_applied_files_can_be_applied(page: Path) -> None:
    for words in commands(page, "kubectl"):
        for option, path in pairwise(words):
            if option == "-f" and path != "-":
                assert all(one["kind"] for one in yaml.safe_load_all((ROOT / path).read_text())), path


@pytest.mark.parametrize("how_to", HOW_TOS, ids=[one.stem for one in HOW_TOS])
def test_a_how_to_is_short_and_says_for_whom(how_to: Path) -> None:
    text = how_to.read_text()
    assert len(text.splitlines()) <= 120
    first = text.split("\n\n")[1]
    assert first.startswith("For ")
    assert "at the end" in first.lower()
    assert f"[{how_to.name}]({how_to.name})" in (how_to.parent / "README.md").read_text()


def test_the_page_of_gates_names_both_switches() -> None:
    switches = (
        r"--(?:feature-gates=MutatingAdmissionPolicy=true|runtime-config=admissionregistration\.k8s\.io/v1beta1=true)"
    )
    assert len(set(re.findall(switches, (ROOT / "docs/how-to/gates.md").read_text()))) == 2


def test_answers_are_short_and_lead_on() -> None:
    asked = re.findall(
        r"^### ([^\n]+)\n\n(.*?)\n(?:\n|\Z)", (ROOT / "docs/start/faq.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(asked) >= 30
    assert [question for question, answer in asked if answer.count("\n") >= 5] == []
    assert [question for question, answer in asked if "](" not in answer and "`" not in answer] == []
    assert (ROOT / "docs/start/faq.md").read_text().count("\n### ") == len(asked)


def test_what_is_said_to_be_seen_can_be_seen(page: Path) -> None:
    text = page.read_text()
    doctor = (ROOT / "docs/reference/doctor.md").read_text()
    near = [line for line in text.splitlines() if "doctor" in line]
    assert [
        one for line in near for one in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", line) if f"`{one}`" not in doctor
    ] == []
    rules = (CHART / "files/alerts.yaml").read_text()
    assert [one for one in re.findall(r"`(Netgang[A-Z]\w+)`", text) if f"alert: {one}\n" not in rules] == []
    events = "".join(path.read_text() for path in (ROOT / "extender").rglob("*.py"))
    assert [one for one in re.findall(r"`((?:Gang|Job)[A-Z]\w+)`", text) if f'"{one}"' not in events] == []


def test_ports_are_brought_from_where_they_are(page: Path) -> None:
    settings = Settings.model_validate(installed_settings())
    wanted = ["kubectl", "-n", "netgang-system", "port-forward", "deploy/netgang", str(settings.debug_port)]
    assert [words for words in commands(page, "kubectl") if "port-forward" in words and words != wanted] == []
