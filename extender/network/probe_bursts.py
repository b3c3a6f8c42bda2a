"""Bursts of throughput: one at a time, each given to both agents; the client's result counts, or the burst lapses.

Rules:
- The next pairs are chosen ahead, and their agents report often until their burst is over (`due_in_s`).
- The server gets its order first, the client a second later at the earliest and only if no gang came to the nodes
  meanwhile; each with its report. A burst that is not done by its limit lapses.
- A result counts if it has the burst's id, which is random, comes from the client's agent, and is at most `MAX_BPS`.
- A leader begins its first burst once the last one of another leader must have ended.
- netgang has no database: an agent keeps what is known of its node's bursts for the next leader (`known`), signed, or
  the day's count would begin again.
"""

import logging
import secrets
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

import msgspec

from extender.ports import Clock
from extender.schemas import BurstResult, ProbeBurst
from scoring import EndpointId, Metric, NodeName, ZoneName
from scoring.network.measurement import Measurement
from scoring.probing.bursts import KEPT_S, BurstReason, BurstView, NextBurst, PastBurst, next_bursts
from scoring.probing.peers import Pair

MAX_BPS: Final = 4e11  # No link has more bits per second: a result above it is not taken
MOST_KNOWN: Final = 48  # Bursts of a node that the next leader is told of: those of `KEPT_S` at 24 a day
PORTS: Final = range(8863, 8871)  # TCP, for NetworkPolicy: one at random for each burst
_LATE_INTERVALS: Final = 2.5  # An agent that does not report for so long is not waited for
_AWAKE_S: Final = 3.0  # An agent that reported so recently knows that it is to report often
_SERVER_FIRST_S: Final = 1.0  # The server listens long before the client asks
_PAUSE_S: Final = 6.0  # Between two bursts of one node; its agent refuses one within 5 s of the last
_START_S: Final = 20.0  # A late answer to the client (15 s at most), and connecting
_SOON_S: Final = 1.2  # Least time in which an agent is asked to report again; it may do so once a second
_ORDER_S: Final = 6.0  # For both agents to fetch their orders
_COMING: Final = 4  # Pairs that are chosen ahead, each some milliseconds with many nodes

_log = logging.getLogger("netgang.probe")


class BurstOptions(msgspec.Struct, frozen=True):
    """How large a burst is, and how many there are."""

    seconds: float = 2.0
    size_bytes: int = 500_000_000  # Of each direction
    a_day: int = 24  # Of one node


class _Coming(msgspec.Struct):
    pair: Pair
    since_s: float


class _Running(msgspec.Struct):
    """A burst that was started; it lapses at `until_s`."""

    id: str
    server: NodeName
    client: NodeName
    port: int
    until_s: float
    server_at_s: float | None = None  # When the agents got their orders
    client_at_s: float | None = None


