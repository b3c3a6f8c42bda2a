"""Bursts of throughput: one at a time, each given to both agents; the client's result counts, or the burst lapses.

Rules:
- The next pairs are chosen ahead, so that their agents are asked to report when their turn comes (`due_in_s`).
- The server gets its order first, the client a second later at the earliest and only if no gang came to the nodes
  meanwhile; each with its report. A burst that is not done by its limit lapses.
- A result counts if it has the burst's id, which is random, comes from the client's agent, and is at most `MAX_BPS`.
- A leader begins its first burst once the last one of another leader must have ended.
- While a burst may run, its two agents say nothing of other links (`disturbs`): it fills their queues.
- netgang has no database: both agents of a burst tell the next leader of it (`BurstRecords`), or the day's count would
  begin again. An answer to an agent has the bursts of its node that ended since the answer before the last: one lost
  answer loses none. A burst counts once both agents have said the same of it, so that neither can invent one.
"""

import logging
import math
import secrets
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass
from functools import partial
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from extender.ports import Clock
from extender.schemas import MOST_LINKS, BurstResult, KnownBurst, ProbeBurst
from scoring import EndpointId, NodeName, ZoneName
from scoring.network.measurement import Measurement, Metric
from scoring.probing.bursts import KEPT_S, SLOW_RATIO, BurstReason, BurstView, NextBurst, PastBurst, next_bursts
from scoring.probing.peers import Pair

MAX_BPS: Final = 4e11  # No link has more bits per second: a result above it is not taken
_CLAIMS_S: Final = 600.0
_SAME_S: Final = 60.0  # Two agents' clocks and rounded ages differ by less in `KEPT_S`


class EndedBurst(NamedTuple):
    """One that was started and has ended; `None`: that direction was not measured."""

    id: str
    server: NodeName
    client: NodeName
    at_s: float
    to_server_bps: float | None = None
    to_client_bps: float | None = None


