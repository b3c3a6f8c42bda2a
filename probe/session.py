"""A sender's session with one peer: what was sent, what was answered, and what that says of the link.

A packet's fate is decided once for each window (`close`), in the order of sending:

1. answered: counted with its round trip, without the time that it lay in the reflector;
2. suspect: the agent may have spoilt it (`probe.prober` says when), or the answer cannot be; or the reflector began
   again at zero before the next answer, so it restarted or its own socket was full;
3. lost: a packet sent a second later was answered, or the peer has answered nothing for 30 s. Until then it waits for
   the next window, so that a peer that stops for some seconds costs nothing.

One-way loss is what the reflector's numbers say of each gap between two answers. A reflector without numbers of its own
repeats the sender's: as long as both are always equal, the direction is not known.
"""

from dataclasses import dataclass
from typing import Final

from probe import packets
from probe.window import Window

LATER_S: Final = 1.0  # Lost is what was overtaken by so much; reordering on a network is a thousand times shorter
SILENT_S: Final = 30.0  # After so long a packet to a peer that answers nothing is lost
MOST_PENDING: Final = 4096
_TOLERATED: Final = int(1e-6 * packets.UNITS_PER_S)
"""By so much a reflector may seem to have had a packet longer than it was under way: timestamps are rounded."""


_LONGEST: Final = 60 * packets.UNITS_PER_S  # No round trip: a clock was set


@dataclass(slots=True)
class _Sent:
    timestamp: int
    at_s: float
    suspect: bool
    number: int = -1  # Of the reflector; −1: not answered
    rtt: int = 0
    out: int | None = None  # Units there alone, if the clocks may be compared


class Session:
    """Sequence numbers, and packets that wait. `session_id` distinguishes sessions with the same peer (RFC 8972)."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self._sequence = 0
        self._pending: dict[int, _Sent] = {}
        self._last: tuple[int, int] | None = None
        """(our number, the reflector's) of the newest answer whose fate is decided"""
        self._gap = 0
        self._gap_suspect = False
        self._numbers_differ = False
        self._heard = False
        self._rtt_before: int | None = None

    def send(self, timestamp: int, error: int, *, at_s: float, suspect: bool = False) -> bytes:
        """The next packet; `at_s` is monotonic. Of too many that wait the oldest is forgotten."""
        if len(self._pending) >= MOST_PENDING:
            del self._pending[next(iter(self._pending))]
        sequence, self._sequence = self._sequence, (self._sequence + 1) & 0xFFFFFFFF
        self._pending[sequence] = _Sent(timestamp, at_s, suspect)
        return packets.request(sequence, timestamp, error, self.session_id)

    def doubt_last(self) -> None:
        """The packet just sent left later than it says."""
        self._pending[(self._sequence - 1) & 0xFFFFFFFF].suspect = True

    def doubt_since(self, since_s: float) -> None:
        """Packets sent since then are suspect, answered or not: otherwise losses would seem rarer than they are."""
        for one in reversed(self._pending.values()):
            if one.at_s < since_s:
                return
            one.suspect = True

    def take(self, datagram: bytes, received: int, *, own_error_s: float | None) -> bool:
        """Take an answer that came at `received`; `False`: none to a packet that waits, but repeated, forged or late.

        An answer whose times cannot be makes its packet suspect. `own_error_s`: of our clock; `None`: it is not
        synchronised.
        """
        said = packets.read_answer(datagram)
        sent = None if said is None else self._pending.get(said.sender_sequence)
        if said is None or sent is None or sent.number >= 0 or said.sender_timestamp != sent.timestamp:
            return False
        if said.session_id not in (self.session_id, 0):  # zero: of a reflector older than RFC 8972
            return False
        self._heard = True
        sent.number = said.sequence
        under_way = packets.between(sent.timestamp, received)
        inside = packets.between(said.received, said.timestamp)
        if inside < 0 or not -_TOLERATED <= under_way - inside <= _LONGEST:
            sent.suspect = True
            return True
        sent.rtt = max(under_way - inside, 0)
        if own_error_s is not None and said.error & packets.SYNCHRONIZED:
            out = packets.between(sent.timestamp, said.received)
            # Half the round trip is wrong by half of it at most: clocks must be better than that.
            error = (own_error_s + packets.error_s(said.error)) * packets.UNITS_PER_S
            if 2.0 * error <= sent.rtt and 0 <= out <= sent.rtt:
                sent.out = out
        return True

    def close(self, now_s: float) -> Window:
        """Decide what can be decided, and give it out. Cost: O(packets that wait)."""
        window = Window()
        newest_s = max((one.at_s for one in self._pending.values() if one.number >= 0), default=float("-inf"))
        for sequence, sent in list(self._pending.items()):
            if sent.number >= 0:
                self._answered(window, sequence, sent)
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
            self._last = None
        else:
            window.lost += 1
            window.lost_out = window.lost_back = None
            self._last = None

    def _answered(self, window: Window, sequence: int, sent: _Sent) -> None:
        last, gap, doubtful = self._last, self._gap, self._gap_suspect
        self._last, self._gap, self._gap_suspect = (sequence, sent.number), 0, False
        self._numbers_differ |= sequence != sent.number
        if gap:
            if last is None or sent.number <= last[1]:  # not known since when, or the reflector began again
                window.suspect += gap
            else:
                window.lost += gap
                back = sent.number - last[1] - 1
                if doubtful or not self._numbers_differ or not 0 <= back <= gap:
                    window.lost_out = window.lost_back = None
                elif window.lost_out is not None and window.lost_back is not None:
                    window.lost_back += back
                    window.lost_out += gap - back
        if sent.suspect:
            window.suspect += 1
            self._rtt_before = None
            return
        window.answered += 1
        window.rtts_ms.append(sent.rtt / packets.UNITS_PER_MS)
        if self._rtt_before is not None:
            window.changes_ms.append(abs(sent.rtt - self._rtt_before) / packets.UNITS_PER_MS)
        self._rtt_before = sent.rtt
        if sent.out is not None:
            window.one_ways_ms.append(sent.out / packets.UNITS_PER_MS)
