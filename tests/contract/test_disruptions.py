"""What goes around the one way to do something: to take pods away, to read HTTP or certificates, to decide."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for package in ("cli", "client", "extender", "scoring")
    for path in (ROOT / package).rglob("*.py")
}
ADAPTERS = {"extender/kube/client.py", "extender/kube/embedded.py"}  # what implements the port
PARSERS = re.compile(
    r"\(asyncio\.(Buffered|)Protocol\)|\bhttptools\.\w|Http(Request|Response)Parser|\bPEM_cert_to_DER|\\x30\\x8"
)

RECORDS = {"Struct", "field", "structs", "Meta", "Raw", "UNSET", "UnsetType"}
"""Of msgspec: records that are made by the dozen for each call, in a tenth of a dataclass's time, or are a schema; and
fields that a record has only where there is something in them"""


def called_of_the_api(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on = node.func.value
            name = on.id if isinstance(on, ast.Name) else on.attr if isinstance(on, ast.Attribute) else ""
            if name.lstrip("_") == "api":
                yield node.func.attr


def test_pods_are_evicted_and_owners_changed_in_one_place() -> None:
    """docs/safety.md S1, S11."""
    calls = {path: {*called_of_the_api(ast.parse(text))} for path, text in PRODUCT.items() if path not in ADAPTERS}
    removals, nodes = "extender/controllers/removals.py", "extender/controllers/events/nodes.py"
    for method, allowed in (("evict", [removals]), ("patch_object", [nodes, removals])):
        assert sorted(path for path, found in calls.items() if method in found) == allowed
    assert PRODUCT[nodes].count("patch_object(") == PRODUCT[nodes].count('patch_object("v1", "Node",') > 0


def test_nothing_of_ours_parses_http_or_certificates() -> None:
    assert len(PRODUCT) > 150
    assert [path for path, text in PRODUCT.items() if PARSERS.search(text)] == []
    assert PARSERS.search("class Connection(asyncio.BufferedProtocol):")


def pauses(tree: ast.Module) -> Iterator[str]:
    """Functions that yield nothing, as a work in steps does; a context manager may."""
    for one in ast.walk(tree):
        if not isinstance(one, ast.FunctionDef) or any("contextmanager" in ast.unparse(d) for d in one.decorator_list):
            continue
        if any(isinstance(part, ast.Yield) and part.value is None for part in ast.walk(one)):
            yield one.name


def test_no_decision_pauses_for_the_event_loop() -> None:
    """docs/safety.md S15: the worker thread decides; a generator that yields nothing is a work in steps."""
    scoring = {path: ast.parse(text) for path, text in PRODUCT.items() if path.startswith("scoring/")}
    assert [(path, name) for path, tree in scoring.items() for name in pauses(tree)] == []
    assert [*pauses(ast.parse("def steps():\n    yield\n"))] == ["steps"]


def test_decisions_use_msgspec_for_records_and_neither_read_nor_write() -> None:
    scoring = [text for path, text in PRODUCT.items() if path.startswith("scoring/")]
    used = {name for text in scoring for name in re.findall(r"\bmsgspec(?:\.| import )(\w+)", text)}
    assert used
    assert used <= RECORDS
