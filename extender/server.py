"""Run the service behind uvicorn: one worker, one event loop, a graceful end.

Why a Server of our own: uvicorn waits at its end for open connections, and ours are held binds that wait for quorum; so
they are answered first, within the time a pod is given to terminate.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import FrameType

import uvicorn
import uvloop

from extender import bootstrap
from extender.bootstrap import Service
from extender.settings import Settings

_KEEP_ALIVE_S = 120
"""Above the 90 s after which kube-scheduler's client drops an idle connection: it must never meet a closed one."""
_DRAIN_S = 10


def run(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C, then return. Errors: ConfigError before the first request could come."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    make = bootstrap.live if settings.snapshot is None else bootstrap.embedded
    async with running(make(settings)) as service:
        config = uvicorn.Config(
            service.app,
            host=settings.host,
            port=settings.port,
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_DRAIN_S,
            server_header=False,
        )
        await _Server(config, service).serve()


@asynccontextmanager
async def running(made: AbstractAsyncContextManager[Service]) -> AsyncIterator[Service]:
    """The service with its tasks running; a task that fails ends the process, so that it is started anew."""
    async with made as service:
        work = asyncio.create_task(service.run(), name="service")
        caller = asyncio.current_task()
        assert caller is not None

        def failed(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                caller.cancel()

        work.add_done_callback(failed)
        try:
            yield service
        except asyncio.CancelledError:
            if work.done() and not work.cancelled():
                work.result()
            raise
        finally:
            work.remove_done_callback(failed)
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


class _Server(uvicorn.Server):
    """uvicorn's server, which answers held calls as soon as it is told to end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: stop accepting and answer what is held; second: end at once.

        uvicorn's own would raise the signal again at the end, and the process would die of it half way out.
        """
        self.force_exit = self.should_exit
        self.should_exit = True
        if self._ending is None:
            loop = asyncio.get_event_loop()
            self._ending = loop.create_task(self._service.shut_down(), name="answer held calls")
