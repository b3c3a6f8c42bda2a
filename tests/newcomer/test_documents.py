"""What the documents tell a newcomer is what is typed here: no command is left out, and none is hidden."""

import re

import pytest

from tests.newcomer.document import (
    Interrupted,
    Opened,
    Typed,
    Walk,
    WrongDocument,
    bare,
    commands,
    mentioned,
    sections_with_commands,
    steps,
)
from tests.newcomer.shown import is_shown
from tests.newcomer.walk import DOCUMENTS, ROOT, STAYING

NAMES = [walk.path.name for walk in DOCUMENTS]
every_document = pytest.mark.parametrize("walk", DOCUMENTS, ids=NAMES)


def all_commands() -> set[str]:
    return {one for walk in DOCUMENTS for one in commands(walk.steps())}


@every_document
def test_no_section_with_commands_is_left_out(walk: Walk) -> None:
    with_commands = sections_with_commands(walk.path.read_text())
    if walk.sections:
        assert with_commands == {*walk.sections, *walk.elsewhere}
    assert with_commands
    for why in walk.elsewhere.values():
        named = re.findall(r"tests/[\w/]+\.py", why)
        assert named
        assert all((ROOT / name).is_file() for name in named)


@every_document
def test_commands_in_the_prose_are_typed_too(walk: Walk) -> None:
    typed = all_commands()
    for one in mentioned(walk.path.read_text(), sections=walk.sections):
        assert any(f"{known} ".startswith(f"{one} ") for known in typed), one


@every_document
def test_what_is_printed_is_shown(walk: Walk) -> None:
    silent = [step for step in walk.steps() if isinstance(step, Typed) and step.shown is None]
    assert {bare(one) for step in silent for one in step.commands} <= set(STAYING)


def test_both_ways_to_start_are_walked() -> None:
    found = [step for walk in DOCUMENTS for step in walk.steps()]
    assert set(STAYING) <= all_commands()
    assert sum(one.startswith("curl -s localhost:8888/") for one in all_commands()) == 5
    assert sum(isinstance(step, Opened) and step.url == "http://127.0.0.1:8888/" for step in found) == 2
    assert sum(isinstance(step, Interrupted) for step in found) == 1


REFUSED = {  # what is wrong → document
    "a shell block in another language": "```bash\nmake run\n```",
    "a block without language": "```\nmake run\n```",
    "output of nothing": "Text.\n```text\nup\n```",
    "output behind prose": "```sh\nmake run\n```\nIt says:\n```text\nup\n```",
    "an open block": "```sh\nmake run\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_document_that_hides_something_is_refused(text: str) -> None:
    with pytest.raises(WrongDocument, match="line "):
        steps(text)


def test_sections_are_told_by_their_titles() -> None:
    text = "# T\n```sh\na\n```\n## Try it\n```sh\nb\n```\n### More\n`make x` \n## Later\n```bash\nc\n```"
    assert commands(steps(text, sections=["Try it"])) == ("b",)
    assert mentioned(text, sections=["Try it"]) == ("make x",)
    assert sections_with_commands(text) == {"T", "Try it", "Later"}


COMPARED = {  # case → (printed, shown, whether it is shown)
    "the same": ("a\nb\n", ["a", "b"], True),
    "a line less": ("a\n", ["a", "b"], False),
    "lines in another order": ("b\na\n", ["a", "b"], False),
    "lines that are left out": ("a\nb\nc\nd\n", ["a", "…", "d"], True),
    "nothing left out": ("a\nd\n", ["a", "…", "d"], True),
    "nothing, and nothing shown": ("", [], True),
    "something, and nothing shown": ("a\n", [], False),
    "columns of another width": ("a      b\n━━━━━━\n", ["a b", "━━"], True),
    "signs of regular expressions": ("a.b (c) [d]\n", ["a.b (c) [d]"], True),
    "not read as an expression": ("axb\n", ["a.b"], False),
}


@pytest.mark.parametrize(("printed", "shown", "want"), COMPARED.values(), ids=COMPARED)
def test_only_dots_stand_for_something_else(printed: str, shown: list[str], want: bool) -> None:
    assert is_shown(printed, shown) is want
