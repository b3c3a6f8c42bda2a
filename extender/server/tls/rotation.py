"""Certificates in force, and the next ones as soon as their files are there.

Why: certificates are renewed while binds are held; a restart for it would fail every held gang.
Rule: the files are looked at every `RELOAD_S` in a thread, never on the event loop. New ones count for new connections;
those that are open, and what is held on them, stay. Files that cannot be used are logged once, counted, tried again.
"""

import asyncio
import logging

from extender.errors import ConfigError
from extender.ports import Clock
from extender.runtime.telemetry import Telemetry
from extender.server.tls.context import LivingContext
from extender.server.tls.files import Loaded, load, marks_of
from extender.settings.ports import TlsSettings

RELOAD_S = 5.0  # Certificates are renewed days before they end: a look must only be cheap
_SAID_AGAIN_S = 10.0

_log = logging.getLogger("netgang.tls")


class Rotation:
    """The contexts of the ports, which follow their files. Errors at the start: ConfigError."""

    def __init__(
        self, settings: TlsSettings, clock: Clock, telemetry: Telemetry, *, reload_s: float = RELOAD_S
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._telemetry = telemetry
        self._reload_s = reload_s
        self._said_at_s = -_SAID_AGAIN_S  # That a client was refused
        self._problem = ""
        self._loaded = self._load()
        allowed = frozenset(settings.client_names)
        self.for_verbs = LivingContext.of(self._loaded.for_verbs, self._refused, allowed=allowed)
        self.for_people = LivingContext.of(self._loaded.for_people, self._refused)  # Asks clients for no certificate
        self._show_expiry()

    async def follow(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(self._reload_s)
            await self.look()

    async def look(self) -> None:
        """Look at the files once, and use them if they are new and good."""
        try:
            if await asyncio.to_thread(marks_of, self._settings) != self._loaded.marks:
                self._loaded = await asyncio.to_thread(self._load)
                self.for_verbs.use(self._loaded.for_verbs)
                self.for_people.use(self._loaded.for_people)
                self._telemetry.tls_reloaded("loaded")
                self._show_expiry()
                _log.info("new certificates are in force; open connections keep the old ones")
            self._problem = ""
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._telemetry.tls_reloaded("refused")
                _log.error("the certificates of before stay in force, the new ones cannot be used: %s", error)

    def _load(self) -> Loaded:
        return load(self._settings, now_s=self._clock.now_s())

    def _show_expiry(self) -> None:
        for certificate, ends_s in self._loaded.ends_s.items():
            self._telemetry.tls_expiry.labels(certificate).set(ends_s)

    def _refused(self, why: str) -> None:
        """Say why a client was refused, at most once in ten seconds."""
        now_s = self._clock.monotonic_s()
        if now_s - self._said_at_s >= _SAID_AGAIN_S:
            self._said_at_s = now_s
            _log.warning("a connection was refused: %s", why)
