"""Back-offs after lapses (docs/safety.md S5): which other pods end, and which end with the gang."""

import pytest

from extender.cache import ClusterCache
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.telemetry import Telemetry
from extender.scheduling.admission.lapses import FIRST_S, Lapses
from scoring.ids import gang_key
from tests.builders import pod
from tests.fakes.clock import FakeClock

G = gang_key("default", "g")


class Desk:
    def __init__(self) -> None:
        self.cache = ClusterCache()
        self.clock = FakeClock()
        log = DecisionLog(Telemetry())
        self.lapses = Lapses(self.cache, self.clock, log, post_event=lambda *_: None, timeout_s=60.0)
        self.cache.pods.upsert(pod("p", gang="g", min_available=2))

    def lapse(self) -> float:
        """One lapse; the seconds that the gang then backs off."""
        self.lapses.lapsed(G)
        return self.cache.snapshot().backing_off_until_s[G] - self.clock.now_s()


@pytest.mark.parametrize("looked_meanwhile", [True, False])
def test_other_pods_end_count_and_back_off(looked_meanwhile: bool) -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.upsert(pod("q", gang="g", min_available=2))
    if looked_meanwhile:
        desk.lapses.renew()
        assert desk.cache.snapshot().backing_off_until_s == {}
    assert desk.lapse() == FIRST_S


def test_the_same_pods_keep_it() -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.upsert(pod("p", gang="g", min_available=2, options=(("near", "a"),)))
    desk.lapses.renew()
    assert desk.lapse() == 2 * FIRST_S


def test_a_gang_without_pods_has_no_record() -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.delete("default/p")
    desk.lapses.lapsed(G)
    assert (desk.lapses.gangs, desk.cache.snapshot().backing_off_until_s) == (frozenset(), {})
