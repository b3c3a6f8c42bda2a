"""Names say what a thing is: no variable is only *found* or *known*, and no method only *looks*."""

import ast

from lab.bench.sizes import PRODUCT, ROOT

VARIABLES = frozenset({"one", "found", "known", "made", "said", "kept"})  # Fields that others read may have such names
METHODS = frozenset({"look()", "forget()", "of()"})


def empty_names(text: str) -> set[tuple[int, str]]:
    """Lines and names, in functions."""
    names = set[tuple[int, str]]()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = list(ast.walk(function))
            names |= {(node.lineno, node.arg) for node in nodes if isinstance(node, ast.arg)}
            names |= {
                (node.lineno, node.id)
                for node in nodes
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            names |= {(function.lineno, f"{function.name}()")}
    return {(line, name) for line, name in names if name in VARIABLES | METHODS}


def test_names_are_nouns_and_verbs_of_the_field() -> None:
    assert empty_names("def look(one):\n    found = [kept for kept in one]\n") == {
        (1, "look()"), (1, "one"), (2, "found"), (2, "kept")
    }  # fmt: skip
    files = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]
    assert {path: names for path in files if (names := empty_names(path.read_text()))} == {}
