"""docs/safety.md: every rule is there once, and every test that it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/safety.md"
_TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")


def rules() -> dict[str, str]:
    _, *parts = re.split(r"^### (S\d+) ", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


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
