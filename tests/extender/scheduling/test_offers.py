"""What the verbs write down between calls: offers, first refusals (docs/safety.md S7), parked pods; all bounded.

docs/safety.md S2.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise

import pytest

from extender.cache import ClusterCache
from extender.scheduling.node_exclusions import TOGETHER_S, Learning
from extender.scheduling.offers import Offers
from extender.scheduling.parked_pods import FIRST_LOOK_S, INHERITED_LATEST_S, INHERITED_S, QUIET_S, RETRY_S, Parking
from extender.scheduling.parked_pods import LONGEST_S as LONGEST_PAUSE_S
from extender.scheduling.watch_catchup import LONGEST_S, CatchUp
from scoring.ids import NodeName, PodUid
from scoring.model import MemberClass, Pod
from scoring.plan import Plan
from tests.builders import node, pod
from tests.fakes.clock import LoopClock

A, B = PodUid("a"), PodUid("b")
N1, N2 = NodeName("n1"), NodeName("n2")


def planned(**node_of: str) -> Plan:
    """A plan that gives these pods these nodes."""
    return Plan(1, node_of={PodUid(uid): NodeName(name) for uid, name in node_of.items()})


# -- offers -----------------------------------------------------------------------------------------------------------


def test_an_offer_is_for_one_pod_and_one_node() -> None:
    """Nothing else is allowed by it, and it ends after its time."""
    offers = Offers(ttl_s=10.0)
    offers.note(A, N1, now_s=0.0)
    assert offers.allows(A, N1, now_s=9.9)
    assert not offers.allows(A, N2, now_s=1.0)
    assert not offers.allows(B, N1, now_s=1.0)
    assert not offers.allows(A, N1, now_s=10.0)
    assert not offers.alone(A)


def test_a_plain_pod_may_go_where_it_was_asked_about() -> None:
    """To each of the nodes of the last question, and to no other."""
    offers = Offers()
    offers.note_asked(A, b'["n1","n3"]', now_s=0.0)
    offers.note_asked(A, b'["n1", "n2"]', now_s=0.0)
    assert [offers.allows(A, NodeName(name), now_s=1.0) for name in ("n1", "n2", "n3", "n", "")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert (offers.alone(A), offers.alone(B)) == (True, False)


QUOTED = {  # case: (names asked, node at bind, allowed)
    "two names in one": (b'["n1","n2"]', 'n1","n2', False),
    "a quote inside a name": (b'["a\\"n2"]', "n2", False),
    "an escaped name": (b'["a\\"n2"]', 'a"n2', True),
    "escaped by its code": (b'["\\u006e1"]', "n1", True),
}


@pytest.mark.parametrize(("asked", "name", "allowed"), QUOTED.values(), ids=QUOTED)
def test_names_are_compared_as_names(asked: bytes, name: str, allowed: bool) -> None:
    """Nothing that only looks like a name inside the JSON is one."""
    offers = Offers()
    offers.note_asked(A, asked, now_s=0.0)
    assert offers.allows(A, NodeName(name), now_s=1.0) is allowed


def test_names_asked_are_bounded_in_bytes() -> None:
    """The oldest question is forgotten first; what was taken or replaced does not count."""
    offers = Offers(asked_max_bytes=12)
    for uid in ("gone", "a", "a", "b", "c"):
        offers.note_asked(PodUid(uid), b'["n1"]', now_s=0.0)
        if uid == "gone":
            offers.taken(PodUid(uid))
    assert [offers.allows(PodUid(uid), N1, now_s=1.0) for uid in "abc"] == [False, True, True]
    offers.note_asked(A, b'["a-name-longer-than-all-that-is-kept"]', now_s=0.0)
    assert len(offers) == 0


def test_a_newer_offer_replaces_the_older_one() -> None:
    """A pod that was planned elsewhere may only go there."""
    offers = Offers()
    offers.note(A, N1, now_s=0.0)
    offers.note(A, N2, now_s=1.0)
    assert (offers.allows(A, N1, now_s=2.0), offers.allows(A, N2, now_s=2.0), len(offers)) == (False, True, 1)


def test_an_offer_that_was_taken_is_forgotten() -> None:
    """Of pods that come and go only those are remembered that have no node yet."""
    offers = Offers()
    offers.note(A, N1, now_s=0.0)
    offers.note_asked(B, b'["n1"]', now_s=0.0)
    offers.taken(A)
    offers.taken(PodUid("unknown"))
    assert (len(offers), offers.allows(A, N1, now_s=1.0), offers.alone(B)) == (1, False, True)


def test_offers_are_bounded_and_the_oldest_leave() -> None:
    """Renewing an offer makes it young."""
    offers = Offers(limit=2)
    for uid in (A, B, A, PodUid("c")):
        offers.note(uid, N1, now_s=0.0)
    assert len(offers) == 2
    assert [offers.allows(uid, N1, now_s=1.0) for uid in (A, B, PodUid("c"))] == [True, False, True]


# -- learning ---------------------------------------------------------------------------------------------------------


class Learned:
    """A Learning, and what it excluded."""

    def __init__(self, *, sees_all_nodes: bool = True) -> None:
        self.excluded: list[tuple[MemberClass, NodeName]] = []
        self.book = Learning(
            lambda *pair: self.excluded.append((pair[0].member_class, pair[1])), sees_all_nodes=sees_all_nodes
        )

    def refused(self, member: Pod, at_s: float, *, planned: NodeName = N1, asked: tuple[NodeName, ...] = (N2,)) -> bool:
        """A request without the planned node."""
        return self.book.refused(member, planned, asked, now_s=at_s)


SECOND_REFUSALS = {  # case: (seconds after the first, whether it is believed)
    "a moment": (0.9, False),
    "a second": (1.0, True),
    "some minutes": (TOGETHER_S, True),
    "too long ago": (TOGETHER_S + 0.1, False),
}


@pytest.mark.parametrize(("after_s", "believed"), SECOND_REFUSALS.values(), ids=SECOND_REFUSALS)
def test_two_refusals_are_believed_when_they_are_apart_but_not_too_far(after_s: float, believed: bool) -> None:
    """One may be lag between kube-scheduler's view and ours; so may be two that have nothing to do with each other."""
    learned, member = Learned(), pod("p")
    assert not learned.refused(member, 100.0)
    assert learned.refused(member, 100.0 + after_s) is believed
    assert learned.excluded == ([(member.member_class, N1)] if believed else [])


