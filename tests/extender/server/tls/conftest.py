"""What our TLS logs, and the event loop that it is served on."""

import pytest
import uvloop


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What our TLS has logged; other loggers may be at any level, as the tests before have left them."""
    return [record.getMessage() for record in caplog.records if record.name == "netgang.tls"]


@pytest.fixture
def event_loop_policy() -> uvloop.EventLoopPolicy:
    return uvloop.EventLoopPolicy()
