"""The storm guard: ordinary refusals first, errors for those that keep coming, and back again."""

import pytest

from extender.scheduling.answered_pods import AFTER, BURST_S, CALM_S, PER_POD_S, WINDOW_S, StormGuard
from scoring.ids import PodUid
from scoring.model.reasons import Reason

POD, OTHER = PodUid("p"), PodUid("other")


def refuse(guard: StormGuard, *moments_s: float, reason: Reason = Reason.NO_ROOM, uid: PodUid = POD) -> str:
    """Refuse the pod at these moments of a cluster that changes all the time: `e` for an error, `-` for a refusal."""
    return "".join("e" if guard.holds(uid, reason, now_s=at, changed_s=at) else "-" for at in moments_s)


def guarded() -> StormGuard:
    guard = StormGuard()
    assert refuse(guard, 0.0, 2.0, 4.0, 6.0) == "---e"
    return guard


def test_who_keeps_coming_is_held() -> None:
    assert refuse(guarded(), 7.0, 17.0, 27.0) == "eee"


def test_a_burst_is_not_a_storm() -> None:
    """Any number of refusals within `BURST_S`: ten pods end together, and the last one makes room."""
    guard = StormGuard()
    assert refuse(guard, *(i * BURST_S / 50 for i in range(50))) == "-" * 50
    assert refuse(guard, BURST_S) == "e"


def test_slow_refusals_never_become_errors() -> None:
    guard = StormGuard()
    assert refuse(guard, *(i * (WINDOW_S + 1.0) for i in range(20))) == "-" * 20
    assert refuse(StormGuard(), *(i * WINDOW_S / (AFTER - 1) for i in range(20))) == "-" * 20


def test_another_reason_starts_anew() -> None:
    guard = guarded()
    assert refuse(guard, 7.0, reason=Reason.BEHIND) == "-"
    assert refuse(guard, 7.0, uid=OTHER) == "-"


def test_quiet_ends_it() -> None:
    guard = guarded()
    assert guard.holds(POD, Reason.NO_ROOM, now_s=6.0 + CALM_S - 1.0, changed_s=6.0)
    assert not guard.holds(POD, Reason.NO_ROOM, now_s=6.0 + CALM_S, changed_s=6.0)


def test_being_let_through_ends_it() -> None:
    guard = guarded()
    guard.forget(POD)
    assert refuse(guard, 7.0) == "-"


@pytest.mark.parametrize("pods", [30, 300, 1000])
@pytest.mark.parametrize("every_s", [0.5, 2.0, 3.0, 4.0, 6.0, 9.0])
def test_many_pods_together_are_a_storm_however_slowly_each_comes(pods: int, every_s: float) -> None:
    guard = StormGuard()
    moments = ((turn * every_s + number * every_s / pods, number) for turn in range(40) for number in range(pods))
    ordinary = [at for at, number in moments if refuse(guard, at, uid=PodUid(f"p{number}")) == "-"]
    settled_s = pods * PER_POD_S + WINDOW_S + every_s
    late = [at for at in ordinary if at >= settled_s]
    assert len(late) <= 1.1 * AFTER / PER_POD_S * (40 * every_s - settled_s) or not late
    if pods == 30 and every_s > WINDOW_S / AFTER:
        assert len(ordinary) == 40 * pods


def test_pods_that_are_gone_do_not_count() -> None:
    guard = StormGuard()
    for number in range(1000):
        refuse(guard, 0.0, uid=PodUid(f"gone{number}"))
    slowly = [200.0 + turn * WINDOW_S * 0.6 for turn in range(20)]
    assert refuse(guard, *slowly) == "-" * 20


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.scheduling.answered_pods._REMEMBERED_MAX", 2)
    guard = guarded()
    for uid in (OTHER, PodUid("third")):
        refuse(guard, 6.5, uid=uid)
    assert refuse(guard, 7.0) == "-"
