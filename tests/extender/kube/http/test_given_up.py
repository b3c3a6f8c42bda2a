"""A request that is given up must not arrive later: its connection is reset, so that the kernel forgets it too."""

import asyncio
import random

import pytest
import uvloop

from extender.errors import ApiUnavailableError
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.http.transport import Transport
from extender.runtime.clock import SystemClock
from tests.liveness import LIVENESS_S


async def _reset_when_given_up() -> bool:
    """Whether the server sees a reset, and no orderly end, when its client waits no more."""
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
            ended.set_result(False)
        except ConnectionResetError:
            ended.set_result(True)
        finally:
            writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        access = ApiServer(
            url=f"http://127.0.0.1:{port}", authorization=Authorization(lambda: Token(""), clock=SystemClock())
        )
        async with Transport(access, agent=f"test-{random.random()}") as transport:
            with pytest.raises(ApiUnavailableError, match="no answer in time"):
                await transport.send("POST", "/api/v1/pods", body=b"{}", timeout_s=0.2)
            async with asyncio.timeout(LIVENESS_S):
                return await ended


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_request_that_is_given_up_is_not_left_to_the_kernel(loop: object) -> None:
    """On both kinds of event loop; the service runs on uvloop."""
    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        assert runner.run(_reset_when_given_up())
