"""Bursts of throughput: begin one when none runs, give it to both agents, take the client's result or let it lapse.

Why a clock for each step: an answer may be lost, an agent gone, netgang replaced. Rules:
- The server gets its order first, the client a second later at the earliest and only if no gang came to the nodes
  meanwhile; each with its next report. A burst that is not done by its limit lapses, and the next one follows.
- A result counts if it has the burst's id, which is random, comes from the client's agent, and is at most `max_bps`.
- A leader begins its first burst once the last one of another leader must have ended.
- While a burst may run, its two agents say nothing of other links (`disturbs`): it fills their queues.
- Which pair is next is `scoring.probing.bursts`; what is remembered is 48 hours of bursts and of values.
"""

import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from extender.ports import Clock
from extender.schemas.probe import BurstResult, ProbeBurst
from scoring.ids import NodeName, ZoneName
from scoring.probing.bursts import KEPT_S, BurstLimits, BurstReason, BurstView, PastBurst, next_burst

PORTS: Final = range(8863, 8871)  # TCP, for NetworkPolicy: one at random for each burst
_LATE_INTERVALS: Final = 2.5
_SERVER_FIRST_S: Final = 1.0  # The server listens long before the client asks
_PAUSE_S: Final = 6.0  # Between two bursts; agents refuse one within 5 s of the last
_START_S: Final = 20.0  # A late answer to the client (15 s at most), and connecting

_log = logging.getLogger("netgang.probe")


@dataclass(frozen=True, slots=True)
class BurstOptions:
    """How large a burst is, and how many there are."""

    seconds: float = 3.0
    size_bytes: int = 500_000_000  # Of each direction
    max_bps: float = 4e11
    limits: BurstLimits = field(default_factory=BurstLimits)


@dataclass(slots=True)
class _Running:
    """A burst that was started; it lapses at `until_s`."""

    id: str
    server: NodeName
    client: NodeName
    port: int
    until_s: float
    server_at_s: float | None = None  # When the agents got their orders
    client_at_s: float | None = None


