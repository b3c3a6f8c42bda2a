"""Run the service behind uvicorn: one worker, one event loop, one to four ports, a graceful end.

Why servers of our own: uvicorn waits at its end for open connections, and ours are held binds; so they are answered
first. Rule: the ports begin and end together: half a service would look alive.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from socket import socket
from typing import Any, cast

import uvicorn
import uvloop
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.common import LIMITS, Limits
from extender.runtime.memory import can_watch_memory, keep_one_heap
from extender.settings.settings import Settings, is_loopback

_KEPT_S = 120
"""How long a connection may idle after an answer. Above the 90 s after which kube-scheduler's client drops an idle
connection: Go repeats no POST of which something was written, and a /filter that fails costs its pod a second. Agents
of the probe keep theirs, too: 38 KiB each with TLS, a new one costs 1.3 ms of CPU (measured)."""
_CROWD = 16384  # Agents of 15,000 nodes each keep one
_FILES = 65536

_log = logging.getLogger("netgang.server")


def run(
    settings: Settings, *, limits: Limits = LIMITS, service: AbstractAsyncContextManager[Service] | None = None
) -> None:
    """Serve until SIGTERM or Ctrl-C; exit code 3: a port cannot be listened on. Errors: ConfigError, at first.

    `service`: another one than the settings say.
    """
    favour_the_loop()
    allow_open_files()
    with asyncio.Runner(loop_factory=_Loop) as runner:
        if not runner.run(_serve(settings, service or _chosen(settings, limits))):
            sys.exit(3)


class _Loop(uvloop.Loop):
    """A TLS handshake at our ports takes no longer than a body may (docs/safety.md S28): uvicorn has no setting."""

    async def create_server(self, *arguments: Any, **more: Any) -> asyncio.Server:
        if more.get("ssl") is not None:
            more.setdefault("ssl_handshake_timeout", 5.0)
        return cast("asyncio.Server", await super().create_server(*arguments, **more))


def favour_the_loop() -> None:
    """Set the interpreter so that it stops the event loop for little at a time (docs/safety.md S15)."""
    # With 5 ms the loop waited for threads that read network data of 15,000 nodes, up to 0.4 s in all (measured).
    sys.setswitchinterval(0.001)
    keep_one_heap()
    (gc.disable if can_watch_memory() else gc.enable)()  # for `collect_when_grown`


def allow_open_files() -> None:
    """Up to `_FILES`, as the system allows: held binds and others must leave some to post Bindings."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _chosen(settings: Settings, limits: Limits) -> AbstractAsyncContextManager[Service]:
    return bootstrap.live(settings, limits=limits) if settings.snapshot is None else bootstrap.embedded(settings)


async def _serve(settings: Settings, chosen: AbstractAsyncContextManager[Service]) -> bool:
    """Whether all ports were listened on. All end at once: they stop accepting, and what is held is answered."""
    async with running(chosen) as service:
        service.telemetry.built_from(os.environ.get("SOURCE_COMMIT", ""))  # the image sets it; no setting of ours
        servers = [PortServer(setting, config) for setting, config in configs(settings, service)]
        answering: list[asyncio.Task[None]] = []

        def end() -> None:
            for server in servers:
                server.should_exit = True
            if not answering:
                answering.append(asyncio.create_task(service.shut_down(), name="answer held calls"))

        def signalled() -> None:
            for server in servers:  # the second signal: wait for nothing
                server.force_exit = server.should_exit
            end()

        async def serve(server: PortServer) -> None:
            await server.serve()
            end()  # also of one that ends by itself, for want of its port

        if service.leadership is not None:
            service.leadership.duties.turn_away = servers[0].turn_away
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn's own handler would let the process die half way out
            asyncio.get_running_loop().add_signal_handler(number, signalled)
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(serve(server), name=f"serve port {server.config.port}")
        await asyncio.gather(*answering)
        return all(server.started for server in servers)


def configs(settings: Settings, service: Service) -> Iterator[tuple[str, uvicorn.Config]]:
    """Each port by its setting's name: the verbs', and those that are set for people, for probes and for reports."""
    tls, reports, host = service.tls, settings.reports, settings.host
    for_verbs, for_people = (tls.for_verbs, tls.for_people) if tls is not None else (None, None)
    yield "port", port_config(service.app, host, settings.port, verbs=True, tls=for_verbs)
    if settings.debug_port is not None:
        # On the loopback no other machine listens, and `kubectl port-forward` with curl needs no authority there.
        context = None if is_loopback(settings.debug_host) else for_people
        yield "debug_port", port_config(service.debug_app, settings.debug_host, settings.debug_port, tls=context)
    if settings.health_port is not None:
        # The kubelet and Prometheus come from elsewhere.
        anywhere = "0.0.0.0" if is_loopback(host) else host  # noqa: S104
        yield "health_port", port_config(service.health_app, anywhere, settings.health_port)
    if reports.port is not None and service.reports_app is not None:
        # No client certificate is asked for: pods have none.
        yield "reports.port", port_config(service.reports_app, host, reports.port, tls=for_people)


def port_config(
    app: ASGIApp, host: str, port: int, *, verbs: bool = False, tls: ssl.SSLContext | None = None
) -> uvicorn.Config:
    """Of uvicorn's protocols the one for `verbs` is fast and bounds no head; the others' callers may be anybody."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        http="httptools" if verbs else _Crowded,
        timeout_keep_alive=_KEPT_S,
        timeout_graceful_shutdown=10 if verbs else 1,  # nothing is held for people, who must not delay the end
        server_header=False,
        proxy_headers=False,
        ssl_context_factory=(lambda _config, _make: tls) if tls is not None else None,
    )


class _Crowded(H11Protocol):
    """uvicorn's protocol, with at most so many connections: files must be left for those to the API server."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > _CROWD:
            transport.abort()


@asynccontextmanager
async def running(context: AbstractAsyncContextManager[Service]) -> AsyncIterator[Service]:
    """The service with its tasks running; a task that fails ends the process, so that it is restarted."""
    async with context as service, asyncio.TaskGroup() as group:
        work = group.create_task(service.run(), name="service")
        try:
            yield service
        finally:
            work.cancel()


class PortServer(uvicorn.Server):
    """uvicorn's server as one of several: signals are its owner's, and one that cannot listen just ends."""

    def __init__(self, setting: str, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._setting = setting
        self._there_before: set[Any] = set()  # Connections at the last `turn_away`

    def turn_away(self) -> None:
        """Close connections, those with a call after its answer: kube-scheduler keeps its own, and is the leader's.

        One that is new since the last time has not had the time to ask, as a probe does.
        """
        there = set(self.server_state.connections)
        for connection in there & self._there_before:
            connection.shutdown()
        self._there_before = there

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `_serve`: two servers would take them from each other."""
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen. uvicorn logs why it cannot and ends the process, which would tear down the others half way."""
        try:
            await super().startup(sockets)
        except SystemExit:
            self.should_exit = True
            _log.error("%s: cannot listen on %s:%d", self._setting, self.config.host, self.config.port)
        else:
            scheme = "https" if self.config.is_ssl else "http"
            _log.info("%s: %s://%s:%d", self._setting, scheme, *self.servers[0].sockets[0].getsockname()[:2])
