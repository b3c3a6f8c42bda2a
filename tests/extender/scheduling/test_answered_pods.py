"""What the verbs remember, all bounded: offers, first refusals, parked pods, storms (docs/safety.md S2, S7)."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.scheduling import answered_pods as limits
from extender.scheduling.answered_pods import TOGETHER_S, Learning, Offers, Parking, StormGuard
from extender.scheduling.verbs import LONGEST_S, CatchUp, have_room
from scoring import NodeName, PodUid
from scoring.model import GATE, Pod
from scoring.model.reasons import Reason
from scoring.plan import Plan
from tests.builders import node, pod
from tests.fakes.clock import FakeClock, LoopClock

A, B, C = PodUid("a"), PodUid("b"), PodUid("c")
N1, N2 = NodeName("n1"), NodeName("n2")


def allowed(offers: Offers, *pairs: tuple[PodUid, str], now_s: float = 1.0) -> list[bool]:
    return [offers.allows(uid, NodeName(name), now_s=now_s) for uid, name in pairs]


def test_an_offer_is_for_one_pod_and_one_node_for_a_time() -> None:
    offers = Offers()
    offers.note(A, N2, now_s=0.0)
    offers.note(A, N1, now_s=0.0)
    assert allowed(offers, (A, "n1"), (A, "n2"), (B, "n1"), now_s=limits.TTL_S - 0.1) == [True, False, False]
    assert allowed(offers, (A, "n1"), now_s=limits.TTL_S) == [False]
    assert not offers.alone(A)
    offers.note(B, N1, now_s=0.0)
    for taken in (A, PodUid("unknown")):
        offers.taken(taken)
    assert allowed(offers, (A, "n1"), (B, "n1")) == [False, True]


def test_a_plain_pod_may_go_where_it_was_asked_about() -> None:
    offers = Offers()
    offers.note(A, None, b'["n1","n3"]', now_s=0.0)
    offers.note(A, None, b'["n1", "n2"]', now_s=0.0)
    assert [name for name in ("n1", "n2", "n3", "n", "", 'n1", "n2') if allowed(offers, (A, name))[0]] == ["n1", "n2"]
    assert (offers.alone(A), offers.alone(B)) == (True, False)
    offers.note(A, None, b'["a\\"n2", "\\u006e1"]', now_s=0.0)
    assert allowed(offers, (A, 'a"n2'), (A, "n1"), (A, "n2")) == [True, True, False]


def test_offers_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFERS_MAX", 2)
    offers = Offers()
    for uid in (A, B, A, C):
        offers.note(uid, N1, now_s=0.0)
    assert allowed(offers, (A, "n1"), (B, "n1"), (C, "n1")) == [True, False, True]
    monkeypatch.setattr(limits, "OFFERS_MAX", 100)
    monkeypatch.setattr(limits, "ASKED_MAX_BYTES", 12)
    offers = Offers()
    for uid in (PodUid("gone"), A, A, B, C):
        offers.note(uid, None, b'["n1"]', now_s=0.0)
        if uid == "gone":
            offers.taken(uid)
    assert allowed(offers, (A, "n1"), (B, "n1"), (C, "n1")) == [False, True, True]
    offers.note(A, None, b'["a-name-longer-than-all-that-is-kept"]', now_s=0.0)
    assert not any(map(offers.alone, (A, B, C)))


class Learned:
    def __init__(self, *, sees_all_nodes: bool = True) -> None:
        self.cache = ClusterCache()
        self.book = Learning(self.cache, FakeClock(), ttl_s=60.0, sees_all_nodes=sees_all_nodes)

    def refused(self, member: Pod, at_s: float, *, planned: NodeName = N1, asked: tuple[NodeName, ...] = (N2,)) -> bool:
        return self.book.refused(member, planned, asked, now_s=at_s)


REFUSALS = {  # case: (seconds at which the node is refused, which of the refusals are believed)
    "a moment apart is lag": ([0.0, 0.9], [False, False]),
    "a second apart, once; then it starts again": ([0.0, 1.0, 2.0, 3.0], [False, True, False, True]),
    "some minutes apart": ([0.0, TOGETHER_S], [False, True]),
    "too far apart is a first one again": ([0.0, TOGETHER_S + 0.1, TOGETHER_S + 1.1], [False, False, True]),
}


@pytest.mark.parametrize(("moments_s", "believed"), REFUSALS.values(), ids=REFUSALS)
def test_two_refusals_are_believed_when_apart_but_not_too_far(moments_s: list[float], believed: list[bool]) -> None:
    """One may be lag between kube-scheduler's view and ours; so may be two that have nothing to do with each other."""
    learned, member = Learned(), pod("p")
    assert [learned.refused(member, 100.0 + after_s) for after_s in moments_s] == believed
    assert learned.cache.exclusions == ({member.member_class: {N1}} if any(believed) else {})


