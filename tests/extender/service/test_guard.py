"""The storm guard: ordinary refusals first, errors for those who keep coming, and back again."""

from extender.service.guard import AFTER, QUIET_S, WINDOW_S, StormGuard
from scoring.ids import PodUid
from scoring.reasons import Reason

POD = PodUid("p")


def refuse(guard: StormGuard, times: int, *, now_s: float, reason: Reason = Reason.NO_ROOM) -> list[bool]:
    """Refuse the pod so often at one moment of a cluster that changes all the time."""
    return [guard.holds(POD, reason, now_s=now_s, changed_s=now_s) for _ in range(times)]


def test_the_first_refusals_are_ordinary() -> None:
    """A few refusals are refusals, the next ones within the window are errors."""
    assert refuse(StormGuard(), AFTER + 2, now_s=0.0) == [False] * AFTER + [True, True]


def test_slow_refusals_never_become_errors() -> None:
    """A pod that is asked about once per window is never guarded."""
    guard = StormGuard()
    assert not any(any(refuse(guard, 1, now_s=i * (WINDOW_S + 1.0))) for i in range(20))


def test_another_reason_starts_anew() -> None:
    """A changed reason is worth telling: it is an ordinary refusal again."""
    guard = StormGuard()
    refuse(guard, AFTER + 1, now_s=0.0)
    assert refuse(guard, 1, now_s=1.0, reason=Reason.BEHIND) == [False]


def test_quiet_ends_it() -> None:
    """Without a change in the cluster for a while the pod is parked again, and costs nothing any more."""
    guard = StormGuard()
    refuse(guard, AFTER + 1, now_s=0.0)
    assert guard.holds(POD, Reason.NO_ROOM, now_s=QUIET_S - 1.0, changed_s=0.0)
    assert not guard.holds(POD, Reason.NO_ROOM, now_s=QUIET_S, changed_s=0.0)


def test_being_let_through_ends_it() -> None:
    """After an offer the next refusal is the first again."""
    guard = StormGuard()
    refuse(guard, AFTER + 1, now_s=0.0)
    guard.forget(POD)
    assert refuse(guard, 1, now_s=1.0) == [False]
