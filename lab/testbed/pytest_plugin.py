"""Which tests of tests/e2e run, where, and what is said about those that do not: a pytest plugin.

Why: the real control plane needs Go and two cores for itself, so it must be possible to leave it out, and no developer
should overlook that it was left out.
Rule: without Go and without built programs the tests are skipped and the summary says so; with CI=true they run, and
fail saying so.
Under xdist each file of them is one piece of work and each worker has a control plane of its own: most of a file's
time is waiting, so more workers than processors take less time. This does not rely on `--dist=loadgroup` alone, because
xdist 3.8 loses its groups with pytest 9.2.
tests/e2e/conftest.py loads it; `-p testbed.pytest_plugin` makes the options known wherever pytest starts.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import find_go, missing
from lab.testbed.programs.catalogue import CORE, KUBERNETES, Version, parse_version

if TYPE_CHECKING:
    from xdist.scheduler import Scheduling  # type: ignore[import-untyped]

E2E = Path(__file__).parents[2] / "tests" / "e2e"
ARTIFACTS = E2E / "artifacts"
TEST_LIMIT_S = 120  # per test, fixtures excluded: they have limits of their own
_E2E_NODES = "tests/e2e/"  # how the ids of these tests begin
_PEOPLE = "tests/e2e/people/"  # commands of the documentation, which name fixed ports: never two of them at once


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say on which versions of Kubernetes they run."""
    group = parser.getgroup("netgang", "tests on a real control plane")
    group.addoption(
        "--versions",
        type=_parse_versions,
        default=(KUBERNETES,),
        metavar="X.Y.Z,…",
        help="Kubernetes: the core runs on each, other tests on the first",
    )


def kubernetes_versions(config: pytest.Config) -> Sequence[Version]:
    """The versions of Kubernetes asked for."""
    versions: Sequence[Version] = config.getoption("--versions", (KUBERNETES,))
    return versions


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of the core, which is what takes `kubernetes_version`, once per version."""
    if "kubernetes_version" in metafunc.fixturenames:
        metafunc.parametrize("kubernetes_version", kubernetes_versions(metafunc.config))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of tests/e2e."""
    if item.path.is_relative_to(E2E):
        item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S, func_only=True))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of tests/e2e first; leave all others alone."""
    ours = [item for item in items if item.path.is_relative_to(E2E)]
    why = why_not()
    if why is not None and not _on_ci():
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=why))
    longest_s: Counter[str] = Counter()
    for item in ours:
        limit = item.get_closest_marker("timeout")
        longest_s[_piece(item.nodeid)] += limit.args[0] if limit is not None and limit.args else TEST_LIMIT_S
    # the longest pieces first, or one worker ends long after the others
    ours.sort(key=lambda item: -longest_s[_piece(item.nodeid)])
    items[:] = ours + [item for item in items if item not in set(ours)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Each file of tests/e2e is one piece of work; every other test is one, or one with its group."""
    from xdist.scheduler import LoadGroupScheduling

    if any("tests/e2e" in argument for argument in config.args):
        config.option.loadscopereorder = False  # it would put the files with most tests first

    class FileScheduling(LoadGroupScheduling):  # type: ignore[misc]
        """Keeps the tests of a file of tests/e2e on one worker, one after the other."""

        def _split_scope(self, nodeid: str) -> str:
            return _piece(nodeid) if nodeid.startswith(_E2E_NODES) else str(super()._split_scope(nodeid))

    return FileScheduling(config, log)


def _piece(nodeid: str) -> str:
    """What one worker runs, one after the other: the test's file, or the folder of those that share ports."""
    return _PEOPLE if nodeid.startswith(_PEOPLE) else nodeid.partition("::")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what did not run, and where a failure's evidence is."""
    skipped = _reports(terminalreporter, "skipped")
    why = why_not()
    if why is not None and skipped and not _on_ci():
        text = f"NOT TESTED on a real control plane: {len(skipped)} tests of tests/e2e were left out: {why}"
        terminalreporter.write_line(text, yellow=True, bold=True)
    if _reports(terminalreporter, "failed", "error") and ARTIFACTS.exists():
        terminalreporter.write_line(f"logs, events and plans of failed tests: {ARTIFACTS}")


def why_not() -> str | None:
    """Why no control plane can be had here, or None."""
    if not missing(CORE):
        return None
    try:
        find_go()
    except ControlPlaneError as reason:
        return str(reason)
    return None


def _on_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def _parse_versions(text: str) -> tuple[Version, ...]:
    try:
        return tuple(parse_version(one.strip()) for one in text.split(","))
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def _reports(terminalreporter: pytest.TerminalReporter, *kinds: str) -> list[pytest.TestReport]:
    return [
        report
        for kind in kinds
        for report in terminalreporter.stats.get(kind, [])
        if getattr(report, "nodeid", "").startswith(_E2E_NODES)
    ]