def test_pods_of_one_kind_count_together_and_nodes_and_kinds_do_not() -> None:
    learned = Learned()
    learned.refused(pod("p", cpu="1"), 0.0)
    assert not learned.refused(pod("p", cpu="2"), 5.0)
    assert not learned.refused(pod("p", cpu="1"), 5.0, planned=N2, asked=(N1,))
    assert learned.refused(pod("q", cpu="1"), 5.0)


@pytest.mark.parametrize(
    ("member", "sees_all", "asked"),
    [(pod("p", nominated_node="n2"), True, (N2,)), (pod("p"), False, (N2,)), (pod("p"), True, ())],
    ids=["nominated", "sampling", "no nodes at all"],
)
def test_some_requests_teach_nothing(member: Pod, sees_all: bool, asked: tuple[NodeName, ...]) -> None:
    """The planned node may be missing for another reason than a filter."""
    learned = Learned(sees_all_nodes=sees_all)
    assert [learned.refused(member, second, asked=asked) for second in (0.0, 5.0)] == [False, False]
    assert learned.cache.exclusions == {}


def test_first_refusals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.scheduling.answered_pods._FIRST_MAX", 2)
    learned = Learned()
    kinds = [pod("p", cpu=str(number)) for number in (1, 2, 3)]
    for member in kinds:
        learned.refused(member, 0.0)
    assert [learned.refused(member, 5.0) for member in reversed(kinds)] == [True, True, False]


def woken(parking: Parking, *, now_s: float = 0.0, **node_of: str) -> list[PodUid]:
    made = Plan(1, node_of={PodUid(uid): NodeName(name) for uid, name in node_of.items()})
    return parking.woken_by(made, now_s=now_s)


def parked(*uids: PodUid, **how: Any) -> Parking:
    parking = Parking(Refused())
    for uid in uids:
        parking.refused(uid, None, now_s=0.0, **how)
    return parking


def is_due_at(parking: Parking, now_s: float) -> bool:
    return [parking.overdue(now_s=now_s - 0.1), parking.overdue(now_s=now_s)] == [[], [A]]


class Refused(ClusterCache):
    def __init__(self) -> None:
        super().__init__()
        self.pod = lambda uid: replace(pod(uid), uid=uid, parked=True)


def inherited(*uids: PodUid) -> Parking:
    """These pods were there when we began; the first of them is planned."""
    parking = Parking(Refused())
    parking.inherit(uids, now_s=0.0)
    assert parking.woken_by(Plan(1, node_of={uids[0]: NodeName("n1")}), now_s=0.0) == []
    return parking


def test_a_refused_pod_is_woken_once_when_it_is_planned() -> None:
    parking = parked(A, B)
    assert (woken(parking), parking.asleep([B, A, C])) == ([], [B, A])
    assert [woken(parking, a="n1"), woken(parking, a="n1"), woken(parking, a="n2")] == [[A], [], [A]]
    assert parking.asleep([B, A, C]) == [B]


@pytest.mark.parametrize("before_us", [False, True], ids=["new", "inherited"])
@pytest.mark.parametrize(
    ("one", "left"),
    [(pod("a"), True), (replace(pod("a"), parked=True), False), (replace(pod("a"), gates=(GATE,)), False)],
    ids=["not tried yet", "refused", "at a gate, which we remove again"],
)
def test_a_pod_in_kube_scheduler_s_queue_is_not_disturbed(one: Pod, left: bool, before_us: bool) -> None:
    """However long the queue is; once it was refused, it is woken."""
    cache = ClusterCache()
    cache.pods.put(replace(one, uid=A))
    parking = Parking(cache)
    if before_us:
        parking.inherit([A], now_s=0.0)
    woken(parking, a="n1")
    assert [uid for second in range(600) for uid in parking.overdue(now_s=float(second))][:1] == ([] if left else [A])
    cache.pods.put(replace(one, uid=A, parked=True))
    assert parking.overdue(now_s=700.0) == [A]


