"""Run the service behind uvicorn: one worker, one event loop, one or two ports, a graceful end.

Why servers of our own: uvicorn waits at its end for open connections, and ours are held binds that wait for quorum; so
they are answered first, within the time a pod is given to terminate. Rule: the ports begin and end together. Half a
service would look alive, so the end of one, or its not getting its port, is the end of both.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from socket import socket
from types import FrameType

import uvicorn
import uvloop
from starlette.types import ASGIApp

from extender import bootstrap
from extender.bootstrap import Service
from extender.settings import Settings

_KEEP_ALIVE_S = 120
"""Above the 90 s after which kube-scheduler's client drops an idle connection: it must never meet a closed one."""
_DRAIN_S = 10
_DEBUG_DRAIN_S = 1
"""Nothing is held for people: what they ask is answered from memory, and their connections must not delay the end."""
_CANNOT_LISTEN = 3
"""Exit code; the log says which address and why."""

_log = logging.getLogger("netgang.server")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C, then return. Errors: ConfigError before the first request could come.

    A port that cannot be listened on is logged and ends the process with exit code 3.
    """
    # A full collection looks at every object and stops the loop for a tenth of a second in a large cluster (measured);
    # records have no cycles, so little is ever found.
    gc.set_threshold(20_000, 10, 100)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        listened = runner.run(_serve(settings))
    if not listened:
        sys.exit(_CANNOT_LISTEN)


async def _serve(settings: Settings) -> bool:
    """Serve until told to end; False if a port could not be had."""
    make = bootstrap.live if settings.snapshot is None else bootstrap.embedded
    async with running(make(settings)) as service:
        servers = [_Server("port", _config(service.app, settings.host, settings.port, drain_s=_DRAIN_S))]
        if settings.debug_port is not None:
            config = _config(service.debug_app, settings.debug_host, settings.debug_port, drain_s=_DEBUG_DRAIN_S)
            servers.append(_Server("debug_port", config))
        end = _End(servers, service)
        with end.on_signals():
            async with asyncio.TaskGroup() as group:
                for server in servers:
                    group.create_task(_serve_until(end, server), name=f"serve port {server.config.port}")
        return all(server.started for server in servers)


def _config(app: ASGIApp, host: str, port: int, *, drain_s: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=drain_s,
        server_header=False,
        proxy_headers=False,
    )


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
    """uvicorn's server as one of several: signals are its owner's, and one that cannot listen just ends."""

    def __init__(self, setting: str, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._setting = setting

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `_End`: two servers would take them from each other."""
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen. uvicorn logs why it cannot and ends the process, which would tear down the others half way."""
        try:
            await super().startup(sockets)
        except SystemExit:
            self.should_exit = True
            _log.error("%s: cannot listen on %s:%d", self._setting, self.config.host, self.config.port)
        else:
            _log.info("%s: http://%s:%d", self._setting, *self.servers[0].sockets[0].getsockname()[:2])


class _End:
    """The end of all ports at once: stop accepting, and answer what is held."""

    def __init__(self, servers: Sequence[_Server], service: Service) -> None:
        self._servers = servers
        self._service = service
        self._answering: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Let the end begin, once."""
        for server in self._servers:
            server.should_exit = True
        if self._answering is None:
            loop = asyncio.get_event_loop()
            self._answering = loop.create_task(self._service.shut_down(), name="answer held calls")

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """First SIGTERM or SIGINT: begin; second: wait for nothing.

        uvicorn's own handler would raise the signal again at the end, and the process would die of it half way out.
        """

        def told(_number: int, _frame: FrameType | None) -> None:
            for server in self._servers:
                server.force_exit = server.should_exit
            self.begin()

        before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


async def _serve_until(end: _End, server: _Server) -> None:
    """Serve until the end; a server that ends by itself, for want of its port, is the end of all."""
    await server.serve()
    end.begin()
