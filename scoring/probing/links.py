"""What the reports of both ends of a link say about it: loss and delay of each direction, and when they count.

Rules:
- A report counts half as much after `HALF_LIFE_S` (of the dozens of packets of one, a lost one would be percents); both
  ends' packets of one direction are counted together. Packets count by the time between them, so that a link that was
  asked often for a while is not known by that while for minutes.
- Losses of a direction are those that sequence numbers show; where they are not known, the loss of the round trip
  stands for both directions. So does half the round trip for the delay.
- A window in which packets to a peer were lost blames the link only if the peer's own agent reported on time before and
  after it, and was not late itself (`Attendance`): an agent that is stopped, starved of CPU or gone answers nothing.

Pure: times are arguments, Unix seconds.
"""

from typing import Final, NamedTuple

HALF_LIFE_S: Final = 40.0  # A fault that ended has a sixteenth of its weight after 160 s
LATE_INTERVALS: Final = 2.5  # A report that comes after more intervals than this says nothing of the time between
SUSPECT_RATIO: Final = 0.1  # Of an agent's packets: from here on the agent cannot answer for itself


class LinkWindow(NamedTuple):
    """What one agent says of one link, from its last report to this one."""

    began_s: float
    ended_s: float
    sent: int
    lost: int
    lost_out: int | None = None  # On the way to the peer; `None`: not known
    lost_back: int | None = None
    rtt_ms: float | None = None  # Median round trip; `None`: no packet came back
    one_way_ms: float | None = None  # To the peer; `None`: clocks are not known to be synchronised
    packet_weight: float = 1.0  # The time between two packets, in any unit that all windows have


class Attendance(NamedTuple):
    """When an agent was there: it reported on time, and was not late itself, from `good_since_s` to `last_s`."""

    good_since_s: float
    last_s: float

    def after(self, now_s: float, *, interval_s: float, suspect_ratio: float) -> "Attendance":
        """With one more report."""
        late = now_s - self.last_s > LATE_INTERVALS * interval_s or suspect_ratio > SUSPECT_RATIO
        return Attendance(now_s if late else self.good_since_s, now_s)

    def covers(self, window: LinkWindow) -> bool:
        """Whether it was there all the time of a window."""
        return self.good_since_s <= window.began_s and window.ended_s <= self.last_s


class LinkState(NamedTuple):
    """Windows of one end, added up with less weight for older ones. `out` is the direction to the peer."""

    at_s: float
    sent_out: float = 0.0
    lost_out: float = 0.0
    sent_back: float = 0.0
    lost_back: float = 0.0
    answered: float = 0.0  # Weight of the delays
    delay_out_ms: float = 0.0  # Sums, each times its weight
    delay_back_ms: float = 0.0

    def weight_at(self, at_s: float) -> float:
        """What its counts weigh at a later time: 1 now."""
        return 0.5 ** ((at_s - self.at_s) / HALF_LIFE_S) if at_s > self.at_s else 1.0

    def with_window(self, window: LinkWindow) -> "LinkState":
        """The same with one more window."""
        weight, each = self.weight_at(window.ended_s), window.packet_weight
        lost_out, lost_back, arrived = window.lost, window.lost, window.sent
        if window.lost_out is not None and window.lost_back is not None:
            lost_out, lost_back, arrived = window.lost_out, window.lost_back, window.sent - window.lost_out
        answered = (window.sent - window.lost) * each if window.rtt_ms is not None else 0.0
        rtt_ms = window.rtt_ms or 0.0
        out_ms = rtt_ms / 2.0 if window.one_way_ms is None else window.one_way_ms
        back_ms = max(rtt_ms - out_ms, 0.0)
        return LinkState(
            max(window.ended_s, self.at_s),
            self.sent_out * weight + window.sent * each,
            self.lost_out * weight + lost_out * each,
            self.sent_back * weight + arrived * each,
            self.lost_back * weight + lost_back * each,
            self.answered * weight + answered,
            self.delay_out_ms * weight + out_ms * answered,
            self.delay_back_ms * weight + back_ms * answered,
        )


class LinkValue(NamedTuple):
    """One direction of a link. `None`: not known."""

    measured_at_s: float
    loss_ratio: float | None
    delay_ms: float | None


def link_value(near: LinkState | None, far: LinkState | None) -> LinkValue | None:
    """The direction from `near`'s end to `far`'s, by the packets of both; `None`: neither end knows anything."""
    if near is None and far is None:
        return None
    at_s = max(state.at_s for state in (near, far) if state is not None)
    sent = lost = answered = delay_ms = 0.0
    if near is not None:
        weight = near.weight_at(at_s)
        sent, lost = near.sent_out * weight, near.lost_out * weight
        answered, delay_ms = near.answered * weight, near.delay_out_ms * weight
    if far is not None:
        weight = far.weight_at(at_s)
        sent, lost = sent + far.sent_back * weight, lost + far.lost_back * weight
        answered, delay_ms = answered + far.answered * weight, delay_ms + far.delay_back_ms * weight
    loss_ratio = min(lost / sent, 1.0) if sent > 0.0 else None
    return LinkValue(at_s, loss_ratio, delay_ms / answered if answered > 0.0 else None)
