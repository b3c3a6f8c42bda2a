"""Throughput of one link: iperf3 in a process of its own, as netgang orders it, as its server or its client.

Rules: one at a time, `PAUSE_S` between two, whatever netgang orders. `timeout` (coreutils) ends each process at its
limit even if the agent is stopped. A server takes one client, and is ended if that has another address than the
assigned one or stays longer than a burst: each half second it writes what goes on. The client measures both directions
at once (`--bidir`).
"""

import json
import math
import os
import shutil
import subprocess
from contextlib import suppress
from ipaddress import ip_address
from logging import getLogger
from typing import Any, Final

from probe.documents import Burst

PAUSE_S: Final = 5.0
_CONNECT_S: Final = 2.0
_MOST_OUTPUT_BYTES: Final = 1 << 16  # What a pipe holds; iperf3 writes about 10 kB with five intervals, at its end
_MOST_BPS: Final = 1e15
_MOST_TEXT: Final = 200
_log = getLogger("netgang.probe")


class BurstRunner:
    """Runs bursts for the agent at `address`. The loop calls `step`; `said` is for the next report."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._has_it: bool | None = None
        self.process: subprocess.Popen[bytes] | None = None  # Of the burst that runs
        self._order: Burst | None = None
        self._output = b""
        self._client_until_s: float | None = None
        self._free_s = float("-inf")
        self._result: dict[str, Any] | None = None
        self._given: dict[str, Any] | None = None

    def said(self) -> dict[str, Any]:
        """Fields of a report: whether there is iperf3, and the last result until it was taken."""
        if self._has_it is None:
            self._has_it = shutil.which("iperf3") is not None and shutil.which("timeout") is not None
            if not self._has_it:
                _log.warning("iperf3 is not installed here: throughput is not measured")
        self._given = self._result
        return {"iperf3": self._has_it} | ({"burst": self._result} if self._result is not None else {})

    def taken(self) -> None:
        """Netgang has what the last report said."""
        if self._given is self._result:
            self._result = None

    def start(self, order: Burst, now_s: float) -> None:
        """Run this, instead of a server that still waits; `now_s` is monotonic."""
        if now_s < self._free_s:
            self._failed(order, "another burst has just been here")
            return
        self.close()
        self._free_s = now_s + PAUSE_S
        self._order, self._output, self._client_until_s = order, b"", None
        try:
            self.process = subprocess.Popen(  # noqa: S603 - checked numbers and addresses, no shell
                command(order, self._address), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._failed(order, f"iperf3 cannot be started: {error}")
            return
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    def step(self, now_s: float) -> None:
        """Look after the process. Cost: a read that does not wait; nothing without a process."""
        process, order = self.process, self._order
        if process is None or order is None:
            return
        ended = process.poll() is not None
        assert process.stdout is not None
        with suppress(BlockingIOError):
            while len(self._output) < _MOST_OUTPUT_BYTES:
                if not (more := os.read(process.stdout.fileno(), _MOST_OUTPUT_BYTES)):
                    break
                self._output += more
        if order.server and not ended:
            if self._client_until_s is None and b"Accepted connection from" in self._output:
                self._client_until_s = now_s + order.seconds + _CONNECT_S
                if f"Accepted connection from {order.address},".encode() not in self._output:
                    _log.warning("a stranger came to the burst's server: ended")
                    ended = True
            ended |= self._client_until_s is not None and now_s > self._client_until_s
        if ended:
            self.close()
            self._free_s = now_s + PAUSE_S
            if not order.server:
                self._result = {"id": order.id} | figures(self._output)

    def close(self) -> None:
        """End the process, if there is one. `timeout` passes the signal on, and kills a second later."""
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(1.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _failed(self, order: Burst, error: str) -> None:
        if not order.server:
            self._result = {"id": order.id, "error": error[:_MOST_TEXT]}


def command(order: Burst, own: str) -> list[str]:
    """What is run, at the agent's own address.

    >>> " ".join(command(Burst("x", False, "10.0.0.2", 8863, 3.0, 1000, 60.0), "10.0.0.1"))
    'timeout -s INT -k 1 3 iperf3 -p 8863 -B 10.0.0.1 -c 10.0.0.2 -n 1000 --bidir -J -i 0.6 --connect-timeout 2000'
    >>> " ".join(command(Burst("x", True, "10.0.0.1", 8863, 3.0, 1000, 60.0), "0.0.0.0"))
    'timeout -k 1 63 iperf3 -p 8863 -s -1 -i 0.5 --forceflush'
    """
    at = ["iperf3", "-p", str(order.port), *([] if ip_address(own).is_unspecified else ["-B", own])]
    if order.server:
        return ["timeout", "-k", "1", f"{order.wait_s + order.seconds:g}", *at, "-s", "-1", "-i", "0.5", "--forceflush"]
    at += ["-c", order.address, "-n", str(order.size_bytes), "--bidir", "-J", "-i", f"{order.seconds / 5.0:g}"]
    limit = ["timeout", "-s", "INT", "-k", "1", f"{order.seconds:g}"]
    return [*limit, *at, "--connect-timeout", f"{_CONNECT_S * 1000.0:.0f}"]


def figures(output: bytes) -> dict[str, Any]:
    """Bits per second of a client's JSON, to the server (`sent_bps`) and from it; or `error`.

    They are the receivers'. A burst that its time ended has none: its intervals count, but the first (buffers fill).
    """
    try:
        answer = json.loads(output)
        error = answer.get("error")
        if error and not error.startswith("interrupt"):
            return {"error": str(error)[:_MOST_TEXT]}
        if error:
            ways = [[interval[name] for interval in answer["intervals"]] for name in ("sum", "sum_bidir_reverse")]
            ways = [way[1:] or way for way in ways]
            rates = [8.0 * sum(span["bytes"] for span in way) / sum(span["seconds"] for span in way) for way in ways]
        else:
            rates = [
                float(answer["end"][name]["bits_per_second"]) for name in ("sum_received", "sum_received_bidir_reverse")
            ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ZeroDivisionError) as problem:
        return {"error": f"iperf3's answer cannot be read: {type(problem).__name__}"}
    if not all(math.isfinite(rate) and 0.0 <= rate <= _MOST_BPS for rate in rates):
        return {"error": "iperf3 gave no rates"}
    return {"sent_bps": round(rates[0]), "received_bps": round(rates[1])}
