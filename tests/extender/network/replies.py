"""Replies of respx in place of servers: modules whose tests need nothing else import both."""

from collections.abc import Iterator
from typing import Final

import pytest
import respx

replies: Final = respx.mock(assert_all_called=False)


@pytest.fixture(autouse=True)
def no_server() -> Iterator[None]:
    with replies:
        yield