class Bursts:
    """One burst at a time; one writer, on the loop."""

    def __init__(
        self,
        clock: Clock,
        options: BurstOptions,
        *,
        with_gangs: Callable[[], AbstractSet[NodeName]],
        first: Callable[[], AbstractSet[ZoneName]] = frozenset,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`with_gangs`: nodes where gangs run or start; `first`: zones of waiting gangs; `count`: of each outcome."""
        self._clock, self._options = clock, options
        self._with_gangs, self._first, self._count = with_gangs, first, count
        self._late_s = 0.0  # An agent that does not report for so long is not waited for
        self._run_s = 0.0  # From the client's order to the end
        self._from_s: float | None = None
        self._running: _Running | None = None
        self._past: deque[PastBurst] = deque()
        self._values: dict[tuple[NodeName, NodeName], tuple[float, float]] = {}  # (from, to) → bits a second, when
        self._disturbed: dict[NodeName, float] = {}  # node → until when its agent says nothing of other links
        self._reason: BurstReason | None = None

    def look(self, zone_of: Mapping[NodeName, ZoneName], able: AbstractSet[NodeName], *, interval_s: float) -> None:
        """End a burst whose time is up, begin the next. `zone_of`: all nodes; `able`: those whose agent has iperf3.

        `interval_s`: between two reports of one agent. Cost: O(bursts of 48 h + n log n).
        """
        self._late_s = _LATE_INTERVALS * interval_s
        self._run_s = _START_S + self._options.seconds + self._late_s
        now_s = self._clock.now_s()
        if self._from_s is None:
            self._from_s = now_s + 2.0 * self._late_s + self._run_s
        self._forget_old(zone_of, now_s=now_s)
        running = self._running
        if running is not None and now_s >= running.until_s:
            self._end("lapsed")
        if now_s < self._from_s:
            return
        view = BurstView({node: zone_of[node] for node in able if node in zone_of}, self._with_gangs(), self._first())
        limits = self._options.limits
        pair, reason = next_burst(view, self._past, limits, running=self._running is not None, now_s=now_s)
        if pair is None:
            if reason not in (self._reason, BurstReason.RUNNING):
                self._reason = reason
                _log.info("probe: no throughput is measured now: %s", reason)
            return
        self._reason = reason
        self._past.append(PastBurst(pair, now_s, False))
        self._running = _Running(secrets.token_hex(8), pair[0], pair[1], secrets.choice(PORTS), now_s + self._late_s)

    def order(self, node: NodeName, addresses: Callable[[NodeName], str | None]) -> ProbeBurst | None:
        """What the agent of this node is to run now, once."""
        one, now_s = self._running, self._clock.now_s()
        if one is None or now_s >= one.until_s or node not in (one.server, one.client):
            return None
        peer = one.client if node == one.server else one.server
        address = addresses(peer)
        if address is None:
            return None
        if not self._options.limits.beside_gangs and not self._with_gangs().isdisjoint((node, peer)):
            if one.client_at_s is None:
                self._end("withdrawn")
            return None
        if node == one.server and one.server_at_s is None:
            one.server_at_s, one.until_s = now_s, now_s + self._late_s
        elif (
            node == one.client
            and one.client_at_s is None
            and one.server_at_s is not None
            and now_s >= one.server_at_s + _SERVER_FIRST_S
        ):
            one.client_at_s, one.until_s = now_s, now_s + self._run_s
            self._disturbed.update(dict.fromkeys((node, peer), now_s + _START_S + self._options.seconds))
        else:
            return None
        options = self._options
        return ProbeBurst(
            one.id, node == one.server, address, one.port, options.seconds, options.size_bytes,
            wait_s=self._late_s + _START_S,
        )  # fmt: skip

    def take(self, node: NodeName, said: BurstResult) -> None:
        """A result in a report of this node's agent; one that is not expected is counted and changes nothing."""
        one, now_s = self._running, self._clock.now_s()
        if one is None or node != one.client or said.id != one.id or one.client_at_s is None or now_s >= one.until_s:
            self._count("not expected")
            return
        figures = {(one.client, one.server): said.sent_bps, (one.server, one.client): said.received_bps}
        known = {ends: bps for ends, bps in figures.items() if bps}
        if said.error or not known:
            _log.info("probe: throughput of %s and %s was not measured: %r", one.client, one.server, said.error)
            self._end("failed")
        elif max(known.values()) > self._options.max_bps:
            self._end("impossible")
        else:
            self._values |= {ends: (bps, now_s) for ends, bps in known.items()}
            self._past[-1] = self._past[-1]._replace(measured=True)
            self._end("measured")

    def disturbs(self, node: NodeName, *, since_s: float) -> bool:
        """Whether a burst may have run on the node since then."""
        return self._disturbed.get(node, since_s) > since_s

    def values(self) -> Iterator[tuple[NodeName, NodeName, float, float]]:
        """(from, to, bits a second, when) of each direction known."""
        return ((*ends, bps, at_s) for ends, (bps, at_s) in self._values.items())

    def forget(self) -> None:
        """Forget everything: another replica leads now, or we begin to."""
        self._from_s = self._running = self._reason = None
        for kept in (self._past, self._values, self._disturbed):
            kept.clear()

    def _end(self, outcome: str) -> None:
        one, self._running, now_s = self._running, None, self._clock.now_s()
        self._from_s = now_s + _PAUSE_S
        if one is not None and one.client_at_s is not None and outcome != "lapsed":
            self._disturbed.update(dict.fromkeys((one.server, one.client), now_s))
        self._count(outcome)

    def _forget_old(self, zone_of: Mapping[NodeName, ZoneName], *, now_s: float) -> None:
        since_s = now_s - KEPT_S
        while self._past and self._past[0].at_s <= since_s:
            self._past.popleft()
        for ends in [
            ends for ends, (_, at_s) in self._values.items() if at_s <= since_s or not zone_of.keys() >= {*ends}
        ]:
            del self._values[ends]
        for node, until_s in list(self._disturbed.items()):
            if until_s < now_s - self._run_s:
                del self._disturbed[node]