@dataclass(eq=False, repr=False)
class Bursts:
    """One burst at a time; one writer, on the loop."""

    clock: Clock
    options: BurstOptions
    _: KW_ONLY
    with_gangs: Callable[[], AbstractSet[NodeName]]  # Nodes where gangs run or start
    count: Callable[[str], None] = lambda _: None  # Of each outcome

    def __post_init__(self) -> None:
        self._run_s = _START_S + self.options.seconds + 2.0 * _SOON_S  # From the client's order to the end
        self._from_s: float | None = None  # None begins before that; `None`: this replica has not led yet
        self._running: _Running | None = None
        self._coming: list[_Coming] = []
        self._awake: dict[NodeName, float] = {}  # node that comes → when its agent reported last
        self._free: dict[NodeName, float] = {}  # node → from when its agent takes another burst
        self._past: list[PastBurst] = []  # In the order of time, the one that runs last
        self._ended: dict[NodeName, deque[PastBurst]] = {}  # node → the newest of its own
        self._values: dict[tuple[NodeName, NodeName], tuple[float, float]] = {}  # (from, to) → bits a second, when

    def question(
        self, zone_of: Mapping[NodeName, ZoneName], able: AbstractSet[NodeName], *, interval_s: float
    ) -> tuple[int, Callable[[], list[NextBurst]]]:
        """End a burst whose time is up. `able`: nodes with iperf3.

        Nodes and bursts to go through, and the work in which that finds the next pairs for `assign`: it may be done in
        a thread.
        """
        now_s = self.clock.now_s()
        if self._from_s is None:
            self._from_s = now_s + self._run_s
        since_s = now_s - KEPT_S
        del self._past[: bisect_right(self._past, since_s, key=lambda past: past.at_s)]
        self._ended = {node: bursts for node, bursts in self._ended.items() if node in zone_of}
        self._values = {
            ends: value for ends, value in self._values.items() if value[1] > since_s and zone_of.keys() >= {*ends}
        }
        self._free = {node: at_s for node, at_s in self._free.items() if at_s >= now_s}
        self._awake = {node: at_s for node, at_s in self._awake.items() if at_s > now_s - _AWAKE_S}
        view = BurstView({node: zone_of[node] for node in able if node in zone_of}, self.with_gangs())
        idle, late_s = view.zone_of.keys() - view.with_gangs, now_s - _LATE_INTERVALS * interval_s
        self._coming = [turn for turn in self._coming if turn.since_s > late_s and idle >= {*turn.pair}]
        self._turn()
        past = (*self._past, *(PastBurst(turn.pair, now_s) for turn in self._coming))
        count = _COMING - len(self._coming)
        work = partial(next_bursts, view, past, self.options.a_day, count, now_s)
        return count * (len(view.zone_of) + len(past)), work

    def assign(self, chosen: Sequence[NextBurst]) -> None:
        """Let these pairs have their turn: what `question` was answered."""
        for pair, reason in chosen:
            if pair is not None:
                place = 0 if reason in (BurstReason.SUSPECT, BurstReason.SLOW) else len(self._coming)
                self._coming.insert(place, _Coming(pair, self.clock.now_s()))
        self._turn()

    def _turn(self) -> None:
        """End a burst whose time is up, and begin the next whose agents are awake. Cost: O(pairs that come)."""
        now_s = self.clock.now_s()
        if self._running is not None and now_s >= self._running.until_s:
            self._end("lapsed")
        if self._running is not None or self._from_s is None or now_s < self._from_s:
            return
        for turn in self._coming:
            awake_s = min(self._awake.get(node, 0.0) for node in turn.pair)
            if awake_s > now_s - _AWAKE_S and all(self._free.get(node, 0.0) <= now_s for node in turn.pair):
                self._coming.remove(turn)
                self._past.append(PastBurst(turn.pair, now_s))
                self._running = _Running(secrets.token_hex(8), *turn.pair, secrets.choice(PORTS), now_s + _ORDER_S)
                return

    def due_in_s(self, node: NodeName) -> float | None:
        """In how many seconds the agent of this node, which reports now, is to report again; `None`: as usual."""
        run, now_s = self._running, self.clock.now_s()
        if run is not None and run.client_at_s is not None and node in (run.server, run.client):
            return max(run.client_at_s + self.options.seconds + _SOON_S - now_s, _SOON_S)
        if run is not None and node in (run.server, run.client):
            return _SOON_S
        self._awake.pop(node, None)
        if all(node not in turn.pair for turn in self._coming):
            return None
        self._awake[node] = now_s
        return _SOON_S

    def order(self, node: NodeName, addresses: Callable[[NodeName], str | None]) -> ProbeBurst | None:
        """What the agent of this node is to run now, once."""
        self._turn()
        run, now_s = self._running, self.clock.now_s()
        if run is None or now_s >= run.until_s or node not in (run.server, run.client):
            return None
        peer = run.client if node == run.server else run.server
        address = addresses(peer)
        if address is None:
            return None
        if not self.with_gangs().isdisjoint((node, peer)):
            if run.client_at_s is None:
                self._end("withdrawn")
            return None
        if node == run.server and run.server_at_s is None:
            run.server_at_s, run.until_s = now_s, max(run.until_s, now_s + _ORDER_S)
        elif node == run.server or run.client_at_s is not None or run.server_at_s is None:
            return None
        elif now_s >= run.server_at_s + _SERVER_FIRST_S:
            run.client_at_s, run.until_s = now_s, now_s + self._run_s
        else:
            return None
        options = self.options
        return ProbeBurst(
            run.id, node == run.server, address, run.port, options.seconds, options.size_bytes,
            wait_s=_ORDER_S + _START_S,
        )  # fmt: skip

    def take(self, node: NodeName, result: BurstResult) -> None:
        """A result in a report of this node's agent; one that is not expected is counted and changes nothing."""
        run, now_s = self._running, self.clock.now_s()
        if run is None or node != run.client or result.id != run.id or run.client_at_s is None or now_s >= run.until_s:
            self.count("not expected")
            return
        figures = {(run.client, run.server): result.sent_bps, (run.server, run.client): result.received_bps}
        rates = {ends: bps for ends, bps in figures.items() if bps}
        if result.error or not rates:
            _log.info("probe: throughput of %s and %s was not measured: %r", run.client, run.server, result.error)
            self._end("failed")
        elif max(rates.values()) > MAX_BPS:
            self._end("impossible")
        else:
            self._values |= {ends: (bps, now_s) for ends, bps in rates.items()}
            ends = run.server, run.client
            self._past[-1] = PastBurst(
                ends, self._past[-1].at_s, min(rates.values()), rates.get(ends), rates.get(ends[::-1])
            )
            self._end("measured")

    def known(self, node: NodeName) -> tuple[PastBurst, ...]:
        """The bursts of this node that ended, for the next leader."""
        return tuple(self._ended.get(node, ()))

    def resume(self, bursts: Iterable[PastBurst]) -> None:
        """Take what an earlier leader knew of the bursts of a node; each begins before our own."""
        now_s = self.clock.now_s()
        led_s = now_s if self._from_s is None else self._from_s - self._run_s
        for burst in (told._replace(at_s=min(told.at_s, led_s)) for told in bursts):
            if burst in self._ended.get(burst.pair[0], ()) or burst.at_s <= now_s - KEPT_S:
                continue
            self._coming.clear()  # These were chosen without it
            insort(self._past, burst, key=lambda past: past.at_s)
            self._keep(burst)
            for ends, bps in ((burst.pair, burst.forth_bps), (burst.pair[::-1], burst.back_bps)):
                if bps is not None and (ends not in self._values or self._values[ends][1] < burst.at_s):
                    self._values[ends] = bps, burst.at_s

    def values(self) -> list[Measurement]:
        """Of each direction known. Cost: O(n)."""
        rates = ((EndpointId(source), EndpointId(target), *value) for (source, target), value in self._values.items())
        return [Measurement(source, target, Metric.THROUGHPUT, bps, at_s) for source, target, bps, at_s in rates]

    def reset(self) -> None:
        """Forget everything: another replica leads now, or we begin to."""
        self.__post_init__()

    def _end(self, outcome: str) -> None:
        run, self._running = self._running, None
        assert run is not None
        self._keep(self._past[-1])
        self._free.update(dict.fromkeys((run.server, run.client), self.clock.now_s() + _PAUSE_S))
        self.count(outcome)

    def _keep(self, burst: PastBurst) -> None:
        for node in burst.pair:
            self._ended.setdefault(node, deque(maxlen=MOST_KNOWN)).append(burst)
