"""The agent's loop: measure in steps, exchange reports for assignments, end when asked.

Rules: the first exchange is at once, for there is nothing to measure before it; what netgang did not take goes with the
next report (`probe.session`); an assignment that was not renewed for `KEEP_S` ends, so that an agent without netgang
does not go on sending and answering. One line in the log for each change, at most one a minute for what repeats.
"""

import random
import select
import socket
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from logging import getLogger
from typing import Final

from probe import documents
from probe.burst import BurstRunner
from probe.documents import Assignment
from probe.exchange import Exchange, pause_s
from probe.prober import SPREAD, Prober
from probe.session import MOST_WINDOWS, Window, links_of
from probe.udp import MachineClock, UdpSocket, clock_error

KEEP_S: Final = 900.0
_LEAST_S: Final = 1.0  # Between two reports that netgang takes; counted from its answer, as it took the last one before
_WARN_EVERY_S: Final = 60.0
_log = getLogger("netgang.probe")


@dataclass(eq=False)
class ProbeAgent:
    """Measures and reports until `stop` can be read."""

    node: str
    clock: MachineClock
    answering: UdpSocket
    asking: UdpSocket
    exchange: Exchange
    bursts: BurstRunner
    stop: socket.socket

    def __post_init__(self) -> None:
        self._chance = random.Random()  # noqa: S311 - spreads agents
        self._prober = Prober(self.clock, self.answering, self.asking)
        self._unreported: deque[Mapping[str, Window]] = deque(maxlen=MOST_WINDOWS)
        self._memory = ""  # What netgang said last is to be kept for the next leader
        self._resends = False
        self._throughput = False
        self._since_s = self.clock.unix_ns() / 1e9
        self._sequence = 0
        self._report_s = self._reported_s = self._assigned_s = self.clock.monotonic_s()
        self._failures = 0
        self._works = False
        self._warn_from_s = float("-inf")

    def run(self) -> None:
        """The loop. Cost: twenty steps a second at most."""
        grid_s = self.clock.monotonic_s()
        while True:
            grid_s += self._prober.step_s
            wait_s = grid_s + self._prober.step_s * self._chance.uniform(0.0, SPREAD) - self.clock.monotonic_s()
            if select.select([self.stop], [], [], max(wait_s, 0.0))[0]:
                return
            now_s = self.clock.monotonic_s()
            self._prober.step()
            if self.bursts.process is not None:  # its queues are full of iperf3's packets
                self._prober.doubt()
            self._exchanged(now_s)
            self.bursts.step(now_s)
            if now_s >= self._report_s and self.exchange.is_free:
                self._report(now_s)
            grid_s = max(grid_s, now_s - self._prober.step_s)  # steps that were missed are not made up for

    def _report(self, now_s: float) -> None:
        error_s, synchronized = clock_error()
        self._prober.set_clock_error(error_s, synchronized=synchronized)
        self._unreported.append(self._prober.close())
        self._sequence += 1
        self._reported_s = now_s
        body = documents.report(
            node=self.node, since_s=self._since_s, sequence=self._sequence, reflector_port=self.answering.port,
            links=links_of(self._unreported), **({"memory": self._memory} if self._resends else {}),
            **(self.bursts.said() if self._throughput else {}),
        )  # fmt: skip
        self.exchange.submit(body, now_s=now_s)

    def _exchanged(self, now_s: float) -> None:
        outcome = self.exchange.outcome(now_s=now_s)
        if outcome is None:
            if now_s - self._assigned_s > KEEP_S and self._prober.targets:
                _log.warning("no assignment for %g s: the agent measures and answers nothing until one comes", KEEP_S)
                self._prober.assign(Assignment())
            return
        if outcome.assignment is None:
            self._failures += 1
            pause = max(pause_s(self._failures, chance=self._chance.random()), outcome.retry_after_s)
            self._report_s = now_s + pause
            if self._works or now_s >= self._warn_from_s:
                self._warn_from_s = now_s + _WARN_EVERY_S
                _log.warning("netgang did not take the report, next try in %.1f s: %s", pause, outcome.error)
            self._works = False
            return
        resend, resent = outcome.assignment.resend, self._resends
        if resent or not resend:  # a new leader takes windows of links only together with what is known of them
            self._unreported.clear()  # all of it was in the report: the next is made once this one's outcome is here
        self._resends = resend
        self._failures, self._assigned_s = 0, now_s
        interval_s = outcome.assignment.interval_s
        if self._sequence == 1 or (resent and not resend):  # agents that started together shall not report together
            interval_s *= self._chance.uniform(0.5, 1.0)
        self._report_s = max(self._reported_s + interval_s, now_s + _LEAST_S)
        self.bursts.taken()
        if not resend:
            self._prober.assign(outcome.assignment)
            self._memory = outcome.assignment.memory
            self._throughput = outcome.assignment.throughput
            if outcome.assignment.burst is not None:
                self.bursts.start(outcome.assignment.burst, now_s)
        if not self._works:
            _log.info("netgang takes reports; %d peers are assigned", len(self._prober.targets))
        self._works = True
