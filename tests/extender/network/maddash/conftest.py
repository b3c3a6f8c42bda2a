"""No test of MaDDash's source needs a server: replies come from `scripted.Script`, others are errors."""

from collections.abc import Iterator

import pytest

from tests.extender.network.maddash.scripted import replies


@pytest.fixture(autouse=True)
def no_server() -> Iterator[None]:
    with replies:
        yield
