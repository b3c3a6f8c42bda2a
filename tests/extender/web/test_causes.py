"""The page reads fields of /v1/explain that there are; tests/browser/test_causes.py looks at what it renders."""

import re
from pathlib import Path
from typing import Any

import pytest

from extender.schemas.explain import Cause, Explained
from extender.web import routes

EXPLAIN = (Path(routes.__file__).parent / "static/explain.js").read_text()
READ = {  # what explain.js calls a part of the document → its schema
    "found": Explained,
    "cause": Cause,
}


@pytest.mark.parametrize(("name", "schema"), READ.items(), ids=READ)
def test_the_page_reads_fields_that_there_are(name: str, schema: Any) -> None:
    """A field that the document has no more would be shown as nothing at all."""
    read = set(re.findall(rf"\b{name}\??\.(\w+)", EXPLAIN))
    assert read
    assert read <= set(schema.__struct_fields__)


def test_the_page_reads_the_whole_cause() -> None:
    read = set(re.findall(r"\bcause\.(\w+)", EXPLAIN))
    assert read == set(Cause.__struct_fields__)
