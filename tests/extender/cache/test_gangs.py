"""How pods and PodGroups become a gang: size, order, options, and what is wrong with it."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.cache.gangs import OUTLIVED_FOR_S
from scoring import GangKey, NodeName, PodUid
from scoring.model import Constraints, Gang, GangSource, GroupRef, GroupStatus, Phase, Pod, PodGroup, Role
from scoring.model.reasons import Reason
from tests.builders import pod
from tests.fuzz.consistency import assert_consistent

G = GangKey("default/g")


def labelled(name: str, minimum: int | None = 2, **fields: object) -> Pod:
    return pod(name, gang="g", min_available=minimum, **fields)  # type: ignore[arg-type]


def grouped(name: str, source: GangSource = GangSource.POD_GROUP, minimum: int | None = None, **fields: object) -> Pod:
    return replace(pod(name, **fields), group=GroupRef(G, source, minimum))  # type: ignore[arg-type]


def gang(pods: Iterable[Pod], *groups: PodGroup) -> Gang:
    cache = ClusterCache()
    cache.pods.replace(list(pods))
    cache.pod_groups.replace(groups)
    assert_consistent(cache)
    return cache.snapshot().gangs[G]


def test_members_priority_and_options() -> None:
    """Members are sorted by role, index and name; the first one's options count, and what goes contradicts nothing."""
    members = [
        labelled("other", role=Role.OTHER, priority=5),
        labelled("w10", role=Role.WORKER, index=10, priority=5),
        labelled("w9", role=Role.WORKER, index=9, priority=5),
        labelled("w-b", role=Role.WORKER, priority=5),
        labelled("w-a", role=Role.WORKER, priority=5, options=(("near", "A"), ("zones", "A"))),
        labelled("c", role=Role.CHIEF, index=0, priority=5),
        labelled("ps", role=Role.PS, index=3, priority=5, options=(("zones", "B"),)),
        labelled("x", 3, role=Role.OTHER, deleting=True, priority=9),
        labelled("y", 4, role=Role.OTHER, phase=Phase.FAILED, scheduler_name="x"),
    ]
    found = gang(members)
    assert [one.name for one in found.members] == ["ps", "c", "w9", "w10", "w-a", "w-b", "other", "x", "y"]
    assert (found.priority, found.options, found.min_member) == (5, (("near", "A"), ("zones", "B")), 2)
    assert found.problem is None


OLD_GROUP = PodGroup(G, 3, created_s=1.0, schedule_timeout_s=60.0)
DONE = labelled("b", created_s=5.0, scheduled_s=9.0, phase=Phase.SUCCEEDED)
Declared = tuple[int, float, float | None, Reason | None]
BY_ANNOTATION = grouped("a", GangSource.ANNOTATION, 3), grouped("a", GangSource.ANNOTATION)
SIZES = {  # case: ((min_member, created_s, time-out, problem), pods, PodGroups)
    "labels, as old as the oldest, finished or not": ((2, 5.0, None, None), [labelled("a", created_s=9.0), DONE], []),
    "finished members alone": ((2, 5.0, None, None), [DONE], []),
    "a PodGroup": ((3, 1.0, 60.0, None), [grouped("a", created_s=9.0)], [OLD_GROUP]),
    "an annotation": ((3, 0.0, None, None), [BY_ANNOTATION[0]], []),
    "an annotation and a PodGroup": ((5, 0.0, None, None), [BY_ANNOTATION[1]], [PodGroup(G, 5)]),
    "nothing": ((1, 0.0, None, Reason.INVALID_GROUP), [BY_ANNOTATION[1]], []),
}


@pytest.mark.parametrize(("want", "pods", "groups"), SIZES.values(), ids=SIZES)
def test_size_and_age(want: Declared, pods: list[Pod], groups: list[PodGroup]) -> None:
    found = gang(pods, *groups)
    assert (found.min_member, found.created_s, found.schedule_timeout_s, found.problem) == want
    assert (found.own, found.source) == (True, pods[0].group.source if pods[0].group else None)


