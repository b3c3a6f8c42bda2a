"""The exchange with netgang: one POST at a time, in a thread, so that no slow answer delays a packet.

Rules: a connection is kept while reports are taken, because a TLS handshake costs netgang more than a report; after
anything else it is closed, so that a Service sends the next report to the new leader. No redirect is followed and no
proxy asked, so the token goes nowhere else; the token file is read each time, the authority's file when a connection is
opened. Answers are bounded, and so is the time for each read and for all of it.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from ssl import SSLError, create_default_context
from typing import Final
from urllib.parse import urlsplit

from probe.documents import MOST_ANSWER_BYTES, Assignment, AssignmentError, read_assignment

PATH: Final = "/v1/probe"
_TIMEOUT_S: Final = 5.0  # For connecting and for each read
_LONGEST_S: Final = 15.0  # For an exchange as a whole
_LONGEST_TEXT: Final = 300
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one exchange: an assignment, or why there is none."""

    assignment: Assignment | None = None
    error: str = ""
    retry_after_s: float = 0.0


def pause_s(failures: int, *, chance: float) -> float:
    """Time until the next try after so many failures in a row; `chance` is from 0 to 1 and spreads many agents.

    >>> [pause_s(failures, chance=1.0) for failures in (1, 2, 3, 99)]
    [1.0, 2.0, 4.0, 60.0]
    """
    return min(_FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE_S) * (0.5 + 0.5 * chance)


class Exchange:
    """Posts reports to netgang in a thread. `submit` only when `is_free`; `outcome` is there once for each.

    Errors: ValueError for an address that is none.
    """

    def __init__(self, url: str, *, token_file: Path, ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f"{url!r} is no address such as https://netgang.netgang-system.svc:8891")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/") + PATH
        self._token_file = token_file
        self._ca_file = ca_file
        self._open: HTTPConnection | None = None
        self._broken_off = False
        self._thread: threading.Thread | None = None  # Of the post whose outcome was not asked for
        self._outcome = Outcome()
        self._from_s = 0.0

    @property
    def is_free(self) -> bool:
        """Whether the outcome of the last post was taken."""
        return self._thread is None

    def submit(self, body: bytes, *, now_s: float) -> None:
        """Post this, without waiting; `now_s` is monotonic."""

        def work() -> None:
            self._outcome = self.post(body)

        self._from_s = now_s
        self._thread = threading.Thread(target=work, name="netgang-probe-exchange", daemon=True)
        self._thread.start()

    def outcome(self, *, now_s: float) -> Outcome | None:
        """That of the last post; `None`: it is under way, or was asked for. One that takes too long is broken off."""
        if self._thread is None or self._thread.is_alive():
            if self._thread is not None and now_s - self._from_s > _LONGEST_S:
                self._abort()
            return None
        self._thread = None
        return self._outcome

    def post(self, body: bytes) -> Outcome:
        """Send a report. Errors: none; whatever goes wrong is the outcome."""
        taken = self._broken_off = False
        try:
            token = self._token_file.read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            answer = self._answer(body, headers)
            content = answer.read(MOST_ANSWER_BYTES + 1)
            if answer.status != 200:
                text = content[:_LONGEST_TEXT].decode(errors="replace")
                return Outcome(None, f"{answer.status} {text!r}", _seconds(answer.getheader("Retry-After")))
            assignment = read_assignment(content)
            taken = True
            return Outcome(assignment)
        except (OSError, HTTPException, AssignmentError, ValueError) as error:
            return Outcome(error=f"{type(error).__name__}: {error}"[:_LONGEST_TEXT])
        finally:
            if not taken:
                self.close()

    def close(self) -> None:
        """End the connection, if there is one; not while a post is under way."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    def _answer(self, body: bytes, headers: Mapping[str, str]) -> HTTPResponse:
        """The answer's head; on a new connection if the kept one was closed meanwhile. Errors: those of http.client."""
        if (connection := self._open) is not None and connection.sock is not None:
            with suppress(ConnectionError, SSLError):  # RemoteDisconnected is a ConnectionError
                connection.request("POST", self._path, body, headers)
                return connection.getresponse()
            self.close()
            if self._broken_off:
                raise TimeoutError("broken off")
        if self._secure:
            trusted = create_default_context(cafile=self._ca_file)
            self._open = HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_S, context=trusted)
        else:
            self._open = HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        self._open.request("POST", self._path, body, headers)
        return self._open.getresponse()

    def _abort(self) -> None:
        """Break off the post that is under way in another thread; it fails."""
        self._broken_off, connection = True, self._open
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)


def _seconds(text: str | None) -> float:
    try:
        return min(max(float(text or 0.0), 0.0), _LONGEST_PAUSE_S)
    except ValueError:
        return 0.0
