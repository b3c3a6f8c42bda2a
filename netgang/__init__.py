"""Report a training loop's progress to netgang: `netgang.report(step=100, loss=0.5)`; see docs/how-to/reporting.md.

Rule: training never waits: no call raises or waits for the network, and without NETGANG_REPORT_URL none does
anything. One short-lived thread at a time sends what has come together; what cannot be sent is dropped. The end of the
process waits for that thread, a second at most.
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

_URL, _TOKEN = "NETGANG_REPORT_URL", "/var/run/secrets/kubernetes.io/serviceaccount/token"
_THREAD = "netgang-report"
_pending: "deque[dict[str, float]]" = deque(maxlen=256)
_sending, _hurry, _known = threading.Lock(), threading.Event(), threading.Event()  # known: that this process began


def report(*, step: int, loss: float, **more: "float | None") -> None:
    """Take one point (also `samples_per_second`, `accuracy`, `workers`) and return at once; float() is used on all."""
    try:
        values = {name: float(value) for name, value in {"loss": loss, **more}.items() if value is not None}
        if os.environ.get(_URL) and all(abs(value) < 1e300 for value in values.values()):  # not so for NaN
            _pending.append({**values, "step": int(step), "time": time.time()})  # noqa: TID251 - the job's own clock
            if _sending.acquire(blocking=False):
                threading.Thread(target=_send, name=_THREAD, daemon=True).start()
    except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
        getLogger(__name__).warning("not reported: %r", error)


def flush(timeout_s: float = 5.0) -> None:
    """At the end of training: wait until everything is sent, about `timeout_s` at most."""
    _hurry.set()
    if _sending.acquire(timeout=max(timeout_s, 0.0)):
        _send()
    _hurry.clear()


@atexit.register
def _end() -> None:
    # A process that ends while OpenSSL works in another thread crashes; a second is enough for its work
    _pending.clear()
    _hurry.set()
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join(1.0)


def _send() -> None:
    while _pending:
        points, url = [_pending.popleft() for _ in range(len(_pending))], os.environ.get(_URL, "")
        try:
            token = Path(os.environ.get("NETGANG_TOKEN_FILE", _TOKEN)).read_text().strip()
            body = json.dumps({"restarted": not _known.is_set(), "points": points}).encode()
            handler: http.BaseHandler = http.HTTPHandler()
            if url.startswith("https:"):
                handler = http.HTTPSHandler(context=create_default_context(cafile=os.environ.get("NETGANG_CA_FILE")))
            opener = http.OpenerDirector()  # follows no redirect and asks no proxy: the token goes nowhere else
            opener.add_handler(handler)
            asked = http.Request(url, body, {"authorization": f"Bearer {token}"})  # noqa: S310 - http or nothing
            with opener.open(asked, timeout=2.0) as answer:
                if answer.status >= 300:
                    raise OSError(f"{answer.status} {answer.read(500)!r}")
            _known.set()
        except Exception as error:  # noqa: BLE001 - as above
            getLogger(__name__).warning("not reported: %r", error)
            _hurry.wait(9.0)
        _hurry.wait(1.0)  # what comes meanwhile goes together
    _sending.release()
