"""No test of MaDDash's source needs a server, but one that lets its requests through."""

from tests.extender.network.replies import no_server

__all__ = ["no_server"]
