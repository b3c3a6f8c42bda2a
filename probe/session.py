"""A sender's session with one peer, and the windows and figures that it gives.

A window that netgang did not take is merged with the next; the newest `MOST_WINDOWS` of a link are kept. If netgang
took a report and its answer was lost, windows are reported twice, which does not distort ratios and medians.

A packet's fate is decided once for each window (`close`), in the order of sending:
1. answered: counted with its round trip, without the time that it lay in the reflector;
2. suspect: the agent may have spoilt it (`probe.prober` says when), or the answer cannot be; or the reflector began
   again at zero before the next answer, so it restarted or its own socket was full;
3. lost: a packet sent a second later was answered, or the peer has answered nothing for 30 s. Until then it waits for
   the next window, so that a peer that stops for some seconds costs nothing.

One-way loss is what the reflector's numbers say of each gap between two answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from probe import packets


@dataclass(slots=True)
class Window:
    """Packets whose fate is known, in the order in which they were sent."""

    answered: int = 0
    lost: int = 0
    lost_out: int | None = 0  # Of `lost`: on the way there; `None`: not known
    lost_back: int | None = 0
    suspect: int = 0  # Packets that the agents themselves may have spoilt; they are in none of the other figures
    rtts_ms: list[float] = field(default_factory=list)
    one_ways_ms: list[float] = field(default_factory=list)  # There alone; empty where the clocks are not known to agree


def merged(windows: Sequence[Window]) -> Window:
    """One window for several that follow each other; what is not known of one is not known of all."""
    total: dict[str, Any] = {}
    for name in (each.name for each in fields(Window)):
        values = [getattr(window, name) for window in windows]
        if name.endswith("_ms"):
            total[name] = [value for several in values for value in several]
        else:
            total[name] = None if None in values else sum(values)
    return Window(**total)


def figures(peer: str, window: Window) -> dict[str, Any]:
    """A link of a report's body (docs/reference/probe.md)."""
    return {
        "peer": peer, "sent": window.answered + window.lost, "suspect": window.suspect,
        "lost": window.lost, "lost_out": window.lost_out, "lost_back": window.lost_back,
        "rtt_ms": _median(window.rtts_ms), "one_way_ms": _median(window.one_ways_ms),
    }  # fmt: skip


