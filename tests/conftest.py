"""Settings for all tests: how Hypothesis looks for counter-examples.

`quick` (default, `make test`) and `ci` (`make e2e`), with ten times as many, try the same examples every time: a change
is judged by the change. `nightly` (`make nightly`) looks for new ones, twenty times as many as `ci`. The number is the
profile's; `tests/example_counts.py` has the few other ones. None has a deadline: a busy machine is no defect.
"""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from extender.runtime.log_lines import HumanFormatter, JsonFormatter
from lab.testbed.parts.helm import Helm, find_helm

for name, examples in {"quick": 10, "ci": 100, "nightly": 2000}.items():
    same, slow_is_no_fault = name != "nightly", (HealthCheck.too_slow,)
    settings.register_profile(
        name, deadline=None, max_examples=examples, derandomize=same, suppress_health_check=slow_is_no_fault
    )
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(_PROFILE)


gc.set_threshold(50_000, 20, 20)  # the usual 700 cost a tenth of all tests: thousands of short worlds with their tasks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of a nightly run an hour: the usual time is for the examples of `ci`."""
    if _PROFILE == "nightly":
        for item in items:
            item.add_marker(pytest.mark.timeout(3600), append=False)


def pytest_collection_finish() -> None:
    """Set aside what collecting thousands of tests has made, or the collector looks at it again in every test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_log_handler_left_behind() -> Iterator[None]:
    """A test that configures logging writes to a stream that is closed afterwards: the next test must not."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in root.handlers[:]:
        if isinstance(handler.formatter, JsonFormatter | HumanFormatter):
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Helm without a cluster; a loud skip without any: tests/e2e/people/test_manifests.py builds one."""
    if (program := find_helm()) is None:
        pytest.skip("no helm: set NETGANG_HELM, install helm 3, or `python -m lab.testbed build helm`; NOT checked")
    return Helm(program, tmp_path)
