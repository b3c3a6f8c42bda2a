"""Each cause for which a gang waits, in the words of every output but the page (tests/extender/web/test_causes.py).

The Event (and with it PodGroup and conditions, which carry its note), `/v1/explain` and the CLI go through the
functions that make them.
"""

import io

import pytest
from rich.console import Console

from cli.rendering.explained import print_explanation
from extender.api.documents.explain import explain_document, preemption_document
from scoring.explain.waiting import why_it_waits
from tests.scoring.explain.causes.cases import CASES, Case, explained


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_output_names_the_cause(case: Case) -> None:
    found, _, state = explained(case)
    cause = found.cause
    assert cause is not None
    assert cause.reason == case.reason, cause
    said = f"{cause.message} {cause.suggestion}".strip()
    assert not [words for words in case.says if words not in said], said
    assert "secret" not in said  # no gang of another namespace is named
    if found.waiting is not None:
        assert why_it_waits(found, state).startswith(said)  # Event, and what carries its note
    document = explain_document(found, preemption_document(state, case.wanted.key, blocked=None))
    assert document.cause is not None  # /v1/explain
    assert (document.cause.reason, document.cause.message) == (case.reason, cause.message)
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    print_explanation(console, document)
    assert f"{case.reason}: {said}" in console.file.getvalue()  # type: ignore[attr-defined]