def _median(values_ms: Sequence[float]) -> float | None:
    """The lower one of two, to a tenth of a microsecond; `None`: of nothing."""
    return round(sorted(values_ms)[(len(values_ms) - 1) // 2], 4) if values_ms else None


MOST_WINDOWS: Final = 6


def links_of(batches: Iterable[Mapping[str, Window]]) -> list[dict[str, Any]]:
    """Figures of all links with anything to report; `batches`: windows by peer (node's name), in the order of time."""
    windows: dict[str, list[Window]] = {}
    for batch in batches:
        for peer, window in batch.items():
            if window.answered or window.lost or window.suspect:
                windows.setdefault(peer, []).append(window)
    return [figures(peer, merged(several)) for peer, several in sorted(windows.items())]


LATER_S: Final = 1.0  # Lost is what was overtaken by so much; reordering on a network is a thousand times shorter
SILENT_S: Final = 30.0  # After so long a packet to a peer that answers nothing is lost
MOST_PENDING: Final = 4096
_TOLERATED: Final = int(1e-6 * packets.UNITS_PER_S)  # Timestamps are rounded: a round trip may seem to be below zero
_LONGEST: Final = 60 * packets.UNITS_PER_S  # No round trip: a clock was set


@dataclass(slots=True)
class _Sent:
    timestamp: int
    at_s: float
    suspect: bool = False
    number: int = -1  # Of the reflector; −1: not answered
    rtt: int = 0
    out: int | None = None  # Units there alone, if the clocks may be compared


class Session:
    """Sequence numbers, and packets that wait. `session_id` distinguishes sessions with the same peer (RFC 8972)."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self._sequence = 0
        self._pending: dict[int, _Sent] = {}
        self._last: int | None = None  # The reflector's number of the newest answer whose fate is decided
        self._gap = 0
        self._gap_suspect = False
        self._heard = False

    def send(self, timestamp: int, error: int, *, at_s: float) -> bytes:
        """The next packet; `at_s` is monotonic. Of too many that wait the oldest is forgotten."""
        if len(self._pending) >= MOST_PENDING:
            del self._pending[next(iter(self._pending))]
        sequence, self._sequence = self._sequence, (self._sequence + 1) & 0xFFFFFFFF
        self._pending[sequence] = _Sent(timestamp, at_s)
        return packets.request(sequence, timestamp, error, self.session_id)

    def doubt_since(self, since_s: float) -> None:
        """Packets sent since then are suspect, answered or not: otherwise losses would seem rarer than they are."""
        for sent in reversed(self._pending.values()):
            if sent.at_s < since_s:
                return
            sent.suspect = True

    def take(self, datagram: bytes, received: int, *, own_error_s: float | None) -> bool:
        """Take an answer that came at `received`; `False`: none to a packet that waits, but repeated, forged or late.

        One whose times cannot be makes its packet suspect. `own_error_s`: of our clock; `None`: not synchronised.
        """
        answer = packets.read_answer(datagram)
        sent = None if answer is None else self._pending.get(answer.sender_sequence)
        if answer is None or sent is None or sent.number >= 0:
            return False
        if (answer.session_id, answer.sender_timestamp) != (self.session_id, sent.timestamp):
            return False
        self._heard = True
        sent.number = answer.sequence
        under_way = packets.between(sent.timestamp, received)
        inside = packets.between(answer.received, answer.timestamp)
        if inside < 0 or not -_TOLERATED <= under_way - inside <= _LONGEST:
            sent.suspect = True
            return True
        sent.rtt = max(under_way - inside, 0)
        if own_error_s is not None and answer.error & packets.SYNCHRONIZED:
            out = packets.between(sent.timestamp, answer.received)
            # Half the round trip is wrong by half of it at most: clocks must be better than that.
            error = (own_error_s + packets.error_s(answer.error)) * packets.UNITS_PER_S
            if 2.0 * error <= sent.rtt and 0 <= out <= sent.rtt:
                sent.out = out
        return True

    def close(self, now_s: float) -> Window:
        """Decide what can be decided, and give it out. Cost: O(packets that wait)."""
        window = Window()
        newest_s = max((sent.at_s for sent in self._pending.values() if sent.number >= 0), default=float("-inf"))
        for sequence, sent in list(self._pending.items()):
            if sent.number >= 0:
                self._answered(window, sent)
            elif newest_s >= sent.at_s + LATER_S or now_s - sent.at_s >= SILENT_S:
                self._unanswered(window, sent, overtaken=newest_s > sent.at_s)
            else:
                break  # and what follows waits too: fates are decided in order
            del self._pending[sequence]
        return window

    def _unanswered(self, window: Window, sent: _Sent, *, overtaken: bool) -> None:
        """If it was overtaken, the next answer says whether it is lost or the reflector restarted."""
        if overtaken and not sent.suspect:
            self._gap += 1
        elif overtaken:
            self._gap_suspect = True
            window.suspect += 1
        elif sent.suspect or not self._heard:
            window.suspect += 1  # a peer that was never there is no link that was measured
        else:
            window.lost += 1
            window.lost_out = window.lost_back = None
        if not overtaken:
            self._last = None

    def _answered(self, window: Window, sent: _Sent) -> None:
        last, gap, doubtful = self._last, self._gap, self._gap_suspect
        self._last, self._gap, self._gap_suspect = sent.number, 0, False
        if gap:
            if last is None or sent.number <= last:  # not known since when, or the reflector began again
                window.suspect += gap
            else:
                window.lost += gap
                back = sent.number - last - 1
                if doubtful or not 0 <= back <= gap:
                    window.lost_out = window.lost_back = None
                elif window.lost_out is not None and window.lost_back is not None:
                    window.lost_back += back
                    window.lost_out += gap - back
        if sent.suspect:
            window.suspect += 1
            return
        window.answered += 1
        window.rtts_ms.append(sent.rtt / packets.UNITS_PER_MS)
        if sent.out is not None:
            window.one_ways_ms.append(sent.out / packets.UNITS_PER_MS)
