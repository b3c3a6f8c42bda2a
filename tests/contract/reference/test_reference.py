"""The reference leaves nothing out that the code says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
import yaml

from extender.api.problems import PROBES
from extender.controllers.events.recorder import Happening
from extender.runtime.telemetry import Telemetry
from scoring.ids import Namespace
from scoring.model.policy import KNOWN_OPTIONS, Policy, QueuePolicy, gang_options
from scoring.model.reasons import Reason
from scoring.queue.podgroup_status import GroupPhase
from scoring.queue.states import JobState
from tests.contract.docs.vocabulary import VOCABULARY, Form, Use
from tests.contract.reference import pages as reference
from tests.contract.reference.api import reports_openapi
from tests.contract.reference.documents import DOCUMENTS, served
from tests.contract.reference.text import told

ROOT = reference.ROOT
PICTURES = {path.name: path for path in (ROOT / "docs/pictures").glob("*.svg")}
CODE = [  # modules that use words and metrics, without those that define them
    path
    for name in ("extender", "scoring", "report/netgang_report")
    for path in sorted((ROOT / name).rglob("*.py"))
    if path.name != "telemetry.py"
]
OWN = re.compile(r"(?<![\w./])netgang\.io/[a-z-]+")
NOT_ON_OBJECTS = {"netgang.io/extender"}  # our name as a reporter of Events
TRUSTING = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("team")})))


def test_index_lists_every_page() -> None:
    written = {Path(name).name for name in reference.PAGES}
    pages = written | {path.name for path in (ROOT / "docs/reference").iterdir()} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/reference/README.md").read_text()))


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_need_nothing_else(name: str) -> None:
    text = PICTURES[name].read_text()
    root = ElementTree.fromstring(text)
    [title, style, *parts] = root
    assert title.text
    assert "prefers-color-scheme: dark" in (style.text or "")
    assert not re.search(r"<script|href|url\(|@import|<image", text)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for part in parts:
        x, y = float(part.get("x", 0)), float(part.get("y", 0))
        assert 0 <= x <= x + float(part.get("width", 0)) <= width
        assert 0 <= y <= y + float(part.get("height", 0)) <= height
        if part.tag.endswith("text") and "middle" not in part.get("class", "") and part.get("class") != "in":
            assert x + 6.6 * len(part.text or "") <= width + 8, part.text
    for kind in {one for part in parts for one in part.get("class", "").split()}:
        assert f".{kind}" in (style.text or ""), kind


def test_every_picture_is_shown() -> None:
    shown = re.findall(r"!\[([^\]]+)\]\(\.\./pictures/([\w.]+)\)", (ROOT / "docs/start/concepts.md").read_text())
    assert {name for _, name in shown} == PICTURES.keys()
    assert all(len(words.split()) >= 8 for words, _ in shown)


def test_no_word_of_ours_is_left_out() -> None:
    manifests = [*(ROOT / "manifests").rglob("*.yaml"), *(ROOT / "scheduler-config").glob("*.yaml")]
    named = {word for path in (*CODE, *manifests) for word in OWN.findall(path.read_text())}
    assert named - NOT_ON_OBJECTS <= {word.name for word in VOCABULARY}
    assert {f"netgang.io/{name}" for name in KNOWN_OPTIONS} <= {word.name for word in VOCABULARY}


def test_every_word_of_ours_is_used() -> None:
    used = "\n".join(path.read_text() for path in (*CODE, *(ROOT / "manifests").rglob("*.yaml")))
    own = {word.name for word in VOCABULARY if word.name.startswith("netgang.io/")}
    spelt = {name for name in own if name in used or f'"{name.partition("/")[2]}"' in used}
    composed = {f"netgang.io/endpoint-{metric}" for metric in ("loss", "delay", "throughput")}
    assert own - spelt <= composed


ASKED = {word.name.partition("/")[2]: word for word in VOCABULARY if word.use is Use.ASK}


@pytest.mark.parametrize("name", sorted(ASKED.keys() & KNOWN_OPTIONS))
def test_values_that_are_listed_are_understood_and_no_others(name: str) -> None:
    word = ASKED[name]
    for text in (yaml.safe_load(word.example), *re.findall("`([^`]+)`", word.values)):
        assert gang_options({name: str(text)}, TRUSTING, namespace="team").problems == ()
    wrong = "" if name == "zones" else "no such value"
    assert name == "near" or gang_options({name: wrong}, TRUSTING, namespace="team").problems


def test_nothing_is_listed_twice() -> None:
    keys = [(word.name, word.form, word.on) for word in VOCABULARY]
    assert len(set(keys)) == len(keys)
    assert all(word.example and word.text for word in VOCABULARY)
    assert all(word.values for word in VOCABULARY if word.form is not Form.GATE)


@pytest.mark.parametrize("word", [*Reason, *Happening, *JobState, *GroupPhase])
def test_each_word_says_what_it_means(word: Reason | Happening | JobState | GroupPhase) -> None:
    [one] = [one for one in told(type(word)) if one.name == word.name]
    match word:
        case Reason():
            assert (len(one.paragraphs), bool(one.group)) == (2, True)
        case Happening():
            where, _, said = one.paragraphs[0].partition(". ")
            assert (where[:3], bool(said), bool(word.action)) == ("On ", True, True)
        case _:
            assert one.paragraphs


def test_metrics_are_those_of_a_running_service() -> None:
    page = reference.PAGES["reference/metrics.md"]()
    listed = {
        row[0]: set(re.findall("`([^`]+)`", row[1])) for row in re.findall(r"\| `(\w+)` \| \w+ \| (.*?) \|", page)
    }
    text = served().metrics
    shown = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    ours = {name for name in shown if not name.endswith("_created") and not name.startswith("process_")}
    assert ours == listed.keys()
    for name, labels in re.findall(r"^(\w+)\{([^}]*)\} ", text, re.MULTILINE):
        base = re.sub(r"_(bucket|count|sum|created)$", "", name)
        found = next(one for one in (name, base, f"{base}_total") if one in listed)
        assert set(re.findall(r'(\w+)="', labels)) - {"le"} <= listed[found], name


def _counted() -> Iterator[tuple[str, str]]:
    for path in CODE:
        for method, given in re.findall(r"telemetry\.(\w+)\(([^()]*)\)", path.read_text()):
            if method != "internal_error":
                yield from ((method, word) for word in re.findall(r'"([\w -]+)"', given))


def test_values_of_labels_are_named() -> None:
    texts = " ".join(one.documentation for one in Telemetry().registry.collect())
    counted = set(_counted())
    assert len(counted) >= 12
    assert {(method, word) for method, word in counted if not re.search(rf"\b{word}\b", texts)} == set()


def test_every_address_is_listed_with_its_ports() -> None:
    page = reference.PAGES["reference/api.md"]()
    rows = dict(re.findall(r"^\| \w+ \| `([^`]+)` \| ([\w, ]+) \|", page, re.MULTILINE))
    own, reports = served().openapi["paths"].keys(), reports_openapi()["paths"].keys()
    assert rows.keys() == own | reports
    assert {path for path, ports in rows.items() if "health" in ports} == PROBES
    assert {path for path, ports in rows.items() if ports == "reports"} == reports


def test_mistakes_are_problem_documents_in_openapi() -> None:
    schemas = served().openapi["components"]["schemas"]
    assert "Problem" in schemas
    assert not {"HTTPValidationError", "ValidationError"} & schemas.keys()


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_what_its_schema_says(path: str) -> None:
    answer = served().documents[path]
    again = msgspec.json.encode(msgspec.json.decode(answer, type=DOCUMENTS[path]))
    assert json.loads(again) == json.loads(answer)


def test_architecture_names_every_module_that_decides() -> None:
    text = (ROOT / "docs/explanation/architecture.md").read_text()
    [part] = re.findall(r"^## What decides: .*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    named = {name for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for name in re.findall("`([^`]+)`", row)}
    own = {
        path.stem
        for path in (ROOT / "scoring").glob("[a-z]*")
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert named == own
