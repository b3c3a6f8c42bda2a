"""Somebody who knows only README and docs/start/tutorial.md types all of both, and gets what they show."""

from pathlib import Path

import pytest

from lab.testbed.programs.build import ensure_all
from lab.testbed.programs.catalogue import CORE
from tests.newcomer.document import steps
from tests.newcomer.walk import ROOT, assert_port_is_free, newcomer

DOCUMENTS = {"README.md": ("Try it",), "docs/start/tutorial.md": ()}


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """All programs of `make cluster` are in the cache: the walk is about its commands, not about the Go compiler."""
    ensure_all((*CORE, "kube-controller-manager"))


@pytest.mark.timeout(240, func_only=True)
@pytest.mark.parametrize(("document", "sections"), DOCUMENTS.items(), ids=DOCUMENTS)
def test_the_document_is_as_printed(document: str, sections: tuple[str, ...], tmp_path: Path) -> None:
    assert_port_is_free()
    up_to_date = {"MAKEFLAGS": "--old-file=.venv/.synced"}  # a test must not reinstall what it runs in
    with newcomer(up_to_date, tmp_path) as walk:
        walk(steps((ROOT / document).read_text(), sections=sections))
    assert_port_is_free()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []  # uv leaves a lock file
    assert not (ROOT / "build" / "cluster.env").exists()
