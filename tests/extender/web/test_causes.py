"""The page reads fields of /v1/explain that there are; tests/browser/test_causes.py looks at what it renders."""

import re
from pathlib import Path
from typing import get_type_hints

from extender.schemas.explain import Explained
from extender.web import routes
from scoring.explain.causes.reasons import Cause

EXPLAIN = (Path(routes.__file__).parent / "static/explain.js").read_text()


def test_the_page_reads_fields_that_there_are() -> None:
    """A field that the document has no more would be shown as nothing at all; of the cause it reads all."""
    read = {name: set(re.findall(rf"\b{name}\??\.(\w+)", EXPLAIN)) for name in ("found", "cause")}
    assert read["found"]
    assert read["found"] <= get_type_hints(Explained).keys()
    assert read["cause"] == get_type_hints(Cause).keys()
