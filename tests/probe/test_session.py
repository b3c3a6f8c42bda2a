"""STAMP's packets byte for byte, and their fate in virtual time: what is lost and where, what is no fault of a link."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe import packets
from probe.packets import MOST_OF_ONE, SessionReflector
from probe.session import SILENT_S, Session, Window, figures, merged

MS = int(packets.UNITS_PER_MS)
STEP_S = 0.1


class Link:
    """A session and a reflector that keeps numbers; each letter of a run is a packet, 100 ms after the one before.

    `.` answered after 1 ms, `o` lost on the way there, `b` lost on the way back, `R` the reflector begins again before
    it, then answers; `s` answered but suspect, `l` not answered and suspect.
    """

    def __init__(self) -> None:
        self.session = Session(9)
        self.sent = self.number = 0
        self.now_s = 0.0

    def run(self, letters: str, *, rtt: int = MS, inside: int = 0) -> Window:
        for letter in letters:
            self.now_s += STEP_S
            t1 = packets.from_unix_ns(round(self.now_s * 1e9))
            self.session.send(t1, 1, at_s=self.now_s)
            if letter in "sl":
                self.session.doubt_since(self.now_s)
            self.number = 0 if letter == "R" else self.number
            if letter in ".Rs":
                self.take(self.sent, t1, rtt, inside)
            if letter in ".Rsb":
                self.number += 1
            self.sent += 1
        return self.session.close(self.now_s)

    def take(self, sequence: int, t1: int, rtt: int = MS, inside: int = 0, error: int = 1) -> bool:
        datagram = packets.request(sequence, t1, 1, 9)
        t2 = t1 + rtt // 2
        answer = packets.answer(datagram, sequence=self.number, error=error, received=t2, now=t2 + inside)
        return self.session.take(answer, t1 + rtt + inside, own_error_s=0.0)


FATES = {  # case: (run, answered, lost, lost_out, lost_back, suspect)
    "all answered": ("." * 30, 30, 0, 0, 0, 0),
    "there": ("..oo" + "." * 20, 22, 2, 2, 0, 0),
    "back, after one there": (".o..b" + "." * 20, 23, 2, 1, 1, 0),
    "back alone": ("..b" + "." * 20, 22, 1, 0, 1, 0),
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
    found = Link().run(letters)
    assert (found.answered, found.lost, found.suspect) == (answered, lost, suspect)
    assert (found.lost_out, found.lost_back) == (out, back)


def test_windows_give_what_one_gives() -> None:
    run = "..o...b.........o....o...........ss....R.....oo......" * 3 + "." * 12
    parts = Link()
    one, several = Link().run(run), merged([parts.run(run[at : at + 7]) for at in range(0, len(run), 7)])
    assert (one.answered, one.lost, one.suspect) == (several.answered, several.lost, several.suspect)
    assert one.rtts_ms == several.rtts_ms


def test_a_peer_that_falls_silent_is_lost_after_half_a_minute() -> None:
    found = Link().run("." * 20 + "o" * int(SILENT_S / STEP_S + 50))
    assert (found.answered, found.lost_out, found.lost_back) == (20, None, None)
    assert found.lost in (50, 51)


def test_the_time_inside_the_reflector_is_not_the_networks() -> None:
    link = Link()
    found = merged([link.run(".", rtt=2 * MS, inside=3000 * MS), link.run(".", rtt=3 * MS)])
    assert found.rtts_ms == pytest.approx([2.0, 3.0], abs=1e-4)


@pytest.mark.parametrize("rtt", [-1000 * MS, 61_000 * MS])
def test_times_that_cannot_be_are_suspect(rtt: int) -> None:
    link = Link()
    link.session.send(7 << 32, 1, at_s=0.0)
    assert link.take(0, 7 << 32, rtt=rtt)
    assert link.take(0, 7 << 32) is False, "the same again"
    assert link.run("").suspect == 1


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
    assert link.run("").one_ways_ms == pytest.approx(one_way, abs=1e-4)


def test_figures_of_a_report() -> None:
    window = Window(answered=20, lost=1, lost_out=1, rtts_ms=[*range(20, 0, -1)])
    assert figures("n2", window) == {
        **{"peer": "n2", "sent": 21, "lost_out": 1, "lost_back": 0, "lost": 1, "suspect": 0},
        **{"rtt_ms": 10, "one_way_ms": None},
    }
    nothing = figures("n2", Window(suspect=3))
    assert (nothing["sent"], nothing["rtt_ms"], nothing["suspect"]) == (0, None, 3)


T1, T2, T3 = 0x83AA7E80_00000001, 0x83AA7E80_00000002, 0x83AA7E80_00000003
REQUEST = bytes.fromhex("0000001183aa7e80000000018a20beef") + bytes(28)  # RFC 8762 figure 2, RFC 8972 figure 1
ANSWER = bytes.fromhex(  # RFC 8762 figure 5, RFC 8972 figure 3
    "00000007" "83aa7e8000000003" "0c01" "beef"  # the reflector's number, timestamp, error estimate; session id
    "83aa7e8000000002"  # receive timestamp
    "00000011" "83aa7e8000000001" "8a20" "0000"  # the sender's
    "00000000"
)  # fmt: skip


def test_packets_are_the_rfcs_byte_for_byte() -> None:
    assert packets.request(17, T1, 0x8A20, 0xBEEF) == REQUEST
    assert packets.answer(REQUEST, sequence=7, error=0x0C01, received=T2, now=T3) == ANSWER
    assert packets.read_answer(ANSWER) == (7, T3, 0x0C01, 0xBEEF, T2, 17, T1)


@given(st.floats(0.0, 1e9), st.booleans())
def test_error_estimates_are_never_too_small(error_s: float, synchronized: bool) -> None:
    estimate = packets.error_estimate(error_s, synchronized=synchronized)
    assert error_s <= packets.error_s(estimate) <= error_s * 1.02 + 2 / packets.UNITS_PER_S
    assert (estimate & 0xFF, bool(estimate & packets.SYNCHRONIZED)) != (0, not synchronized)


def reflect(reflector: SessionReflector, datagram: bytes, source: tuple[str, int] = ("10.0.0.1", 5)) -> bytes | None:
    return reflector.answer(datagram, source, received=T2, now=T3)


def test_only_assigned_addresses_are_answered_with_numbers_of_their_own() -> None:
    reflector = SessionReflector()
    assert reflect(reflector, REQUEST) is None
    reflector.allow(["10.0.0.1", "10.0.0.2"])
    asked = (("10.0.0.1", 5), ("10.0.0.1", 5), ("10.0.0.2", 5), ("10.0.0.1", 6), ("10.0.0.1", 5), ("10.0.0.3", 5))
    found = [reflect(reflector, REQUEST, source) for source in asked]
    assert [one and packets.read_answer(one).sequence for one in found] == [0, 1, 0, 0, 2, None]  # type: ignore[union-attr]
    reflector.note_dropped(3)
    assert (reflect(reflector, REQUEST) or b"")[:4] == bytes(4)


def test_sessions_are_bounded() -> None:
    reflector = SessionReflector()
    reflector.allow(["10.0.0.1"])
    for port in range(1, 2 + MOST_OF_ONE):
        reflect(reflector, REQUEST, ("10.0.0.1", port))
    numbers = [reflect(reflector, REQUEST, ("10.0.0.1", port)) for port in (2 + MOST_OF_ONE - 1, 1)]
    assert [one and one[3] for one in numbers] == [1, 0]


def test_ten_thousand_datagrams_change_nothing() -> None:
    """To the reflector and to the sender: nothing raised, none longer than its request."""
    chance = random.Random(7)
    reflector, session = SessionReflector(), Session(0xBEEF)
    reflector.allow(["10.0.0.1"])
    session.send(T1, 0x8A20, at_s=0.0)
    session.send(T1, 0x8A20, at_s=0.1)
    for _ in range(10_000):
        base = bytearray(chance.choice((ANSWER, REQUEST, b"")))
        for _ in range(chance.randrange(4)):
            if base:
                base[chance.randrange(len(base))] = chance.randrange(256)
        datagram = bytes(base[: chance.randrange(60)]) + chance.randbytes(chance.choice((0, 3, 40, 2000)))
        assert reflect(reflector, datagram, ("10.9.9.9", chance.randrange(65536))) is None
        found = reflect(reflector, datagram, ("10.0.0.1", chance.randrange(65536)))
        assert (found is None) == (len(datagram) != 44)
        assert found is None or len(found) == 44
        said = packets.read_answer(datagram)
        if said is None or said.sender_sequence > 1:
            assert session.take(datagram, T3, own_error_s=0.0) is False
    window = session.close(1000.0)
    assert (window.answered, window.lost, window.suspect) == (0, 0, 2)