def test_a_late_second_refusal_is_a_first_one() -> None:
    """It needs another one to be believed."""
    learned, member = Learned(), pod("p")
    learned.refused(member, 0.0)
    learned.refused(member, TOGETHER_S + 10.0)
    assert learned.refused(member, TOGETHER_S + 11.0)


def test_what_is_believed_is_told_once() -> None:
    """The next refusals of the pair start again."""
    learned, member = Learned(), pod("p")
    told = [learned.refused(member, float(second)) for second in range(4)]
    assert told == [False, True, False, True]


def test_pods_of_one_kind_count_together_and_nodes_and_kinds_do_not() -> None:
    """A refusal is about a member class and a node."""
    learned = Learned()
    learned.refused(pod("p", cpu="1"), 0.0)
    assert not learned.refused(pod("p", cpu="2"), 5.0)
    assert not learned.refused(pod("p", cpu="1"), 5.0, planned=N2, asked=(N1,))
    assert learned.refused(pod("q", cpu="1"), 5.0)


NOTHING = {  # case: (pod, sees_all_nodes, nodes asked)
    "nominated": (pod("p", nominated_node="n2"), True, (N2,)),
    "sampling": (pod("p"), False, (N2,)),
    "no nodes at all": (pod("p"), True, ()),
}


@pytest.mark.parametrize(("member", "sees_all", "asked"), NOTHING.values(), ids=NOTHING)
def test_some_requests_teach_nothing(member: Pod, sees_all: bool, asked: tuple[NodeName, ...]) -> None:
    """The planned node may be missing for another reason than a filter."""
    learned = Learned(sees_all_nodes=sees_all)
    assert [learned.refused(member, second, asked=asked) for second in (0.0, 5.0)] == [False, False]
    assert learned.excluded == []


def test_first_refusals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one is forgotten: it then takes two more."""
    monkeypatch.setattr("extender.scheduling.node_exclusions._REMEMBERED_MAX", 2)
    learned = Learned()
    kinds = [pod("p", cpu=str(number)) for number in (1, 2, 3)]
    for member in kinds:
        learned.refused(member, 0.0)
    assert [learned.refused(member, 5.0) for member in reversed(kinds)] == [True, True, False]


# -- parking ----------------------------------------------------------------------------------------------------------


def test_a_refused_pod_is_woken_once_when_it_is_planned() -> None:
    """And again only when it is planned somewhere else."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0)
    assert parking.woken_by(planned(), now_s=1.0) == []
    assert parking.woken_by(planned(a="n1"), now_s=2.0) == [A]
    assert parking.woken_by(planned(a="n1"), now_s=2.1) == []
    assert parking.woken_by(planned(a="n2"), now_s=2.2) == [A]


