"""The reader types a page as it is printed but for the page's tables, and notices what is not so."""

import os
from pathlib import Path

import pytest

from tests.newcomer.document import Walk, WrongDocument
from tests.newcomer.page import Effect, Page
from tests.newcomer.reader import Reader, typed_of
from tests.newcomer.walk import NotAsPrinted


def walk(tmp_path: Path, text: str, page: Page) -> Walk:
    path = tmp_path / "page.md"
    path.write_text(text)
    return Walk(path, page=page)


def read(tmp_path: Path, text: str, page: Page) -> tuple[str, ...]:
    there = walk(tmp_path, text, page)
    folder = tmp_path / "folder"
    folder.mkdir()
    typed = Reader(folder, environment={"ME": "you"}, words={"NOBODY": "$ME"}).read(there)
    assert typed == typed_of(there)
    return typed


def test_a_page_is_typed_with_the_readers_own_words(tmp_path: Path) -> None:
    text = (
        "- in a list:\n\n  ```yaml\n  name: NAME\n  ```\n  ```sh\n  cat settings.yaml; cat earlier   # what there is\n"
        "  for one in a b; do\n    echo NOBODY $one\n  done\n  ```\n\n```\nargs: [a]\n```\n```promql\nrate(x)\n```\n"
    )
    page = Page(
        words={"NAME": "resnet"},
        files={"settings.yaml": "name:"},
        before={"cat settings.yaml; …": "echo before > earlier"},
        effects={"cat settings.yaml; …": Effect("name: resnet\nbefore"), "for …": Effect("you a\nyou b")},
    )
    assert read(tmp_path, text, page) == (
        "cat settings.yaml; cat earlier",
        "for one in a b; do\n  echo NOBODY $one\ndone",
    )


def test_what_goes_on_is_left_at_the_page_s_end(tmp_path: Path) -> None:
    text = "```sh\nsh watch.sh &\nsh watch.sh --watch\ncat pids\n```"
    page = Page(before={"sh watch.sh &": "echo 'echo $$ >> pids; echo up; exec sleep 100' > watch.sh"})
    assert len(read(tmp_path, text, page)) == 3
    pids = [int(one) for one in (tmp_path / "folder" / "pids").read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


WRONG = {  # what is wrong → (page, tables, what is said)
    "a failure": ("```sh\necho a; false\n```", Page(), "exit code 1:\na"),
    "a failure within a pipe": ("```sh\nfalse | cat\n```", Page(), "exit code 1"),
    "a failure before": ("```sh\necho a\n```", Page(before={"echo a": "false"}), "`false` ended with exit code 1"),
    "another effect": ("```sh\necho a\n```", Page(effects={"echo …": Effect("b")}), "not the effect\nb\n--- but\na"),
    "a code that is not meant": ("```sh\ntrue\n```", Page(ends={"true": (1,)}), "exit code 0"),
    "what should go on ends": ("```sh\necho a &\nsleep 0.1\n```", Page(), "ended by itself"),
}


@pytest.mark.parametrize(("text", "page", "said"), WRONG.values(), ids=WRONG)
def test_what_is_not_so_is_said(tmp_path: Path, text: str, page: Page, said: str) -> None:
    with pytest.raises(NotAsPrinted, match=said) as found:
        read(tmp_path, text, page)
    assert str(found.value).startswith("page.md:")


def test_a_command_may_end_with_another_code(tmp_path: Path) -> None:
    text = "```sh\ntest -e there\ntouch there\ntest -e there\n```"
    assert len(read(tmp_path, text, Page(ends={"test …": (1, 0)}))) == 3


def test_what_is_left_is_not_typed(tmp_path: Path) -> None:
    text = "```sh\ndocker build .\necho a\nnetgang network a b\nnetgang plan cluster.json\n```"
    assert typed_of(walk(tmp_path, text, Page(left={"docker …": "no engine"}))) == (
        "echo a",
        "netgang plan cluster.json",
    )


def test_a_block_that_hides_commands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongDocument, match="line 2"):
        typed_of(walk(tmp_path, "```\nkubectl version\n```", Page()))