class BurstRecords:
    """Bursts of `KEPT_S`; one writer, on the loop."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, EndedBurst]] = deque()  # In the order of `number`
        self._ids: set[str] = set()
        self._claims: dict[str, tuple[NodeName, EndedBurst]] = {}  # id → whose agent said it, what
        self._claims_until_s: float | None = None
        self.number = 0  # Of the last one

    def add(self, burst: EndedBurst) -> None:
        """A burst has ended."""
        self.number += 1
        self._ended.append((self.number, burst))
        self._ids.add(burst.id)

    def since(self, node: NodeName, number: int, now_s: float) -> tuple[KnownBurst, ...]:
        """Bursts of a node after this number, the newest `MOST_LINKS`, oldest first. Cost: O(bursts after it)."""
        bursts: list[KnownBurst] = []
        for at, burst in reversed(self._ended):
            if at <= number or len(bursts) == MOST_LINKS:
                break
            if node in (burst.server, burst.client) and burst.at_s > now_s - KEPT_S:
                age_s, serves = round(max(now_s - burst.at_s, 0.0), 1), node == burst.server
                rates = (burst.to_client_bps, burst.to_server_bps)  # as its server sends and receives
                peer = burst.client if serves else burst.server
                bursts.append(KnownBurst(burst.id, peer, serves, age_s, *(rates if serves else rates[::-1])))
        return tuple(reversed(bursts))

    def confirmed(self, node: NodeName, bursts: Iterable[KnownBurst], now_s: float) -> Sequence[EndedBurst]:
        """Take what the agent of this node says of bursts under an earlier leader; those that both ends have said."""
        if self._claims_until_s is None:
            self._claims_until_s = now_s + _CLAIMS_S
        agreed = []
        for burst in bursts if now_s < self._claims_until_s else ():
            peer, at_s, rates = NodeName(burst.peer), now_s - burst.age_s, (burst.sent_bps, burst.received_bps)
            most_bps = max(burst.sent_bps or 0.0, burst.received_bps or 0.0)
            if burst.id in self._ids or peer == node or burst.age_s >= KEPT_S or most_bps > MAX_BPS:
                continue
            claim = EndedBurst(burst.id, peer, node, at_s, *rates)
            if burst.server:
                claim = EndedBurst(burst.id, node, peer, at_s, *rates[::-1])
            first, other = self._claims.setdefault(burst.id, (node, claim))
            if first != node and other._replace(at_s=at_s) == claim and abs(other.at_s - at_s) < _SAME_S:
                del self._claims[burst.id]
                self.add(claim)
                agreed.append(claim)
        return agreed

    def forget_old(self, now_s: float) -> None:
        """Forget bursts, and what one agent alone has said, that count no more."""
        while self._ended and self._ended[0][1].at_s <= now_s - KEPT_S:
            self._ids.discard(self._ended.popleft()[1].id)
        if self._claims_until_s is not None and now_s >= self._claims_until_s:
            self._claims.clear()


PORTS: Final = range(8863, 8871)  # TCP, for NetworkPolicy: one at random for each burst
_LATE_INTERVALS: Final = 2.5  # An agent that does not report for so long is not waited for
_SERVER_FIRST_S: Final = 1.0  # The server listens long before the client asks
_REPORT_S: Final = 0.3  # An agent that is to report in so many seconds does so at most so much later
_PAUSE_S: Final = 6.0  # Between two bursts of one node; its agent refuses one within 5 s of the last
_START_S: Final = 20.0  # A late answer to the client (15 s at most), and connecting
_SOON_S: Final = 1.2  # Least time in which an agent is asked to report again; it may do so once a second
_ORDER_S: Final = 6.0  # For both agents to fetch their orders, from when they were asked to report
_CHOSEN: Final = 2  # Most pairs that are chosen at one look, each some milliseconds with many nodes

_log = logging.getLogger("netgang.probe")


class BurstOptions(msgspec.Struct, frozen=True):
    """How large a burst is, and how many there are."""

    seconds: float = 2.0
    size_bytes: int = 500_000_000  # Of each direction
    a_day: int = 24  # Of one node


class _Coming(msgspec.Struct):
    pair: Pair
    since_s: float
    asked: dict[NodeName, float] = {}  # Node → when its agent was asked to report


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
    first: Callable[[], AbstractSet[ZoneName]] = frozenset  # Zones of waiting gangs
    count: Callable[[str], None] = lambda _: None  # Of each outcome

    def __post_init__(self) -> None:
        self._run_s = _START_S + self.options.seconds + 2.0 * _SOON_S  # From the client's order to the end
        # From the beginning of one burst to that of the next, if all agents report when they are asked to
        self._turn_s = _SERVER_FIRST_S + self.options.seconds + _SOON_S + 2.0 * _REPORT_S
        self._from_s: float | None = None  # None begins before that; `None`: this replica has not led yet
        self._running: _Running | None = None
        self._coming: list[_Coming] = []
        self._free: dict[NodeName, float] = {}  # node → from when its agent takes another burst
        self._past: list[PastBurst] = []  # In the order of time
        self.records = BurstRecords()
        self._values: dict[tuple[NodeName, NodeName], tuple[float, float]] = {}  # (from, to) → bits a second, when
        self._disturbed: dict[NodeName, float] = {}  # node → until when its agent says nothing of other links
        self._reason: BurstReason | None = None
        self.turned = False  # A link was found to be slow, or fast again; the reader of the values clears it

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
        self.records.forget_old(now_s)
        self._values = {
            ends: value for ends, value in self._values.items() if value[1] > since_s and zone_of.keys() >= {*ends}
        }
        self._disturbed = {node: at_s for node, at_s in self._disturbed.items() if at_s >= now_s - self._run_s}
        self._free = {node: at_s for node, at_s in self._free.items() if at_s >= now_s}
        view = BurstView({node: zone_of[node] for node in able if node in zone_of}, self.with_gangs(), self.first())
        idle, late_s = view.zone_of.keys() - view.with_gangs, now_s - _LATE_INTERVALS * interval_s
        self._coming = [turn for turn in self._coming if turn.since_s > late_s and idle >= {*turn.pair}]
        self._turn()
        past = (*self._past, *(PastBurst(turn.pair, now_s) for turn in self._coming))
        count = min(_CHOSEN, math.ceil(2.0 + interval_s / self._turn_s) - len(self._coming))
        work = partial(next_bursts, view, past, self.options.a_day, count, now_s)
        return count * (len(view.zone_of) + len(past)), work

    def assign(self, chosen: Sequence[NextBurst]) -> None:
        """Let these pairs have their turn: what `question` was answered."""
        for pair, reason in chosen:
            if pair is not None:
                place = 0 if reason in (BurstReason.SUSPECT, BurstReason.SLOW) else len(self._coming)
                self._coming.insert(place, _Coming(pair, self.clock.now_s()))
            elif not self._coming and self._running is None and reason is not self._reason:
                _log.info("probe: no throughput is measured now: %s", reason)
                self._reason = reason
        self._turn()

    def _turn(self) -> None:
        """End a burst whose time is up, and begin the next if its agents know of it. Cost: O(pairs that come)."""
        now_s = self.clock.now_s()
        if self._running is not None and now_s >= self._running.until_s:
            self._end("lapsed")
        if self._running is not None or self._from_s is None or now_s < self._from_s:
            return
        due = [turn for turn in self._coming if len(turn.asked) == len(turn.pair) and self._free_s(turn.pair) <= now_s]
        if due:
            turn = min(due, key=lambda turn: max(turn.asked.values()))
            self._coming.remove(turn)
            self._past.append(PastBurst(turn.pair, now_s))
            until_s = max(now_s, *turn.asked.values()) + _ORDER_S
            self._running = _Running(secrets.token_hex(8), *turn.pair, secrets.choice(PORTS), until_s)

    def _free_s(self, pair: Pair) -> float:
        """From when both agents take another burst."""
        return max(self._free.get(node, 0.0) for node in pair)

    def due_in_s(self, node: NodeName) -> float | None:
        """In how many seconds the agent of this node is to report, at the latest; `None`: as usual."""
        running, now_s = self._running, self.clock.now_s()
        free_s = max(self._from_s or now_s, now_s)
        if running is not None:
            began_s = running.client_at_s or now_s + _SERVER_FIRST_S
            free_s = max(began_s + self.options.seconds + _SOON_S, now_s)
            if node == running.client:
                wait_s = _SERVER_FIRST_S if running.client_at_s is None else free_s - now_s
                return max(wait_s + _REPORT_S / 2.0, _SOON_S)
            if node == running.server and running.server_at_s is None:
                return _SOON_S
        for place, turn in enumerate(self._coming):
            if node in turn.pair:
                begin_s = max(free_s + place * self._turn_s, self._free_s(turn.pair))
                wait_s = begin_s - now_s + (_SERVER_FIRST_S + _REPORT_S if node == turn.pair[1] else 0.0)
                turn.asked[node] = now_s + max(wait_s, _SOON_S)
                return max(wait_s, _SOON_S)
        return None

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
            self._disturbed.update(dict.fromkeys((node, peer), now_s + _START_S + self.options.seconds))
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
            bps = min(rates.values())
            before = [self._values[ends][0] for ends in rates if ends in self._values]
            usual = before or [value for value, _ in self._values.values()]
            self.turned |= bool(usual) and not SLOW_RATIO < bps / median(usual) < 1.0 / SLOW_RATIO
            self._values |= {ends: (bps, now_s) for ends, bps in rates.items()}
            self._past[-1] = self._past[-1]._replace(bps=bps)
            self._end("measured", rates)

    def resume(self, node: NodeName, bursts: Sequence[KnownBurst]) -> None:
        """Take what the agent of this node says of bursts under an earlier leader; each begins before our own."""
        now_s = self.clock.now_s()
        led_s = now_s if self._from_s is None else self._from_s - self._run_s
        for burst in self.records.confirmed(node, bursts, now_s):
            self._coming.clear()  # These were chosen without it
            server, client, at_s = burst.server, burst.client, min(burst.at_s, led_s)
            figures = {(client, server): burst.to_server_bps, (server, client): burst.to_client_bps}
            rates = {ends: bps for ends, bps in figures.items() if bps}
            pair = min(server, client), max(server, client)
            insort(self._past, PastBurst(pair, at_s, min(rates.values(), default=None)), key=lambda past: past.at_s)
            for ends, bps in rates.items():
                if ends not in self._values or self._values[ends][1] < at_s:
                    self._values[ends] = bps, at_s

    def disturbs(self, node: NodeName, *, since_s: float) -> bool:
        """Whether a burst may have run on the node since then."""
        return self._disturbed.get(node, since_s) > since_s

    def values(self) -> list[Measurement]:
        """Of each direction known. Cost: O(n)."""
        rates = ((EndpointId(source), EndpointId(target), *value) for (source, target), value in self._values.items())
        return [Measurement(source, target, Metric.THROUGHPUT, bps, at_s) for source, target, bps, at_s in rates]

    def reset(self) -> None:
        """Forget everything: another replica leads now, or we begin to."""
        self.__post_init__()

    def _end(self, outcome: str, rates: Mapping[tuple[NodeName, NodeName], float] = MappingProxyType({})) -> None:
        """`rates`: (from, to) → bits a second."""
        run, self._running, now_s = self._running, None, self.clock.now_s()
        assert run is not None
        pair, began_s = (run.server, run.client), self._past[-1].at_s
        self.records.add(EndedBurst(run.id, *pair, began_s, rates.get(pair[::-1]), rates.get(pair)))
        self._free.update(dict.fromkeys(pair, now_s + _PAUSE_S))
        if run.client_at_s is not None and outcome != "lapsed":
            self._disturbed.update(dict.fromkeys(pair, now_s))
        self.count(outcome)