def test_a_pod_that_was_refused_by_others_is_woken_late_and_one_of_a_process_before_us_once_soon() -> None:
    parking = Parking(Refused())
    assert woken(parking, a="n1") == []
    assert is_due_at(parking, limits.FIRST_LOOK_S)
    parking = inherited(A, B)
    assert is_due_at(parking, limits.INHERITED_S)
    woken(parking, now_s=5.0, a="n1", b="n2")
    assert parking.overdue(now_s=5.0) == [B]
    assert is_due_at(parking, 1.0 + limits.FIRST_LOOK_S)


@pytest.mark.parametrize("offered", [True, False], ids=["its node", "no"])
def test_pods_before_us_are_left_alone_while_others_of_them_come(offered: bool) -> None:
    """kube-scheduler works off its queue; half a second after the last of them the others are woken, all the same."""
    coming = [PodUid(f"coming-{number}") for number in range(10)]
    parking = inherited(A, *coming)
    for number, uid in enumerate(coming):
        now_s = 0.3 * number
        parking.offered(uid, now_s=now_s) if offered else parking.refused(uid, None, now_s=now_s)
        assert parking.overdue(now_s=now_s + 0.2) == []
    assert is_due_at(parking, now_s + limits.QUIET_S)


def test_pods_before_us_wait_for_others_only_so_long() -> None:
    """The queue may be long, and those that were refused before sleep beside it."""
    coming = [PodUid(f"coming-{number}") for number in range(100)]
    parking = inherited(A, *coming)
    woken_s = []
    for number, uid in enumerate(coming):
        parking.offered(uid, now_s=number / 10)
        woken_s += [number / 10] * len(parking.overdue(now_s=number / 10))
    assert woken_s == [limits.INHERITED_LATEST_S]


def test_an_inherited_pod_is_woken_once_whatever_other_pods_and_plans_come_and_go() -> None:
    parking = inherited(A)
    woken(parking, a="n1", b="n2")
    parking.offered(B, now_s=limits.INHERITED_S)
    assert parking.overdue(now_s=limits.INHERITED_S) == [A]
    parking, found = inherited(A), []
    for second in range(1, 9):
        woken(parking, now_s=float(second), **({"a": "n1"} if second % 2 else {}))
        found += parking.overdue(now_s=float(second))
    assert found == [A]


INHERITED_NO_MORE: Mapping[str, Callable[[Parking], object]] = {  # case: what makes us know of the pod
    "it was refused": lambda parking: parking.refused(A, None, now_s=0.5),
    "it was offered its node": lambda parking: parking.offered(A, now_s=0.5),
    "it does not exist any more": lambda parking: parking.keep_only(set()),
    "we know nothing any more": Parking.reset,
}


@pytest.mark.parametrize("happens", INHERITED_NO_MORE.values(), ids=INHERITED_NO_MORE)
def test_a_pod_that_we_know_of_is_not_inherited(happens: Callable[[Parking], object]) -> None:
    parking = Parking(Refused())
    parking.inherit([A], now_s=0.0)
    happens(parking)
    woken(parking, now_s=2.0, a="n1")
    assert parking.overdue(now_s=2.5) == []


def test_a_planned_pod_that_does_not_come_is_woken_less_and_less_often() -> None:
    parking = parked(A)
    woken(parking, a="n1")
    found = [tenths / 10 for tenths in range(1, 4000) if parking.overdue(now_s=tenths / 10)]
    pauses = [later - earlier for earlier, later in pairwise(found)]
    assert found[0] == pytest.approx(limits.RETRY_S, abs=0.11)
    assert pauses[:5] == pytest.approx([2.2, 4.4, 8.8, 17.6, 35.2], abs=0.11)
    assert pauses[5:] == pytest.approx([limits.LONGEST_S] * len(pauses[5:]), abs=0.11)


def test_a_refusal_of_the_planned_node_is_repeated_soon_and_then_less_often() -> None:
    """1.1 s later, so that the second refusal is believed; with each further one twice as late."""
    parking = Parking(Refused())
    waited = []
    woken(parking, a="n1")  # not refused yet: awaited in its own time
    for start_s in (0.0, 100.0, 200.0):
        parking.refused(A, N1, now_s=start_s)
        waited.append(next(tenths for tenths in range(1000) if parking.overdue(now_s=start_s + tenths / 10)))
    assert waited == [11, 44, 176]  # each wake-up doubles the pause, and so does each refusal
    parking.refused(A, N2, now_s=300.0)
    assert parking.overdue(now_s=300.0 + limits.RETRY_S) == [A]


