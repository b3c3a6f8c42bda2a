"""Every line for the shell in README and docs is run by a test, or stands on a short list with the reason why not.

A new line that no test takes up is a failure, and so is an entry of a list or a table that is about nothing any more.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.contract.docs import test_explain_docs as explained
from tests.contract.docs import test_testbed_tables as tables
from tests.contract.docs.test_how_tos import DOCUMENTS, ROOT, in_process, page_commands
from tests.newcomer.document import Walk, commands, hides_commands, parts
from tests.newcomer.page import names
from tests.newcomer.reader import typed_of
from tests.newcomer.site_pages import PAGES
from tests.newcomer.walk import DOCUMENTS as WALKED

_PEERS = "takes minutes and builds a peer's scheduler: tests/bench/test_peers.py, tests/e2e/bed/test_peers.py"
_SIMULATED = "takes long: tests/simulator/test_compare.py makes some of the same rows"
_IMPAIRED = "needs root, network namespaces and 14 minutes: tests/bench/test_testbed_cases.py"

NOT_RUN = {  # command, or how it begins → why no test runs it as it is printed, and what is tested in its place
    "netgang simulate kod2 --…": _SIMULATED,
    "netgang simulate pollux …": _SIMULATED,
    "netgang simulate jobs.csv …": "the reader's own file: tests/simulator/test_recorded.py reads such",
    "kubectl -n netgang-system create secret generic netgang-notes …": "tests/extender/notes/test_notes.py reads one",
    "RACE_S=30 .venv/bin/python -m pytest …": "`make e2e` runs tests/e2e/tenants/test_two_schedulers.py half as long",
    "make release …": "tests/release/test_release.py builds one, twice; the command refuses a version without a date",
    "python -m lab.bench.scale …": "takes minutes: tests/bench/test_scale.py runs it on a small cluster",
    "sudo make testbed": _IMPAIRED,
    "sudo make testbed ARGS=--continue": _IMPAIRED,
    ".venv/bin/python -m lab.bench.testbed check": _IMPAIRED,
    ".venv/bin/python -m lab.bench.testbed clean": _IMPAIRED,
    ".venv/bin/python -m lab.bench.testbed --…": _IMPAIRED,
}


def left_out() -> dict[str, str]:
    return NOT_RUN | {key: why for walk in PAGES if walk.page is not None for key, why in walk.page.left.items()}


def run() -> frozenset[str]:
    return frozenset(
        [
            *(one for walk in WALKED for one in commands(walk.steps())),
            *(one for walk in PAGES for one in typed_of(walk)),
            *(one for lines in in_process().values() for one in lines),
            *explained.OURS,
            *tables.COMMANDS,
        ]
    )


def unaccounted(lines: Iterable[str]) -> list[str]:
    known, left = run(), left_out()
    return [line for line in lines if line not in known and not any(names(key, line) for key in left)]


@pytest.fixture(params=DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def document(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_every_command_is_accounted_for(document: Path) -> None:
    assert unaccounted(page_commands(document)) == []


def test_a_new_line_is_noticed() -> None:
    known = "kubectl apply -f examples/gang-job.yaml"
    assert unaccounted([known, f"{known}s", "kubectl get pods", "docker build . -t x"]) == [
        f"{known}s",
        "kubectl get pods",
    ]


def test_no_command_hides_in_another_block(document: Path) -> None:
    assert [one.line for one in parts(document.read_text()) if hides_commands(one)] == []


@pytest.mark.parametrize(("key", "why"), left_out().items(), ids=left_out())
def test_what_is_left_out_is_printed_and_run_by_nobody(key: str, why: str) -> None:
    printed = [line for path in DOCUMENTS for line in page_commands(path) if names(key, line)]
    assert printed
    assert not run() & set(printed)
    named = re.findall(r"tests/[\w/]+\.py", why)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_few_are_left_out() -> None:
    lines = {line for path in DOCUMENTS for line in page_commands(path)}
    assert len(lines & run()) >= 4 * len(lines) / 5


@pytest.mark.parametrize("walk", PAGES, ids=[f"{one.path.stem} {one.sections}" for one in PAGES])
def test_the_tables_of_a_page_are_about_it(walk: Walk) -> None:
    page, text = walk.page, walk.path.read_text()
    assert page is not None
    typed, shown = typed_of(walk), commands(walk.steps())
    assert typed
    for table in (page.before, page.effects, page.ends):
        assert [key for key in table if not any(names(key, one) for one in typed)] == []
    assert [key for key in page.left if not any(names(key, one) for one in shown)] == []
    assert [word for word in page.words if not any(word in one for one in typed)] == []
    blocks = ["\n".join(one.lines) for one in parts(text) if one.language == "yaml"]
    assert [words for words in page.files.values() if not any(words in block for block in blocks)] == []


def test_pages_of_commands_are_walked_whole() -> None:
    for path in {walk.path for walk in PAGES}:
        walks = [walk for walk in PAGES if walk.path == path]
        if all(walk.sections for walk in walks):
            done = {one for walk in walks for one in commands(walk.steps())}
            assert [one for one in page_commands(path) if one not in done and one not in run()] == []
        else:
            assert len(walks) == 1
