"""There is one way to take pods away (docs/safety.md S1, S11): what goes around it fails here."""

import ast
from pathlib import Path

import extender

ROOT = Path(extender.__file__).parent
GATE = "controllers/removal/removals.py"
ADAPTERS = {"kube/client.py", "kube/embedded.py"}  # what implements the port


def callers(*methods: str) -> list[set[str]]:
    """Of each method: the modules that call it."""
    calls = {path.relative_to(ROOT).as_posix(): called(ast.parse(path.read_text())) for path in ROOT.rglob("*.py")}
    return [{module for module, found in calls.items() if one in found} for one in methods]


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
    assert [found - ADAPTERS for found in callers("evict", "patch_object")] == [{GATE}, {GATE}]
