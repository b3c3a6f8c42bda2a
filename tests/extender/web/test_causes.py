"""Each cause for which a gang waits, as the page is given it; tests/browser/test_causes.py looks at what it renders."""

import re
from pathlib import Path
from typing import Any

import pytest

from extender.schemas.explain import Cause, Explained
from extender.web import routes
from tests.extender.web.shown_causes import document_of, row_of
from tests.scoring.explain.causes.cases import CASES, Case, explained

EXPLAIN = (Path(routes.__file__).parent / "static/explain.js").read_text()
READ = {  # what explain.js calls a part of the document → its schema
    "found": Explained,
    "cause": Cause,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_page_is_given_the_cause(case: Case) -> None:
    """The dialog's document has the cause with its words; the row of the queue the planner's reason, with numbers."""
    found, _, _ = explained(case)
    document, row = document_of(case), row_of(case)
    said = f"{document['cause']['message']} {document['cause']['suggestion']}"
    assert document["cause"]["reason"] == case.reason
    assert not [words for words in case.says if words not in said]
    if found.waiting is None:
        assert (row["reason"], row["detail"]) == (None, "")
    else:
        assert (row["reason"], row["detail"]) == (found.waiting.reason, found.waiting.detail[:300])
        assert row["reason"] == document["reason"]


@pytest.mark.parametrize(("name", "schema"), READ.items(), ids=READ)
def test_the_page_reads_fields_that_there_are(name: str, schema: Any) -> None:
    """A field that the document has no more would be shown as nothing at all."""
    read = set(re.findall(rf"\b{name}\??\.(\w+)", EXPLAIN))
    assert read
    assert read <= set(schema.__struct_fields__)


def test_the_page_reads_the_whole_cause() -> None:
    read = set(re.findall(r"\bcause\.(\w+)", EXPLAIN))
    assert read == set(Cause.__struct_fields__)
