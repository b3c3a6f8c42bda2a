"""docs/safety.md: every rule is there once, every test that it names exists, and code cites it in one form."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/safety.md"
_CITED = re.compile(r"docs/safety\.md (S\d+(?:(?:, | and |–)S\d+)*)")
_NUMBER = re.compile(r"\bS[0-9]{1,2}\b")
_TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
_SOURCES = ("extender", "scoring", "lab", "tests", "manifests", "scheduler-config")


def rules() -> dict[str, str]:
    _, *parts = re.split(r"^### (S\d+) ", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def cited(text: str) -> list[str]:
    r"""Rules that a text cites, in the one form in which it may, over line ends too.

    >>> cited("held until it is whole (docs/safety.md S8,\n    S10)")
    ['S8', 'S10']
    """
    flat = re.sub(r"\s*\n[\s#]*", " ", text)
    return [number for found in _CITED.findall(flat) for number in _NUMBER.findall(found)]


def test_every_rule_is_there_once() -> None:
    assert list(rules()) == [f"S{number}" for number in range(1, 30)]


@pytest.mark.parametrize("number", rules())
def test_a_rule_names_tests_that_exist(number: str) -> None:
    _, held, names = rules()[number].partition("Held by:")
    named = _TEST.findall(names)
    assert held
    assert named
    for path, function in named:
        assert (ROOT / path).exists(), path
        assert not function or re.search(
            rf"^\s*(?:async )?def {function}\(", (ROOT / path).read_text(), re.MULTILINE
        ), f"{path} has no {function}"


def test_code_cites_the_page() -> None:
    known, alone = rules(), []
    listed = subprocess.run(["git", "ls-files", *_SOURCES], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix not in (".py", ".yaml", ".tpl", ".toml") or path == Path(__file__) or not path.is_file():
            continue
        text = path.read_text()
        found = cited(text)
        if len(_NUMBER.findall(text)) != len(found):
            alone.append(name)
        assert set(found) <= known.keys(), name
    assert alone == []
