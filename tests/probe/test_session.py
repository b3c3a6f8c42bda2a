"""The fate of packets in virtual time: what is lost and where, and what is no fault of a link."""

import pytest

from probe import packets
from probe.session import SILENT_S, Session, Window, figures, merged

MS = int(packets.UNITS_PER_MS)
STEP_S = 0.1


class Link:
    """A session and a reflector that keeps numbers; each letter of a run is a packet, 100 ms after the one before.

    `.` answered after 1 ms, `o` lost on the way there, `b` lost on the way back, `R` the reflector begins again before
    it, then answers; `s` answered but suspect, `l` not answered and suspect.
    """

    def __init__(self, *, stateful: bool = True) -> None:
        self.session = Session(9)
        self.stateful = stateful
        self.sent = 0
        self.number = 0
        self.now_s = 0.0

    def run(self, letters: str, *, rtt: int = MS, inside: int = 0) -> None:
        for letter in letters:
            self.now_s += STEP_S
            t1 = packets.from_unix_ns(round(self.now_s * 1e9))
            self.session.send(t1, 1, at_s=self.now_s, suspect=letter in "sl")
            self.number = 0 if letter == "R" else self.number
            if letter in ".Rs":
                self.take(self.sent, t1, rtt, inside)
            if letter in ".Rsb":
                self.number += 1
            self.sent += 1

    def take(self, sequence: int, t1: int, rtt: int = MS, inside: int = 0, error: int = 1) -> bool:
        datagram = packets.request(sequence, t1, 1, 9)
        number, t2 = self.number if self.stateful else sequence, t1 + rtt // 2
        answer = packets.answer(
            datagram, datagram[14:16], sequence=number, error=error, received=t2, ttl=64, now=t2 + inside
        )
        return self.session.take(answer, t1 + rtt + inside, own_error_s=0.0)

    def close(self) -> Window:
        return self.session.close(self.now_s)


FATES = {  # case: (run, answered, lost, lost_out, lost_back, suspect)
    "all answered": ("." * 30, 30, 0, 0, 0, 0),
    "there": ("..oo" + "." * 20, 22, 2, 2, 0, 0),
    "back, after one there": (".o..b" + "." * 20, 23, 2, 1, 1, 0),
    "back": (".o" + "." * 11 + "b" + "." * 20, 32, 2, 1, 1, 0),
    "not yet overtaken": ("." * 10 + "o" + "." * 9, 10, 0, 0, 0, 0),
    "silent at the end": ("." * 10 + "o" * 50, 10, 0, 0, 0, 0),
    "the reflector restarts": ("." * 10 + "o" * 50 + "R" + "." * 20, 31, 0, 0, 0, 50),
    "not there at first": ("oooo" + "." * 20, 20, 0, 0, 0, 4),
    "late": ("...ss.ll" + "." * 20, 24, 0, 0, 0, 4),
    "late beside lost": ("o..lo" + "." * 20, 22, 1, None, None, 2),
    "never there": ("o" * 400, 0, 0, 0, 0, 100),
}


@pytest.mark.parametrize(("letters", "answered", "lost", "out", "back", "suspect"), FATES.values(), ids=FATES)
def test_fates(letters: str, answered: int, lost: int, out: int | None, back: int | None, suspect: int) -> None:
    link = Link()
    link.run(letters)
    found = link.close()
    assert (found.answered, found.lost, found.suspect) == (answered, lost, suspect)
    assert (found.lost_out, found.lost_back) == (out, back)


def test_windows_give_what_one_gives() -> None:
    run = "..o...b.........o....o...........ss....R.....oo......" * 3 + "." * 12
    whole, parts = Link(), Link()
    whole.run(run)
    windows = []
    for at in range(0, len(run), 7):
        parts.run(run[at : at + 7])
        windows.append(parts.close())
    one, several = whole.close(), merged(windows)
    assert (one.answered, one.lost, one.suspect) == (several.answered, several.lost, several.suspect)
    assert (one.rtts_ms, one.changes_ms) == (several.rtts_ms, several.changes_ms)


def test_a_peer_that_falls_silent_is_lost_after_half_a_minute() -> None:
    link = Link()
    link.run("." * 20 + "o" * int(SILENT_S / STEP_S + 50))
    found = link.close()
    assert (found.answered, found.lost_out, found.lost_back) == (20, None, None)
    assert found.lost in (50, 51)


def test_a_reflector_without_numbers_hides_the_direction() -> None:
    link = Link(stateful=False)
    link.run("..o" + "." * 20)
    found = link.close()
    assert (found.lost, found.lost_out, found.lost_back) == (1, None, None)


def test_the_time_inside_the_reflector_is_not_the_networks() -> None:
    link = Link()
    link.run(".", rtt=2 * MS, inside=3000 * MS)
    link.run(".", rtt=3 * MS)
    found = link.close()
    assert found.rtts_ms == pytest.approx([2.0, 3.0], abs=1e-4)
    assert found.changes_ms == pytest.approx([1.0], abs=1e-4)


@pytest.mark.parametrize("rtt", [-1000 * MS, 61_000 * MS])
def test_times_that_cannot_be_are_suspect(rtt: int) -> None:
    link = Link()
    link.session.send(7 << 32, 1, at_s=0.0)
    assert link.take(0, 7 << 32, rtt=rtt)
    assert link.take(0, 7 << 32) is False, "the same again"
    assert link.close().suspect == 1


ONE_WAY = {  # case: (the reflector's clock, one way)
    "not synchronised": (packets.error_estimate(0.0, synchronized=False), []),
    "good": (packets.error_estimate(0.0001, synchronized=True), [0.5]),
    "worse than half the round trip": (packets.error_estimate(0.001, synchronized=True), []),
}


@pytest.mark.parametrize(("error", "one_way"), ONE_WAY.values(), ids=ONE_WAY)
def test_one_way_delay_needs_clocks_better_than_half_the_round_trip(error: int, one_way: list[float]) -> None:
    link = Link()
    link.session.send(7 << 32, 1, at_s=0.0)
    link.take(0, 7 << 32, error=error)
    assert link.close().one_ways_ms == pytest.approx(one_way, abs=1e-4)


def test_figures_of_a_report() -> None:
    window = Window(answered=20, lost=1, lost_out=1, rtts_ms=[*range(1, 21)], changes_ms=[1.0] * 18 + [100.0] * 2)
    assert figures("n2", window) == {
        **{"peer": "n2", "sent": 21, "lost_out": 1, "lost_back": 0, "lost": 1, "suspect": 0},
        **{"rtt_ms": [10, 19], "one_way_ms": None, "jitter_ms": pytest.approx(118 / 19, abs=1e-4)},
    }
    nothing = figures("n2", Window(suspect=3))
    assert (nothing["sent"], nothing["rtt_ms"], nothing["jitter_ms"], nothing["suspect"]) == (0, None, None, 3)