def test_a_pod_that_was_never_refused_is_not_disturbed() -> None:
    """It is in kube-scheduler's queue and comes by itself; only after ten seconds somebody looks."""
    parking = Parking()
    assert parking.woken_by(planned(a="n1"), now_s=0.0) == []
    assert parking.overdue(now_s=FIRST_LOOK_S - 0.1) == []
    assert parking.overdue(now_s=FIRST_LOOK_S) == [A]


def test_pods_of_a_process_before_us_are_woken_once_soon() -> None:
    """Who refused them is gone: a second after we began, and those that are planned only later at the next look."""
    parking = Parking()
    parking.inherit([A, B], now_s=100.0)
    assert parking.woken_by(planned(a="n1"), now_s=100.0) == []
    assert parking.overdue(now_s=100.0 + INHERITED_S - 0.1) == []
    assert parking.overdue(now_s=100.0 + INHERITED_S) == [A]
    parking.woken_by(planned(a="n1", b="n2"), now_s=105.0)
    assert parking.overdue(now_s=105.0) == [B]
    assert parking.overdue(now_s=101.0 + FIRST_LOOK_S - 0.1) == []
    assert parking.overdue(now_s=101.0 + FIRST_LOOK_S) == [A]


COMING: Mapping[str, Callable[[Parking, PodUid, float], None]] = {  # what kube-scheduler is told
    "its node": lambda parking, uid, now_s: parking.offered(uid, now_s=now_s),
    "no": lambda parking, uid, now_s: parking.refused(uid, None, now_s=now_s),
}


@pytest.mark.parametrize("answered", COMING.values(), ids=COMING)
def test_pods_before_us_are_left_alone_while_others_of_them_come(
    answered: Callable[[Parking, PodUid, float], None],
) -> None:
    """kube-scheduler works off its queue; half a second after the last of them the others are woken, all the same."""
    parking = Parking()
    coming = [PodUid(f"coming-{number}") for number in range(10)]
    parking.inherit([A, *coming], now_s=100.0)
    parking.woken_by(planned(a="n1"), now_s=100.0)
    for number, uid in enumerate(coming):
        now_s = 100.0 + 0.3 * number
        answered(parking, uid, now_s)
        assert parking.overdue(now_s=now_s + 0.2) == []
    assert parking.overdue(now_s=now_s + QUIET_S - 0.01) == []
    assert parking.overdue(now_s=now_s + QUIET_S) == [A]


def test_pods_before_us_wait_for_others_only_so_long() -> None:
    """The queue may be long, and those that were refused before sleep beside it."""
    parking = Parking()
    coming = [PodUid(f"coming-{number}") for number in range(100)]
    parking.inherit([A, *coming], now_s=0.0)
    parking.woken_by(planned(a="n1"), now_s=0.0)
    woken_s = []
    for number, uid in enumerate(coming):
        now_s = number / 10
        parking.offered(uid, now_s=now_s)
        woken_s += [now_s] * len(parking.overdue(now_s=now_s))
    assert woken_s == [INHERITED_LATEST_S]


def test_other_pods_that_come_spare_nobody() -> None:
    """Those that we know of, or that are new, say nothing of who sleeps."""
    parking = Parking()
    parking.inherit([A], now_s=0.0)
    parking.woken_by(planned(a="n1", b="n2"), now_s=0.0)
    parking.offered(B, now_s=INHERITED_S)
    assert parking.overdue(now_s=INHERITED_S) == [A]


def test_a_plan_that_comes_and_goes_wakes_an_inherited_pod_once() -> None:
    """From its second place on it is one of ours, which are left alone for ten seconds."""
    parking = Parking()
    parking.inherit([A], now_s=0.0)
    woken: list[PodUid] = []
    for second in range(1, 9):
        parking.woken_by(planned(a="n1") if second % 2 else planned(), now_s=float(second))
        woken += parking.overdue(now_s=float(second))
    assert woken == [A]


INHERITED_NO_MORE: Mapping[str, Callable[[Parking], object]] = {  # case: what makes us know of the pod
    "it was refused": lambda parking: parking.refused(A, None, now_s=0.5),
    "it was offered its node": lambda parking: parking.offered(A, now_s=0.5),
    "it does not exist any more": lambda parking: parking.keep_only(set()),
    "we know nothing any more": Parking.forget,
}