@pytest.mark.parametrize("offered", [True, False], ids=["it goes on to bind by itself", "it lost its place"])
def test_a_pod_is_not_awaited_without_need(offered: bool) -> None:
    parking = parked(A)
    woken(parking, a="n1")
    parking.offered(A, now_s=1.0) if offered else woken(parking, now_s=1.0)
    assert parking.overdue(now_s=100.0) == []


def test_a_reason_of_the_moment_is_corrected_once() -> None:
    """Refused as `not planned yet`, the pod is woken by the next plan even without a place, to get the real reason."""
    parking = parked(A, B, for_a_moment=True)
    parking.refused(B, None, now_s=0.1)
    assert [woken(parking), woken(parking)] == [[A], []]


def test_pods_that_do_not_exist_are_forgotten_at_the_second_look() -> None:
    """kube-scheduler may be ahead of our watch for a moment, not for two looks."""
    parking = parked(A)
    woken(parking, b="n1")
    for known in (set(), {A}, set()):
        parking.keep_only(known)
        assert parking.asleep([A]) == [A]
    parking.keep_only(set())
    assert (parking.empty, parking.overdue(now_s=100.0)) == (True, [])


KEPT: Mapping[str, Callable[[Parking], object]] = {  # case: why something is kept of the pod
    "it was refused": lambda parking: parking.refused(A, None, now_s=0.0),
    "it is planned, and has not come yet": lambda parking: woken(parking, a="n1"),
    "a former process may have refused it": lambda parking: parking.inherit([A], now_s=0.0),
}


@pytest.mark.parametrize("happens", KEPT.values(), ids=KEPT)
def test_pods_need_to_be_looked_at_only_while_something_is_kept_of_one(happens: Callable[[Parking], object]) -> None:
    parking = Parking(Refused())
    assert parking.empty
    happens(parking)
    assert not parking.empty
    for _ in range(2):
        parking.keep_only(set())
    assert parking.empty


AHEAD = {  # case: (whether kube-scheduler knows more, nodes asked, GPUs asked for)
    "room in our view, too": (False, ["free"], 0),
    "full in our view": (True, ["free", "full"], 0),
    "not known to us": (True, ["new"], 0),
    "nothing asked": (False, [], 0),
    "a resource that no allocatable shows": (False, ["free"], 1),
}


@pytest.mark.parametrize(("ahead", "asked", "gpu"), AHEAD.values(), ids=AHEAD)
def test_a_question_shows_that_we_are_behind(ahead: bool, asked: list[str], gpu: int) -> None:
    """kube-scheduler's own filters passed a node that cannot be right in our view."""
    cache = ClusterCache()
    cache.nodes.replace([node("free"), node("full", cpu="1")])
    cache.pods.put(pod("x", node="full", cpu="1"))
    assert have_room(cache.snapshot(), pod("p", gpu=gpu), [NodeName(name) for name in asked]) is not ahead


class Behind:
    def __init__(self) -> None:
        self.cache, change = ClusterCache(), asyncio.Event()
        self.cache.on_change = lambda _: change.set()
        self.catch_up = CatchUp(self.cache, LoopClock(), change)

    async def waited_s(self, uid: str, what: str = "watch") -> float:
        began_s = asyncio.get_running_loop().time()
        wait = self.catch_up.until(lambda: self.cache.pod(PodUid(uid)) is not None, PodUid(uid), what)
        if wait is not None:
            await wait
        return asyncio.get_running_loop().time() - began_s


@pytest.mark.looptime
@pytest.mark.parametrize("what", ["watch", "gang"])
async def test_a_question_waits_for_what_it_knows_and_we_do_not(what: str) -> None:
    """The share of the time that it takes is one of two: a wait for a gang leaves those for the watch as they were."""
    behind, member = Behind(), pod("p", gang="g", min_available=1)
    loop, [other] = asyncio.get_running_loop(), {"watch", "gang"} - {what}
    loop.call_later(LONGEST_S / 4, behind.cache.nodes.put, node("another change"))
    loop.call_later(LONGEST_S / 2, behind.cache.pods.put, member)
    assert await behind.waited_s(member.uid, what) == pytest.approx(LONGEST_S / 2)
    assert [await behind.waited_s(member.uid, what), await behind.waited_s("unknown", what)] == [0.0, 0.0]
    assert await behind.waited_s("unknown", other) == pytest.approx(LONGEST_S)


