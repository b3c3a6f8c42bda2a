"""Back-offs after lapses (docs/safety.md S5): which other pods end, and which end with the gang."""

import pytest
from msgspec.structs import replace

from extender.cache import ClusterCache
from extender.scheduling.admission.lapses import FIRST_S, Lapses
from scoring.ids import gang_key
from tests.builders import pod
from tests.extender.controllers.contexts import context_over
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_api import FakeClusterApi

G = gang_key("default", "g")


class Desk:
    def __init__(self) -> None:
        self.cache = ClusterCache()
        self.clock = FakeClock()
        self.lapses = Lapses(context_over(FakeClusterApi(), self.cache, self.clock), timeout_s=60.0)
        self.cache.pods.put(pod("p", gang="g", min_available=2))

    def lapse(self) -> float:
        """One lapse; the seconds that the gang then backs off."""
        self.lapses.lapsed(G)
        return self.back_off_s()

    def back_off_s(self) -> float:
        """How long the gang backs off from now; 0: it does not."""
        until_s = self.cache.snapshot().backing_off_until_s.get(G)
        return 0.0 if until_s is None else until_s - self.clock.now_s()

    def refuse(self, words: str) -> None:
        """kube-scheduler says this of the gang's pod; empty: nothing any more."""
        self.cache.pods.put(replace(pod("p", gang="g", min_available=2), refusal=words))


@pytest.mark.parametrize("looked_meanwhile", [True, False])
def test_other_pods_end_count_and_back_off(looked_meanwhile: bool) -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.put(pod("q", gang="g", min_available=2))
    if looked_meanwhile:
        desk.lapses.renew()
        assert desk.cache.snapshot().backing_off_until_s == {}
    assert desk.lapse() == FIRST_S


def test_the_same_pods_keep_it() -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.put(pod("p", gang="g", min_available=2, options=(("near", "a"),)))
    desk.lapses.renew()
    assert desk.lapse() == 2 * FIRST_S


def test_a_refusal_that_comes_and_goes_with_each_try_ends_one_back_off() -> None:
    """Anti-affinity among members: the last is refused while the first are held, and not any more after the lapse."""
    desk, back_offs_s = Desk(), []
    for _ in range(4):
        desk.refuse("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
        back_offs_s.append(desk.lapse())
        desk.refuse("")
        desk.lapses.renew()
        back_offs_s.append(desk.back_off_s())
    assert back_offs_s == [FIRST_S, 0.0, *(2 * [2 * FIRST_S]), *(2 * [4 * FIRST_S]), *(2 * [8 * FIRST_S])]
    desk.cache.pods.put(pod("q", gang="g", min_available=2))
    assert desk.lapse() == FIRST_S


def test_nodes_that_refuse_a_member_and_pass_it_again_make_the_next_such_try_a_lapse() -> None:
    """The first is only planned again: a filter that is not modelled may have closed that node."""
    desk = Desk()
    desk.lapses.abandoned(G)
    assert desk.back_off_s() == 0.0
    for pause_s in (FIRST_S, 2 * FIRST_S):
        desk.refuse("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
        desk.lapses.revoked(G)
        desk.lapses.abandoned(G)
        assert desk.back_off_s() == pause_s
        desk.refuse("")
        desk.lapses.renew()
        assert desk.back_off_s() == pause_s
    desk.cache.pods.put(pod("q", gang="g", min_available=2))
    desk.lapses.abandoned(G)
    assert desk.back_off_s() == 0.0


def test_a_gang_without_pods_has_no_record() -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.remove("default/p")
    desk.lapses.lapsed(G)
    assert (desk.lapses.gangs, desk.cache.snapshot().backing_off_until_s) == (frozenset(), {})
