"""Tests ask through public names: what a module keeps to itself may change, and holds no promise."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
EXCEPTIONS = {  # (file, private name): why there is no public one
    (
        "contract/reference/words.py",
        "_collector_to_names",
    ): "prometheus_client gives the labels of a metric nowhere else",
    ("contract/manifests/test_dashboard.py", "_names_to_collectors"): "the same",
    ("scoring/plan/test_steps.py", "_together"): "a step of the planner that its result does not show alone",
    ("extender/server/test_connections.py", "_scheduled"): "asyncio lists the timers of a loop nowhere else",
    ("extender/server/test_verb_protocol.py", "_scheduled"): "the same",
    ("extender/controllers/elastic/reports/test_client.py", "_exit"): "os._exit, by which a forked process ends",
}

INVARIANTS = {  # file: why it may look inside
    "fuzz/consistency.py": "books that are kept up to date against the same from scratch: no caller of the"
    " cache asks for that, so it is no part of it",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own_names(tree: ast.AST) -> set[str]:
    """What a file defines itself: functions, classes, and what it assigns to, as a name or as an attribute of self."""
    found = set()
    for one in ast.walk(tree):
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(one.name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()) | ast.Name(name, ast.Store()):
                found.add(name)
            case _:
                pass
    return found


def foreign(tree: ast.AST) -> Iterator[str]:
    own = own_names(tree)
    for one in ast.walk(tree):
        match one:
            case ast.ImportFrom():
                yield from (alias.name for alias in one.names if is_private(alias.name))
            case ast.Attribute(value=ast.Name("self" | "cls")):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in own:
                yield name


def test_no_test_asks_for_private_names() -> None:
    found = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in TESTS.rglob("*.py")
        if path.relative_to(TESTS).as_posix() not in INVARIANTS
        for name in foreign(ast.parse(path.read_text()))
    }
    assert not found - EXCEPTIONS.keys()
