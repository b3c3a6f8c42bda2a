"""Somebody who knows only README and docs/start/tutorial.md types all of both, and gets what they show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.testbed.programs.build import ensure_all
from lab.testbed.programs.catalogue import CORE
from tests.newcomer.document import Walk, commands
from tests.newcomer.walk import DOCUMENTS, ROOT, Newcomer, check_port

LEFT_BY_THE_CLUSTER = ROOT / "build" / "cluster.env"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """All programs of `make cluster` are in the cache: the walk is about its commands, not about the Go compiler."""
    ensure_all((*CORE, "kube-controller-manager"))


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    """Two terminals, for which this environment is up to date: a test must not reinstall what it runs in."""
    check_port()
    place = {"MAKEFLAGS": "--old-file=.venv/.synced", "TMPDIR": str(tmp_path)}
    with Newcomer(environment=place) as one:
        yield one
    check_port()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []  # uv leaves a lock file
    assert not LEFT_BY_THE_CLUSTER.exists()


@pytest.mark.timeout(240, func_only=True)
@pytest.mark.parametrize("walk", DOCUMENTS, ids=[walk.path.name for walk in DOCUMENTS])
def test_the_document_is_as_printed(newcomer: Newcomer, walk: Walk) -> None:
    """Every command of the document succeeds and prints what is shown; afterwards nothing of it is left."""
    assert newcomer.walk(walk) == commands(walk.steps())
