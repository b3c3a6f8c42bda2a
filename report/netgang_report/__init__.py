"""Report a training loop's progress to netgang: `report(step=100, loss=0.5)`; see docs/how-to/elastic-and-reports.md.

Rule: training never waits and never fails: no call but `flush` waits, none raises, and without an address none does
anything. One short-lived thread at a time sends what has come together; what cannot be sent is dropped. The end of the
process waits for that thread, a second at most. The standard library alone, of Python 3.8 or newer.
"""

import atexit
import json
import os
import threading
import time
import urllib.request as http
from collections import deque
from logging import getLogger
from pathlib import Path
from ssl import create_default_context
from typing import Deque, Dict, Optional, SupportsFloat
from weakref import WeakSet

__all__ = ["Reporter", "StepReporter", "flush", "report"]

_THREAD = "netgang-report"
_POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
_MOST_POINTS = 256  # of one request, as netgang takes them; older ones are dropped
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 300.0  # between requests that failed, doubled each time
_WARN_EVERY_S = 60.0

_reporters: "WeakSet[Reporter]" = WeakSet()


class Reporter:
    """Sends points to one job's address, at most one request in `interval_s` seconds; safe in several threads.

    Without an argument the environment decides, read at each request: NETGANG_REPORT_URL, NETGANG_TOKEN_FILE (default:
    the pod's service account), NETGANG_CA_FILE. `timeout_s` bounds connecting and each read.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        timeout_s: float = 2.0,
        interval_s: float = 1.0,
    ) -> None:
        self._given = {"NETGANG_REPORT_URL": url, "NETGANG_TOKEN_FILE": token_file, "NETGANG_CA_FILE": ca_file}
        self._timeout_s, self._interval_s = timeout_s, interval_s
        self._known = False  # Whether netgang has heard of this process: until then a report says that it (re)started
        self._warn_from_s = float("-inf")
        self._reset()
        _reporters.add(self)

    def _reset(self) -> None:
        self._pending: Deque[Dict[str, float]] = deque(maxlen=_MOST_POINTS)
        self._starting = threading.Lock()
        self._sender: Optional[threading.Thread] = None
        self._hurry = threading.Event()
        self._failures = 0

    def report(self, *, step: int, loss: float, **more: Optional[float]) -> bool:
        """Take one point (also `samples_per_second`, `compute_ratio`, `workers`) and return at once; never raises.

        float() is called on all values. `False`: there is no address, or a value is no finite number.
        """
        try:
            values = {name: float(value) for name, value in more.items() if value is not None}
            values["loss"] = float(loss)
            finite = all(abs(value) < 1e300 for value in values.values())  # not so for NaN
            if finite and self._setting("NETGANG_REPORT_URL"):
                self._pending.append({**values, "step": int(step), "time": time.time()})  # noqa: TID251 - the job's clock
                self._ensure_sender()
                return True
        except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
            self._warn(error)
        return False

    def flush(self, timeout_s: float = 5.0) -> bool:
        """At the end of training: wait until all is sent, `timeout_s` at most; whether it was. Never raises."""
        try:
            until_s = time.monotonic() + timeout_s
            self._hurry.set()
            while True:
                if (sender := self._ensure_sender()) is None:
                    return not self._failures
                sender.join(max(until_s - time.monotonic(), 0.0))
                if sender.is_alive():
                    return False
        except Exception as error:  # noqa: BLE001 - as above
            self._warn(error)
            return False
        finally:
            self._hurry.clear()

    def _setting(self, name: str, default: str = "") -> str:
        return self._given[name] or os.environ.get(name) or default

    def _ensure_sender(self) -> Optional[threading.Thread]:
        """The thread that sends, started if there is something to send; none: nothing is left to send."""
        with self._starting:
            if self._sender is None and self._pending:
                sender = threading.Thread(target=self._send, name=_THREAD, daemon=True)
                sender.start()
                self._sender = sender
            return self._sender

    def _send(self) -> None:
        while True:
            with self._starting:
                if not (points := [self._pending.popleft() for _ in range(len(self._pending))]):
                    self._sender = None
                    return
            try:
                self._post(points)
                self._known, self._failures = True, 0
                pause_s = self._interval_s
            except Exception as error:  # noqa: BLE001 - as above
                pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(self._failures, 10), _LONGEST_PAUSE_S)
                self._failures += 1
                self._warn(error)
            self._hurry.wait(pause_s)  # what comes meanwhile goes together

    def _post(self, points: "list[Dict[str, float]]") -> None:
        """One request. OSError and others: it was not accepted."""
        url = self._setting("NETGANG_REPORT_URL")
        token = Path(self._setting("NETGANG_TOKEN_FILE", _POD_TOKEN)).read_text().strip()
        body = json.dumps({"restarted": not self._known, "points": points}).encode()
        handler: http.BaseHandler = http.HTTPHandler()
        if url.startswith("https:"):
            handler = http.HTTPSHandler(context=create_default_context(cafile=self._setting("NETGANG_CA_FILE") or None))
        opener = http.OpenerDirector()  # follows no redirect and asks no proxy: the token goes nowhere else
        opener.add_handler(handler)
        request = http.Request(url, body, {"authorization": f"Bearer {token}"})  # noqa: S310 - http or nothing
        with opener.open(request, timeout=self._timeout_s) as answer:
            if answer.status >= 300:
                raise OSError(f"{answer.status} {answer.read(500)!r}")

    def _warn(self, error: Exception) -> None:
        now_s = time.monotonic()
        if now_s >= self._warn_from_s:
            self._warn_from_s = now_s + _WARN_EVERY_S
            getLogger("netgang_report").warning("not reported: %r", error)


DEFAULT = Reporter()  # Of the whole process, so that only its first report says that the job (re)started
report = DEFAULT.report
flush = DEFAULT.flush


class StepReporter:
    """Step, loss and samples per second of every `every`-th step of a loop; ranks other than 0 report nothing.

    In a callback of Keras, Lightning or Hugging Face's Trainer call `step` where a batch ends, and `close` at the end.
    Steps go on over epochs; after a restart say which step the checkpoint has (`first_step`).
    """

    def __init__(
        self,
        *,
        batch_size: int,
        world_size: int = 1,
        rank: int = 0,
        every: int = 10,
        first_step: int = 0,
        reporter: Optional[Reporter] = None,
    ) -> None:
        self._samples = batch_size * world_size
        self._reports = rank == 0
        self._every = every
        self._reporter = DEFAULT if reporter is None else reporter
        self._step = first_step
        self._since = (first_step, time.perf_counter())

    def step(self, loss: SupportsFloat) -> None:
        """One step of all ranks is done. The loss is whatever float() takes; it is read at reported steps only."""
        self._step += 1
        if self._step % self._every != 0 or not self._reports:
            return
        step, at_s = self._since
        self._since = (self._step, time.perf_counter())
        speed = (self._step - step) * self._samples / max(self._since[1] - at_s, 1e-9)
        # float() of a tensor waits for the GPU and may raise: report does it, and never raises
        self._reporter.report(
            step=self._step,
            loss=loss,  # type: ignore[arg-type]
            samples_per_second=speed or None,
        )

    def close(self) -> None:
        """Let the last points arrive."""
        if self._reports:
            self._reporter.flush()


@atexit.register
def _end() -> None:
    # A process that ends while OpenSSL works in another thread crashes; a second is enough for its work.
    for reporter in list(_reporters):
        reporter._pending.clear()
        reporter._hurry.set()
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join(1.0)


if hasattr(os, "register_at_fork"):  # not on Windows
    # A data loader's process has neither the thread nor, perhaps, an open lock.
    os.register_at_fork(after_in_child=lambda: list(map(Reporter._reset, list(_reporters))))
