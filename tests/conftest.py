"""Settings for all tests: how Hypothesis looks for counter-examples.

`ci` (default) tries the same examples every time, so that a change is judged by the change; `nightly` looks for new
ones: `HYPOTHESIS_PROFILE=nightly make test`. Neither has a deadline: a busy machine is not a defect.
"""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from extender.runtime.log_lines import HumanFormatter, JsonFormatter

_SLOW_IS_NO_FAULT = (HealthCheck.too_slow,)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=_SLOW_IS_NO_FAULT)
settings.register_profile("nightly", deadline=None, max_examples=2000, suppress_health_check=_SLOW_IS_NO_FAULT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


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
