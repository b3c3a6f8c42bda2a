"""Names say what a thing is: no variable is only *found* or *known*, and no method only *looks*."""

import ast

from lab.bench.sizes import PRODUCT, ROOT

VARIABLES = frozenset({"one", "found", "known", "made", "said", "kept"})  # Fields that others read may have such names
METHODS = frozenset({"look()", "forget()", "of()"})


def empty_names(text: str) -> set[tuple[int, str]]:
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = {(function.lineno, f"{function.name}()") for function in functions}
    bound = (node for function in functions for node in ast.walk(function) if isinstance(node, ast.arg | ast.Name))
    for node in bound:
        if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store):
            names.add((node.lineno, node.arg if isinstance(node, ast.arg) else node.id))
    return {(line, name) for line, name in names if name in VARIABLES | METHODS}


def test_names_are_nouns_and_verbs_of_the_field() -> None:
    names = empty_names("def look(one):\n    found = [kept for kept in one]\n")
    assert names == {(1, "look()"), (1, "one"), (2, "found"), (2, "kept")}
    files = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]
    assert {path: names for path in files if (names := empty_names(path.read_text()))} == {}
