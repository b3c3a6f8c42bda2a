"""What a library or a thread does is not written again: no parser of HTTP or DER, no way of our own to pause a plan."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = [
    path for package in ("cli", "client", "extender", "scoring") for path in sorted((ROOT / package).rglob("*.py"))
]
OURS = re.compile(
    r"\(asyncio\.(Buffered|)Protocol\)|\bhttptools\.\w|Http(Request|Response)Parser|\bPEM_cert_to_DER|\\x30\\x8"
)


def test_nothing_of_ours_parses_http_or_certificates() -> None:
    assert len(PRODUCT) > 150
    found = [str(path.relative_to(ROOT)) for path in PRODUCT if OURS.search(path.read_text())]
    assert found == []
    assert OURS.search("class Connection(asyncio.BufferedProtocol):")


def pauses(tree: ast.Module) -> Iterator[str]:
    """Functions that yield nothing, as a work in steps does; a context manager may."""
    for one in ast.walk(tree):
        if not isinstance(one, ast.FunctionDef) or any(
            "contextmanager" in ast.unparse(way) for way in one.decorator_list
        ):
            continue
        if any(isinstance(part, ast.Yield) and part.value is None for part in ast.walk(one)):
            yield one.name


def test_no_decision_pauses_for_the_event_loop() -> None:
    """docs/safety.md S15: the worker thread decides; a generator that yields nothing is a work in steps."""
    found = {path.name: list(pauses(ast.parse(path.read_text()))) for path in PRODUCT if "scoring" in path.parts}
    assert {name: names for name, names in found.items() if names} == {}
    assert list(pauses(ast.parse("def steps():\n    yield\n"))) == ["steps"]