BAD = GroupRef(G, GangSource.LABELS, None, "label x is 'y'")
MIXED = [labelled("a"), labelled("b", scheduler_name="default-scheduler")]
UNEQUAL = [labelled("a"), labelled("b", priority=9)]
BY_TWO = [grouped("a", GangSource.ANNOTATION, 3), grouped("b", GangSource.ANNOTATION)]
DIFFER = "the pods name different min-available:"
PROBLEMS = [  # (what is wrong and the way out, pods, PodGroups)
    ("pod default/b: label x is 'y'", [labelled("a"), replace(labelled("b"), group=BAD)], ()),
    ("PodGroup default/g does not exist: create it, or remove the label", [grouped("a")], ()),
    ("PodGroup default/g has minMember 0: it must be at least 1", [grouped("a")], (PodGroup(G, 0),)),
    (f"{DIFFER} 2 (a), 3 (b); make them equal", [labelled("a"), labelled("b", 3)], ()),
    (f"{DIFFER} 3 (a), none (b); make them equal", BY_TWO, ()),
    ("the pods name their group in different ways: labels pod-group.scheduling.sigs.k8s.io (a), PodGroup "
        "scheduling.x-k8s.io/v1alpha1 (b); use one of them", [labelled("a"), grouped("b")], (PodGroup(G, 2),)),
    ("spec.schedulerName differs: netgang (a), default-scheduler (b); make them equal", MIXED, ()),
    ("spec.priority differs: 0 (a), 9 (b); use one priorityClassName", UNEQUAL, ()),
]  # fmt: skip


@pytest.mark.parametrize(("words", "pods", "groups"), PROBLEMS, ids=[one[0] for one in PROBLEMS])
def test_problems(words: str, pods: list[Pod], groups: tuple[PodGroup, ...]) -> None:
    """What contradicts itself is shown, and refused with a constant reason and a sentence that names the pods.

    Of a gang of which only some pods are ours none is treated as ours (docs/safety.md S1).
    """
    found = gang(pods, *groups)
    assert (found.problem, found.own, len(found.members)) == (Reason.INVALID_GROUP, pods is not MIXED, len(pods))
    assert words == found.problem_detail


def test_the_node_of_a_pod_of_the_same_name_before_it() -> None:
    cache = ClusterCache()  # which remembers as many as are there at most
    cache.pods.replace([labelled(f"g-{i}", node=f"n{i}") for i in range(6)])
    for i in (0, 1, 2, 3):
        cache.pods.remove(f"default/g-{i}")
    cache.pods.put(replace(labelled("g-5", node="n5"), phase=Phase.FAILED))
    cache.pods.remove("default/g-5")
    again = [replace(labelled(f"g-{i}"), uid=PodUid(f"again-{i}")) for i in (0, 2, 3, 5, 9)]
    for one in again:
        cache.pods.put(one)
    assert_consistent(cache)
    assert dict(cache.snapshot().gangs[G].former) == {again[2].uid: "n3"}


def test_more_members_than_can_wait_at_bind_are_a_fault() -> None:
    """It was tried for ever: the last calls were refused, and nothing said so."""
    found = [gang([labelled("a", least)]) for least in (4096, 4097)]
    assert [one.problem for one in found] == [None, Reason.INVALID_GROUP]
    assert found[1].problem_detail == "the minimum is 4097, and at most 4096 pods can start at once: lower the minimum"


def test_volumes_and_places_make_no_kinds_of_members() -> None:
    """Each pod of a StatefulSet has its own claim, each admitted one its own node. A pod may change while it waits."""
    members = [labelled(f"p{i}", cpu=f"{i + 1}") for i in range(32)]
    claiming = replace(members[0].member_class, constraints=Constraints(claims=("default/data",)))
    there = [labelled("placed", cpu="98", node="n"), labelled("admitted", cpu="99", admitted_to=NodeName("n"))]
    cache = ClusterCache()
    cache.pods.replace([*members, replace(labelled("x"), member_class=claiming), *there])
    assert cache.snapshot().gangs[G].problem is None
    cache.pods.put(labelled("x", cpu="98"))
    assert "of 33 kinds" in cache.snapshot().gangs[G].problem_detail