@pytest.mark.parametrize("happens", INHERITED_NO_MORE.values(), ids=INHERITED_NO_MORE)
def test_a_pod_that_we_know_of_is_not_inherited(happens: Callable[[Parking], object]) -> None:
    """It came to us meanwhile, or is gone: it is not woken for its past."""
    parking = Parking()
    parking.inherit([A], now_s=0.0)
    happens(parking)
    parking.woken_by(planned(a="n1"), now_s=2.0)
    assert parking.overdue(now_s=2.5) == []


def test_a_planned_pod_that_does_not_come_is_woken_less_and_less_often() -> None:
    """1.1 s after its wake-up, then after pauses that double up to a minute."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0)
    parking.woken_by(planned(a="n1"), now_s=0.0)
    woken, now_s = [], 0.0
    while now_s < 400.0:
        now_s += 0.1
        if parking.overdue(now_s=now_s):
            woken.append(now_s)
    pauses = [later - earlier for earlier, later in pairwise(woken)]
    assert woken[0] == pytest.approx(RETRY_S, abs=0.11)
    assert pauses[:5] == pytest.approx([2.2, 4.4, 8.8, 17.6, 35.2], abs=0.11)
    assert pauses[5:] == pytest.approx([LONGEST_PAUSE_S] * len(pauses[5:]), abs=0.11)


def test_a_refusal_of_the_planned_node_is_repeated_soon_and_then_less_often() -> None:
    """1.1 s later, so that the second refusal is believed; with each further one twice as late."""
    parking = Parking()
    waited = []
    parking.woken_by(planned(a="n1"), now_s=0.0)  # not refused yet: awaited in its own time
    for start_s in (0.0, 100.0, 200.0):
        parking.refused(A, N1, now_s=start_s)
        waited.append(next(tenths for tenths in range(1000) if parking.overdue(now_s=start_s + tenths / 10)))
    assert waited == [11, 44, 176]  # each wake-up doubles the pause, and so does each refusal
    parking.refused(A, NodeName("n2"), now_s=300.0)
    assert parking.overdue(now_s=300.0 + RETRY_S) == [A]


def test_a_pod_that_was_offered_its_node_is_left_alone() -> None:
    """It goes on to bind by itself."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0)
    parking.woken_by(planned(a="n1"), now_s=0.0)
    parking.offered(A, now_s=1.0)
    assert (parking.overdue(now_s=100.0), len(parking)) == ([], 0)


def test_a_pod_that_lost_its_place_is_not_awaited() -> None:
    """It sleeps until it is planned again."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0)
    parking.woken_by(planned(a="n1"), now_s=0.0)
    parking.woken_by(planned(), now_s=1.0)
    assert parking.overdue(now_s=100.0) == []


def test_a_reason_of_the_moment_is_corrected_once() -> None:
    """Told `not planned yet`, the pod is woken by the next plan even without a place, to hear the real reason."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0, for_a_moment=True)
    parking.refused(B, None, now_s=0.0, for_a_moment=True)
    parking.refused(B, None, now_s=0.1)
    assert parking.woken_by(planned(), now_s=1.0) == [A]
    assert parking.woken_by(planned(), now_s=2.0) == []


def test_who_sleeps() -> None:
    """Refused and not woken since."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0)
    parking.refused(B, None, now_s=0.0)
    parking.woken_by(planned(b="n1"), now_s=1.0)
    assert parking.asleep([B, A, PodUid("c")]) == [A]


def test_pods_that_do_not_exist_are_forgotten_at_the_second_look() -> None:
    """kube-scheduler may be ahead of our watch for a moment, not for two looks."""
    parking = Parking()
    parking.refused(A, None, now_s=0.0)
    parking.woken_by(planned(b="n1"), now_s=0.0)
    parking.keep_only(set())
    assert len(parking) == 1
    parking.keep_only({A})
    parking.keep_only(set())
    assert parking.asleep([A]) == [A]
    parking.keep_only(set())
    assert (len(parking), parking.overdue(now_s=100.0)) == (0, [])


# -- catching up with kube-scheduler ----------------------------------------------------------------------------------

AHEAD = {  # case: (whether kube-scheduler knows more, nodes asked)
    "room in our view, too": (False, ["free"]),
    "full in our view": (True, ["free", "full"]),
    "not known to us": (True, ["new"]),
    "nothing asked": (False, []),
}


async def ended(wait: Awaitable[None] | None) -> None:
    """Wait, if there is something to wait for."""
    if wait is not None:
        await wait


@pytest.mark.looptime
@pytest.mark.parametrize(("ahead", "asked"), AHEAD.values(), ids=AHEAD)
async def test_a_question_shows_who_is_behind(ahead: bool, asked: list[str]) -> None:
    """kube-scheduler's own filters passed a node that cannot be right in our view."""
    cache = ClusterCache()
    cache.nodes.replace([node("free"), node("full", cpu="1")])
    cache.pods.upsert(pod("x", node="full", cpu="1"))
    wait = CatchUp(cache, LoopClock()).for_room(pod("p"), [NodeName(name) for name in asked])
    assert (wait is not None) is ahead
    await ended(wait)