@pytest.mark.looptime
async def test_kube_scheduler_is_idle_after_a_moment_without_a_question() -> None:
    behind, found = Behind(), []
    for pause in (0.0, 0.5, 0.9, 1.1, 0.5):
        await asyncio.sleep(pause * LONGEST_S)
        found.append(behind.catch_up.asked())
    assert found == [True, False, False, True, False]


@pytest.mark.looptime
async def test_a_question_does_not_wait_long_nor_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each pod while nothing changes; what was waited for is bounded."""
    monkeypatch.setattr("extender.scheduling.verbs._REMEMBERED_MAX", 2)
    behind = Behind()
    assert await behind.waited_s("a") == pytest.approx(LONGEST_S)
    assert [await behind.waited_s("a"), await behind.waited_s("b")] == [0.0, 0.0]
    await asyncio.sleep(4 * LONGEST_S)
    assert await behind.waited_s("a") == 0.0
    for name in ("b", "c", "a"):
        assert await behind.waited_s(name) == pytest.approx(LONGEST_S)
        await asyncio.sleep(5 * LONGEST_S)


POD, OTHER = PodUid("p"), PodUid("other")


def refuse(guard: StormGuard, *moments_s: float, reason: Reason = Reason.NO_ROOM, uid: PodUid = POD) -> str:
    """Refuse the pod at these moments of a cluster that changes all the time: `e` for an error, `-` for a refusal."""
    return "".join("e" if guard.holds(uid, reason, now_s=at, changed_s=at) else "-" for at in moments_s)


def guarded() -> StormGuard:
    guard = StormGuard()
    assert refuse(guard, 0.0, 2.0, 4.0, 6.0) == "---e"
    return guard


def test_a_burst_is_not_a_storm_and_slow_refusals_never_become_errors() -> None:
    """Any number of refusals within `BURST_S`: ten pods end together, and the last one makes room."""
    guard = StormGuard()
    assert refuse(guard, *(i * limits.BURST_S / 50 for i in range(50))) == "-" * 50
    assert refuse(guard, limits.BURST_S) == "e"
    for every_s in (limits.WINDOW_S + 1.0, limits.WINDOW_S / (limits.AFTER - 1)):
        assert refuse(StormGuard(), *(i * every_s for i in range(20))) == "-" * 20


def test_who_keeps_coming_is_held_until_quiet_another_reason_or_being_let_through() -> None:
    assert refuse(guarded(), 7.0, 17.0, 27.0) == "eee"
    for end_s, held in ((limits.CALM_S - 1.0, True), (limits.CALM_S, False)):
        assert guarded().holds(POD, Reason.NO_ROOM, now_s=6.0 + end_s, changed_s=6.0) is held
    guard = guarded()
    assert refuse(guard, 7.0, reason=Reason.BEHIND) + refuse(guard, 7.0, uid=OTHER) == "--"
    guard = guarded()
    guard.passed(POD)
    assert refuse(guard, 7.0) == "-"


@pytest.mark.parametrize("pods", [30, 300, 1000])
@pytest.mark.parametrize("every_s", [0.5, 2.0, 3.0, 4.0, 6.0, 9.0])
def test_many_pods_together_are_a_storm_however_slowly_each_comes(pods: int, every_s: float) -> None:
    guard = StormGuard()
    moments = ((turn * every_s + number * every_s / pods, number) for turn in range(40) for number in range(pods))
    ordinary = [at for at, number in moments if refuse(guard, at, uid=PodUid(f"p{number}")) == "-"]
    settled_s = pods * limits.PER_POD_S + limits.WINDOW_S + every_s
    late = [at for at in ordinary if at >= settled_s]
    assert len(late) <= 1.1 * limits.AFTER / limits.PER_POD_S * (40 * every_s - settled_s) or not late
    if pods == 30 and every_s > limits.WINDOW_S / limits.AFTER:
        assert len(ordinary) == 40 * pods


def test_pods_that_are_gone_do_not_count() -> None:
    guard = StormGuard()
    for number in range(1000):
        refuse(guard, 0.0, uid=PodUid(f"gone{number}"))
    slowly = [200.0 + turn * limits.WINDOW_S * 0.6 for turn in range(20)]
    assert refuse(guard, *slowly) == "-" * 20


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.scheduling.answered_pods._REMEMBERED_MAX", 2)
    guard = guarded()
    for uid in (OTHER, PodUid("third")):
        refuse(guard, 6.5, uid=uid)
    assert refuse(guard, 7.0) == "-"