def test_native_gangs_have_the_minimum_of_their_own_pod_groups() -> None:
    """They are never refused: kube-scheduler says what is wrong. A PodGroup of coscheduling may have the same name."""
    cache = ClusterCache()
    cache.pods.replace(
        [grouped("a", GangSource.NATIVE), grouped("b", GangSource.NATIVE, priority=3, scheduler_name="x")]
    )
    cache.pod_groups.replace([PodGroup(G, 5)])
    for minimum in (2, 1):  # `minCount` may change (1.37)
        cache.native_groups.replace([PodGroup(G, minimum, created_s=7.0)])
        found = cache.snapshot().gangs[G]
        assert (found.min_member, found.created_s, found.problem) == (minimum, 7.0, None)
    cache.native_groups.remove(G)
    found = cache.snapshot().gangs[G]
    assert (found.min_member, found.problem, cache.sizes().pod_groups) == (2, None, 1)
    assert_consistent(cache)


SEEN = PodGroup(G, 1, uid="u1", resource_version="1")


def test_a_pod_group_may_come_later_and_its_status_decides_nothing() -> None:
    cache = ClusterCache()
    cache.pods.put(grouped("a"))
    assert cache.snapshot().gangs[G].problem is Reason.INVALID_GROUP
    cache.pod_groups.put(SEEN)
    before = cache.snapshot()
    assert before.gangs[G].problem is None
    written = replace(SEEN, resource_version="2", status=GroupStatus("Running", running=2), ours=True)
    cache.pod_groups.put(written)
    cache.pod_groups.put(PodGroup(GangKey("default/unused"), 1))
    assert (cache.snapshot() is before, cache.pod_groups.of_gang(before.gangs[G])) == (True, written)
    cache.pod_groups.replace([replace(written, min_member=5)])
    assert cache.snapshot().gangs[G].min_member == 5
    cache.pod_groups.remove(G)
    assert cache.snapshot().gangs[G].problem is Reason.INVALID_GROUP
    assert_consistent(cache)


def test_other_writers_are_known_as_long_as_they_show() -> None:
    groups = ClusterCache().pod_groups
    other = replace(SEEN, key=GangKey("x/y"), other_writer="controller")
    groups.put(SEEN)
    groups.put(other)
    assert groups.other_writer == "controller"
    groups.put(replace(other, other_writer=""))
    assert groups.other_writer is None
    groups.put(other)
    groups.replace([SEEN])
    assert (groups.other_writer, list(groups.by_key)) == (None, [G])


BELIEVED = {  # case: (whether default/a-9 is believed, who ran from 0 s on, until when, when it is asked)
    "two of its owner": (False, "default/a-1 default/a-2", 151.0, 160.0),
    "three of its namespace": (False, "default/b default/c default/d", 151.0, 160.0),
    "three of another namespace": (True, "x/a-1 x/a-2 x/b", 151.0, 160.0),
    "three that erred by half and a minute": (True, "default/b default/c default/d", 149.0, 160.0),
    "a month later": (True, "default/b default/c default/d", 151.0, 151.0 + OUTLIVED_FOR_S),
}


@pytest.mark.parametrize(("believed", "ran", "until_s", "asked_s"), BELIEVED.values(), ids=BELIEVED)
def test_who_outlived_the_minute_that_he_declared(believed: bool, ran: str, until_s: float, asked_s: float) -> None:
    """It counts while they run, and once; a deadline is believed of anybody."""
    cache, fields = ClusterCache(), {key: {"node": "n1", "scheduled_s": 0.0} for key in ran.split()}
    for key, more in {**fields, "default/a-8": {"limit_s": 300.0}, "default/a-9": {}}.items():
        namespace, _, name = key.partition("/")
        options = (("expected-duration", "1m"),)
        cache.pods.put(pod(name, namespace=namespace, gang=name, min_available=1, options=options, **more))  # type: ignore[arg-type]
    for _ in range(2):
        cache.expire(until_s)
    for key in fields:
        cache.pods.remove(key)
    cache.expire(asked_s)
    gangs = (cache.snapshot().gangs[GangKey(f"default/{name}")] for name in ("a-8", "a-9"))
    assert [(read.length_s, read.believed) for read in gangs] == [(60.0 if believed else 300.0, True), (60.0, believed)]