@pytest.mark.looptime
async def test_a_resource_that_no_node_has_shows_it_too() -> None:
    """kube-scheduler passed a node for a pod that no node of ours could take: a device plugin has just registered."""
    cache = ClusterCache()
    cache.nodes.upsert(node("n"))
    wait = CatchUp(cache, LoopClock()).for_room(pod("p", gpu=1), [NodeName("n")])
    assert wait is not None
    await wait


@pytest.mark.looptime
async def test_a_question_waits_for_its_pod_to_be_known() -> None:
    """It goes on as soon as the watch has brought it."""
    cache = ClusterCache()
    catch_up = CatchUp(cache, LoopClock())
    cache.on_change = catch_up.changed
    loop = asyncio.get_running_loop()
    loop.call_later(LONGEST_S / 4, lambda: cache.nodes.upsert(node("another change")))
    loop.call_later(LONGEST_S / 2, lambda: cache.pods.upsert(pod("p", gang="g", min_available=1)))
    began_s = loop.time()
    await ended(catch_up.for_pod(pod("p").uid))
    assert loop.time() - began_s == pytest.approx(LONGEST_S / 2)
    await ended(catch_up.for_pod(pod("p").uid))
    assert loop.time() - began_s == pytest.approx(LONGEST_S / 2)


@pytest.mark.looptime
async def test_a_question_does_not_wait_long_nor_often() -> None:
    """At most 20 ms, once per version of the cache, and no other one for four times as long."""
    cache = ClusterCache()
    catch_up = CatchUp(cache, LoopClock())
    cache.on_change = catch_up.changed
    loop = asyncio.get_running_loop()

    async def took_s(name: str) -> float:
        began_s = loop.time()
        await ended(catch_up.for_pod(PodUid(name)))
        return loop.time() - began_s

    assert await took_s("a") == pytest.approx(LONGEST_S)
    assert [await took_s("a"), await took_s("b")] == [0.0, 0.0]
    await asyncio.sleep(4 * LONGEST_S)
    assert await took_s("a") == 0.0
    assert await took_s("b") == pytest.approx(LONGEST_S)


@pytest.mark.looptime
async def test_what_was_waited_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many pods: it may be waited for them once more."""
    monkeypatch.setattr("extender.scheduling.watch_catchup._REMEMBERED_MAX", 2)
    catch_up = CatchUp(ClusterCache(), LoopClock())
    loop = asyncio.get_running_loop()
    for name in ("a", "b", "c", "a"):
        began_s = loop.time()
        await ended(catch_up.for_pod(PodUid(name)))
        assert loop.time() - began_s == pytest.approx(LONGEST_S)
        await asyncio.sleep(5 * LONGEST_S)


@pytest.mark.looptime
async def test_a_question_waits_while_room_may_come() -> None:
    """A node that is full in our view was passed by kube-scheduler: the pod that left it is about to be forgotten."""
    cache = ClusterCache()
    cache.nodes.upsert(node("n", cpu="1"))
    cache.pods.upsert(pod("old", node="n"))
    catch_up = CatchUp(cache, LoopClock())
    cache.on_change = catch_up.changed
    loop = asyncio.get_running_loop()
    loop.call_later(LONGEST_S / 4, lambda: cache.pods.delete("default/old"))
    began_s = loop.time()
    await ended(catch_up.for_room(pod("p"), [NodeName("n")]))
    assert loop.time() - began_s == pytest.approx(LONGEST_S / 4)
    await ended(catch_up.for_room(pod("p"), [NodeName("n")]))
    assert loop.time() - began_s == pytest.approx(LONGEST_S / 4)
