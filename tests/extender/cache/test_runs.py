"""A gang is one run, and it has started when we saw it whole: what the cache makes of pods (docs/safety.md S23)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from scoring import GangKey, NodeName
from scoring.feasibility.quorum import quorum_of
from scoring.model import Controller, Gang, GangSource, GroupRef, JobSays, Phase, Pod, PodGroup, Role, RunRef
from scoring.model.reasons import Reason
from tests.builders import bound, pod
from tests.fuzz.consistency import assert_consistent

G = GangKey("default/g")


def member(name: str, *, job: str = "j", index: int = 0, **fields: object) -> Pod:
    made = pod(name, gang="g", min_available=3, role=Role.WORKER, index=index, job=job, **fields)  # type: ignore[arg-type]
    return replace(made, owner=Controller("batch/v1", "Job", job, f"uid-{job}"), run=RUNS[job])


def run(job: str, *, letter: str, **fields: object) -> list[Pod]:
    return [member(f"{letter}{index}", job=job, index=index, **fields) for index in range(3)]


RUNS = {name: RunRef(f"uid-{name}", "Job.batch", name) for name in ("j", "k")}


def cache_of(*pods: Pod) -> ClusterCache:
    cache = ClusterCache()
    cache.pods.replace(list(pods))
    return cache


def gang(cache: ClusterCache) -> Gang:
    """As it is now; what is kept equals what would be built again."""
    assert_consistent(cache)
    found = cache.gang(G)
    assert found is not None
    return found


def test_a_minimum_above_what_the_owner_makes_is_a_fault() -> None:
    """Unless more exist or one has a node, so that what was read is old, or a pod is not the owner's."""
    a, b, c = run("j", letter="a")
    for pods in ((a, b), (a, b, c), (bound(a, "n1"), b), (a, replace(b, owner=None))):
        cache = cache_of(*pods)
        cache.set_owners({"uid-j": JobSays(makes=2)})
        assert (gang(cache).problem is Reason.INVALID_GROUP) is (pods == (a, b))


def test_a_pod_group_created_again_changes_no_run() -> None:
    done = [replace(bound(one, "n1"), phase=Phase.SUCCEEDED, scheduled_s=1.0) for one in run("j", letter="a")]
    ref = GroupRef(G, GangSource.POD_GROUP)
    cache = cache_of(*(replace(one, group=ref) for one in (*done, *run("k", letter="b", created_s=100.0))))
    for groups in ([PodGroup(G, 3, created_s=50.0)], [], [PodGroup(G, 3, created_s=200.0)]):
        cache.pod_groups.replace(groups)
        assert gang(cache).problem is (None if groups else Reason.INVALID_GROUP)
        assert [pod.name for pod in gang(cache).members] == ["b0", "b1", "b2"]


STEPS: dict[str, Callable[[ClusterCache, Pod], object]] = {
    ".": lambda cache, one: cache.pods.put(one),  # It waits
    "~": lambda cache, one: cache.pods.assume(one.uid, NodeName("n1")),  # The API server confirmed its Binding
    "+": lambda cache, one: cache.pods.put(bound(one, "n1")),  # The watch shows it on its node
    "-": lambda cache, one: cache.pods.remove(one.key),
}
THREE, WATCHED, CONFIRMED = ".a .b .c ", "+a +b +c ", "~a ~b ~c "
STARTS = {  # case: what happens to members a, b, c and a successor, in turn, and how the gang stands then
    "when all of the minimum had nodes": THREE
    + "waits +a partial +b partial +c started -c -b started .d started -a waits",
    "bindings are no proof, as one may go before the last": THREE
    + CONFIRMED
    + "partial +a -a +b +c partial +d started",
    "a successor is no proof": THREE + "+a -c +b .d partial",
    "a member goes before the next question": THREE + WATCHED + CONFIRMED + "-a started",
    "it goes after a question": THREE + "waits " + WATCHED + CONFIRMED + "-a started",
    "it goes, and the watch was late": THREE + CONFIRMED + WATCHED + "-a started",
    "it goes after a question, and the watch was late": THREE + "waits " + CONFIRMED + WATCHED + "-a started",
}


@pytest.mark.parametrize("story", STARTS.values(), ids=STARTS)
def test_when_it_has_started(story: str) -> None:
    cache, members = ClusterCache(), {name: member(name, index=i, scheduled_s=5.0) for i, name in enumerate("abc")}
    members["d"] = member("d", index=2, created_s=50.0)
    for word in story.split():
        if word[0] in STEPS:
            STEPS[word[0]](cache, members[word[1]])
        else:
            assert gang(cache).started is cache.snapshot().gangs[G].started is (word == "started"), word
            assert cache.gangs.partial() == ({G} if word == "partial" else set()), word


def test_a_relist_does_not_mix_what_was_with_what_is() -> None:
    """The watch was away: one member went while the last one came."""
    a, b, c = run("j", letter="a")
    cache = cache_of(bound(a, "n1"), bound(b, "n1"), c)
    assert not gang(cache).started
    cache.pods.replace([bound(b, "n1"), bound(c, "n1")])
    assert (gang(cache).started, cache.gangs.partial()) == (False, {G})


def test_our_note_survives_a_restart() -> None:
    a, b, _ = (bound(one, "n1") for one in run("j", letter="a"))
    again = member("c-again", index=2, created_s=50.0)
    assert not gang(cache_of(a, b, again)).started
    for phase in (Phase.RUNNING, Phase.FAILED):
        cache = cache_of(a, replace(b, phase=phase), again)
        cache.note_starts({b.uid: G})
        assert gang(cache).started is (phase is Phase.RUNNING), "a failed pod is no member that the note is about"


def test_an_invalid_gang_does_not_start() -> None:
    """What its minimum is cannot be said, so having nodes is no proof."""
    pods = [bound(one, "n1") for one in run("j", letter="a")]
    ref = GroupRef(G, GangSource.POD_GROUP)
    cache = cache_of(*(replace(one, group=ref) for one in pods))
    assert (gang(cache).problem, gang(cache).started) == (Reason.INVALID_GROUP, False)
    cache.pod_groups.replace([PodGroup(G, 3)])
    assert gang(cache).started
    cache.pod_groups.replace([])
    assert gang(cache).started, "it had started before"


def test_all_pods_have_nodes_although_one_is_lost() -> None:
    """A node that went while we were away: its pods are still on it, so the gang had started."""
    cache = cache_of(*(bound(one, node) for one, node in zip(run("j", letter="a"), ("n1", "n2", "gone"), strict=True)))
    one = gang(cache)
    assert one.started
    assert not quorum_of(one, lost_nodes=frozenset({NodeName("gone")})).reached_by(quorum_of(one).placed)
