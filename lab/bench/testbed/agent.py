"""What runs inside a node: answers probes, sends them, and is a rank of training jobs.

Started by `lab.bench.child`; one JSON command per line of standard input, one JSON answer per line of
standard output; the end of input is the end of the process.
"""

import json
import socket
import sys
from typing import Any

import msgspec

from lab.bench.child import say
from lab.bench.testbed.model import Job
from lab.bench.testbed.nodes import small_packets_only
from lab.bench.testbed.probing import Listening, measured_bps, send_packets
from lab.bench.testbed.wire import prefer_cubic
from lab.bench.testbed.worker import Rank


class Agent:
    """The commands by name."""

    def __init__(self, node: str, address: str) -> None:
        self._node = node
        self._address = address
        self._listening = Listening(address)
        self._rank: Rank | None = None

    def send(self, given: dict[str, Any]) -> Any:
        """Send probe packets to all targets in turn."""
        send_packets(self._node, given["targets"], run=given["run"], count=given["count"], gap_s=given["gap_s"])
        return None

    def seen(self, given: dict[str, Any]) -> Any:
        """What came of a run of probe packets: source → [received, least delay in ms]."""
        return self._listening.seen(given["run"])

    def throughput(self, given: dict[str, Any]) -> Any:
        """Bits per second to an address; None: no connection."""
        return measured_bps(given["to"], warm_up_s=given["warm_up_s"], seconds=given["seconds"])

    def congestion(self, given: dict[str, Any]) -> Any:
        """Name of the congestion control that connections here use."""
        with socket.socket() as one:
            return prefer_cubic(one)

    def listen(self, given: dict[str, Any]) -> Any:
        """Be a rank of a job."""
        self.close(given)
        self._rank = Rank(msgspec.convert(given["job"], Job), given["rank"])
        self._rank.listen()
        return None

    def connect(self, given: dict[str, Any]) -> Any:
        """Connect to the other ranks; None, or why not all came."""
        assert self._rank is not None
        try:
            self._rank.connect()
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def train(self, given: dict[str, Any]) -> Any:
        """Train; what came of it."""
        assert self._rank is not None
        return msgspec.to_builtins(self._rank.train())

    def close(self, given: dict[str, Any]) -> Any:
        """Be no rank any more."""
        if self._rank is not None:
            self._rank.close()
        self._rank = None


def main() -> None:
    """Answer commands until the input ends."""
    node, address = sys.argv[1:]
    small_packets_only()
    agent = Agent(node, address)
    say({"ok": None})
    for line in sys.stdin:
        given = json.loads(line)
        try:
            answer = {"ok": getattr(agent, given.pop("do"))(given)}
        except (OSError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(answer)


if __name__ == "__main__":
    main()
