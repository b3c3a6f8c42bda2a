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
from extender.server.tls.context import LivingContext, Outcome
from extender.server.tls.files import SERVER, Loaded, load, marks_of
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
        self._said_at_s: dict[Outcome, float] = {}  # Why clients were refused → when that was said last
        self._left_out = 0
        self._loaded = self._load()
        self._refused = ""
        self._expiry_reported = False
        self.for_verbs = LivingContext.of(self._loaded.for_verbs)  # May ask clients for a certificate
        self.for_people = LivingContext.of(self._loaded.for_people)  # Asks for none
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
        except ConfigError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                self._telemetry.tls_reloaded("refused")
                _log.error("the certificates of before stay in force, the new ones cannot be used: %s", error)
            return
        self._refused = ""
        if not self._expiry_reported and self._loaded.ends_s[SERVER] <= self._clock.now_s():
            self._expiry_reported = True
            _log.error("the certificate in tls.cert_file has expired: kube-scheduler will refuse new connections")

    def _load(self) -> Loaded:
        return load(self._settings, self._handshake_ended, now_s=self._clock.now_s)

    def _show_expiry(self) -> None:
        self._expiry_reported = False
        for certificate, ends_s in self._loaded.ends_s.items():
            self._telemetry.tls_expiry.labels(certificate).set(ends_s)

    def _handshake_ended(self, outcome: Outcome, more: str) -> None:
        """Count it, and say why a client was refused, each cause at most once in ten seconds."""
        self._telemetry.tls_handshake(outcome)
        if outcome is Outcome.ACCEPTED:
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._said_at_s.get(outcome, -_SAID_AGAIN_S) < _SAID_AGAIN_S:
            self._left_out += 1
            return
        self._said_at_s[outcome] = now_s
        fields = {"outcome": outcome.value, "left_out": self._left_out}
        self._left_out = 0
        _log.warning("a connection was refused: %s", more, extra={"fields": fields})
