"""The reference leaves nothing out that the code says."""

import json
import re

import msgspec
import pytest
import yaml

from scoring import Namespace
from scoring.model.policy import KNOWN_OPTIONS, Policy, QueuePolicy, gang_options
from tests.contract.docs.demonstration import DOCUMENTS, served
from tests.contract.docs.vocabulary import VOCABULARY, Use
from tests.contract.reference import pages as reference

ROOT = reference.ROOT
CODE = [  # modules that use words and metrics, without those that define them
    path
    for name in ("extender", "scoring", "report/netgang_report")
    for path in sorted((ROOT / name).rglob("*.py"))
    if path.name != "telemetry.py"
]
OWN = re.compile(r"(?<![\w./])netgang\.io/[a-z-]+")
NOT_ON_OBJECTS = {"netgang.io/extender"}  # our name as a reporter of Events
TRUSTING = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("team")})))


def test_no_word_of_ours_is_left_out() -> None:
    manifests = [*(ROOT / "manifests").rglob("*.yaml"), *(ROOT / "scheduler-config").glob("*.yaml")]
    named = {word for path in (*CODE, *manifests) for word in OWN.findall(path.read_text())}
    assert named - NOT_ON_OBJECTS <= {word.name for word in VOCABULARY}
    assert {f"netgang.io/{name}" for name in KNOWN_OPTIONS} <= {word.name for word in VOCABULARY}


def test_every_word_of_ours_is_used() -> None:
    used = "\n".join(path.read_text() for path in (*CODE, *(ROOT / "manifests").rglob("*.yaml")))
    own = {word.name for word in VOCABULARY if word.name.startswith("netgang.io/")}
    spelt = {name for name in own if name in used or f'"{name.partition("/")[2]}"' in used}
    assert own - spelt <= {f"netgang.io/endpoint-{metric}" for metric in ("loss", "delay", "throughput")}


ASKED = {word.name.partition("/")[2]: word for word in VOCABULARY if word.use is Use.ASK}


@pytest.mark.parametrize("name", sorted(ASKED.keys() & KNOWN_OPTIONS))
def test_values_that_are_listed_are_understood_and_no_others(name: str) -> None:
    word = ASKED[name]
    for text in (yaml.safe_load(word.example), *re.findall("`([^`]+)`", word.values)):
        assert gang_options({name: str(text)}, TRUSTING, namespace="team").problems == ()
    wrong = "" if name == "zones" else "no such value"
    assert name == "near" or gang_options({name: wrong}, TRUSTING, namespace="team").problems


def test_mistakes_are_problem_documents_in_openapi() -> None:
    schemas = served().openapi["components"]["schemas"]
    assert "Problem" in schemas
    assert not {"HTTPValidationError", "ValidationError"} & schemas.keys()


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_what_its_schema_says(path: str) -> None:
    answer = served().documents[path]
    again = msgspec.json.encode(msgspec.json.decode(answer, type=DOCUMENTS[path]))
    assert json.loads(again) == json.loads(answer)
