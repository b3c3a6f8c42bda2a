"""The check of plain English: what it reads, what it refuses, and that its allowances only fall."""

import pytest

from tests import prose

READ = {  # case: (path, text, lines and words that are found)
    "a docstring": ("a.py", '"""A gate\nthat nobody removes."""\n', [(2, "nobody")]),
    "a comment": ("a.py", "x = 1  # planned anew\n", [(1, "anew")]),
    "a log line": ("a.py", 'log.info("told the operator")\n', [(1, "told")]),
    "the text between an f-string's fields": ("a.py", 'f"{who} was told"\n', [(1, "told")]),
    "a name in code": ("a.py", "def tell(who): return held_room\n", []),
    "a text of one word": ("a.py", 'row["who"]\n', []),
    "a name in backticks": ("a.py", '"""The answer of `kubectl auth who`."""\n', []),
    "a doctest": ("a.py", '"""Shrink.\n\n>>> tell(nobody, "x y")\n"""\n', []),
    "a page": ("a.md", "A gang is\nlet in.\n\n```\ntell nobody\n```\n", [(2, "let in")]),
    "a link's target": ("a.md", "[gates](gates.md#who-removes)\n", []),
    "words across two lines": ("a.md", "It gives\nway.\n", [(1, "gives way")]),
    "a comment in YAML": ("a.yaml", "who: nobody  # for ever\n", [(1, "for ever")]),
    "words about people": ("a.md", "Operators who use Helm read this.\n", []),
    "words that only contain a rule's": ("a.md", "The whole hold, a storytelling beginner.\n", []),
}


@pytest.mark.parametrize(("path", "text", "want"), READ.values(), ids=READ)
def test_words_are_found_where_people_read(path: str, text: str, want: list[tuple[int, str]]) -> None:
    assert want == [(finding.line, finding.words) for finding in prose.findings(path, text)]


def test_a_finding_names_place_word_and_replacement() -> None:
    [finding] = prose.findings("docs/safety.md", "Planned anew.")
    assert str(finding) == 'docs/safety.md:1: "anew" → again; a new one; restart'


def test_an_allowance_only_falls() -> None:
    found = list(prose.findings("a/b/c.py", "# nobody, anew"))
    assert prose.check(found, {"a": 0, "a/b": 2}) == []
    assert prose.check(found, {"a/b": 3}) == ["a/b: 2 words left: lower its number in tests/prose.py from 3"]
    assert len(prose.check(found, {"a/b": 1})) == 3
    assert len(prose.check(found, {})) == 2


def test_the_tree_has_only_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main([]) == 0, capsys.readouterr().out
