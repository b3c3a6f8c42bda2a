"""Virtual time that goes on at once: nothing here comes from outside the loop without being waited for."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look for input once before time goes on, not 42 times: most of what the tests in virtual time did."""
    for item in items:
        if item.get_closest_marker("looptime") is not None:
            item.add_marker(pytest.mark.looptime(noop_cycles=1))
