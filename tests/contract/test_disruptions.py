"""There is one way to take pods away (docs/safety.md S1, S11): what goes around it fails here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import extender

ROOT = Path(extender.__file__).parent
GATE = "controllers/removal/removals.py"
ADAPTERS = {"kube/client.py", "kube/embedded.py"}  # what implements the port


def callers(method: str) -> set[str]:
    return {module for module, tree in modules() if method in called(tree)}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def called(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on = node.func.value
            name = on.id if isinstance(on, ast.Name) else on.attr if isinstance(on, ast.Attribute) else ""
            if name.lstrip("_") == "api":
                found.add(node.func.attr)
    return found


def test_pods_are_evicted_and_owners_changed_in_one_place() -> None:
    assert callers("evict") - ADAPTERS == {GATE}
    assert callers("patch_object") - ADAPTERS == {GATE}
