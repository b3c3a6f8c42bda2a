"""A gang is one run: which pods under its name are counted (docs/safety.md S23)."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import PodUid
from scoring.model import Controller, Phase, Pod, Role, RunRef
from scoring.model.gang import runs_of
from tests.builders import pod

JOB = "Job.batch"


def job(name: str, *, uid: str | None = None, whole: str = "") -> RunRef:
    """A Job; its uid is its name's unless it is another of that name."""
    return RunRef(uid or f"uid-{name}", JOB, name, whole)


def of(run: RunRef | None, name: str, *, work: str | None = None, **fields: Any) -> Pod:
    """A pod of that controller; `work`: the job that its labels name, its controller by default."""
    fields.setdefault("role", Role.WORKER if run is not None else Role.OTHER)
    named = work or (run.name if run is not None else None)
    return replace(pod(name, job=named, **fields), run=run)


def done(run: RunRef | None, name: str, **fields: Any) -> Pod:
    return of(run, name, node="n1", phase=Phase.SUCCEEDED, scheduled_s=1.0, **fields)


def new(run: RunRef | None, name: str, **fields: Any) -> Pod:
    return of(run, name, created_s=100.0, **fields)


def split(*pods: Pod) -> list[str]:
    """Names of the current, the earlier and the later pods, each as one text."""
    return [" ".join(sorted(one.name for one in some)) for some in runs_of(pods)]


NIGHT_1, NIGHT_2 = job("nightly-1"), job("nightly-2")
AGAIN = job("nightly-1", uid="another")
TF, TF_AGAIN = (RunRef(uid, "training.kubeflow.org/tfjob-controller", "mnist") for uid in ("t1", "t2"))
MPI, MPI_2 = (RunRef(uid, "training.kubeflow.org/mpi-operator", name) for uid, name in (("m1", "a"), ("m2", "b")))
LAUNCH, LAUNCH_2 = (
    RunRef(uid, "training.kubeflow.org/mpi-operator", f"{name}-launcher") for uid, name in (("l1", "a"), ("l2", "b"))
)
FIRST, SECOND = job("set-init-0", whole="s1"), job("set-node-0", whole="s1")
OTHER_SET = job("set-node-0", uid="other", whole="s2")
CLUSTER, SUBMIT = RunRef("r1", "RayCluster.ray.io", "ray"), job("ray-submit")

SPLITS = {  # case: (current, earlier, later; pods)
    "one Job, some of it done": ("a b", "", "", [done(NIGHT_1, "a"), of(NIGHT_1, "b")]),
    "one Job, its pods replaced": ("a b", "", "", [done(NIGHT_1, "a"), new(NIGHT_1, "b")]),
    "a CronJob's next Job": ("b", "a", "", [done(NIGHT_1, "a"), new(NIGHT_2, "b")]),
    "a CronJob's next Job in the same second": ("b", "a", "", [done(NIGHT_1, "a"), of(NIGHT_2, "b")]),
    "a Job created again under its name": ("b", "a", "", [done(NIGHT_1, "a"), new(AGAIN, "b")]),
    "two Jobs that live": ("a", "", "b", [of(NIGHT_1, "a"), new(NIGHT_2, "b")]),
    "the younger has nodes": ("b", "", "a", [of(NIGHT_1, "a"), new(NIGHT_2, "b", node="n1")]),
    "the older is being deleted": ("b", "a", "", [of(NIGHT_1, "a", node="n1", deleting=True), new(NIGHT_2, "b")]),
    "three Jobs, the first done": ("b", "a", "c", [done(NIGHT_1, "a"), of(NIGHT_2, "b"), new(AGAIN, "c")]),
    "all done: the last one": ("b", "a", "", [done(NIGHT_1, "a"), done(NIGHT_2, "b", created_s=50.0)]),
    "two Jobs by hand, of different roles": ("p w", "", "", [of(job("ps"), "p", role=Role.PS), new(job("work"), "w")]),
    "the same, one is done": ("p w", "", "", [done(job("ps"), "p", role=Role.PS), of(job("work"), "w")]),
    "the same, done before the other was there": ("w", "p", "", [done(job("ps"), "p", role=Role.PS),
        new(job("work"), "w")]),
    "a TFJob created again, while its chief's pod remains": ("w", "c", "", [done(TF, "c"), new(TF_AGAIN, "w")]),
    "an MPIJob and its launcher's Job": ("l w", "", "", [new(LAUNCH, "l", work="a", role=Role.CHIEF),
        of(MPI, "w", work="a", node="n1")]),
    "an MPIJob whose launcher is done": ("l w", "", "", [done(LAUNCH, "l", work="a", role=Role.CHIEF),
        of(MPI, "w", work="a", node="n1")]),
    "an MPIJob created after another's launcher": ("w", "l", "", [done(LAUNCH, "l", work="a", role=Role.CHIEF),
        new(MPI_2, "w", work="b")]),
    "two MPIJobs that live": ("l w", "", "m x", [of(LAUNCH, "l", work="a", role=Role.CHIEF), of(MPI, "w", work="a",
        node="n1"), new(LAUNCH_2, "m", work="b", role=Role.CHIEF), new(MPI_2, "x", work="b")]),
    "a JobSet whose first Job is done": ("a b", "", "", [done(FIRST, "a", work="s"), new(SECOND, "b", work="s")]),
    "a JobSet created again": ("b", "a", "", [done(FIRST, "a", work="s"), new(OTHER_SET, "b", work="s")]),
    "a JobSet that begins again: its Jobs are others": ("b", "a", "", [done(SECOND, "a", work="s"),
        new(replace(SECOND, uid="2nd"), "b", work="s")]),
    "a JobSet that begins again: what is left of a Job goes": ("b", "a", "",
        [done(SECOND, "a", work="s", deleting=True), new(replace(FIRST, uid="2nd"), "b", work="s")]),
    "a RayCluster and the Job that submits to it": ("h s", "", "", [of(CLUSTER, "h", node="n1"), new(SUBMIT, "s")]),
    "bare pods, some done": ("a b", "", "", [done(None, "a"), of(None, "b")]),
    "bare pods after bare pods": ("b", "a", "", [done(None, "a"), new(None, "b")]),
    "bare pods beside those that still run": ("b c", "", "", [of(None, "b", node="n1"), new(None, "c")]),
    "a bare pod for one that failed": ("a b c", "", "", [of(None, "a", node="n1"), of(None, "b", phase=Phase.FAILED),
        new(None, "c")]),
    "left behind by a Job that is gone": ("b", "a", "", [done(job("j", uid="1"), "a"), new(job("j", uid="2"), "b")]),
}  # fmt: skip


@pytest.mark.parametrize(("current", "earlier", "later", "pods"), SPLITS.values(), ids=SPLITS)
def test_which_pods_are_the_gang(current: str, earlier: str, later: str, pods: list[Pod]) -> None:
    """Parts of one job count together; a former run's finished pods for nothing; a second live run waits."""
    for order in permutations(pods):
        assert [current, earlier, later] == split(*order)


def test_two_jobs_of_which_neither_is_a_run() -> None:
    """Both want less than the minimum: parts of one gang. One that is a run by itself, or not known yet, is a run."""
    pods = [of(NIGHT_1, "a"), new(NIGHT_2, "b")]
    cases = {(3, 3, 6): ["a", "b"], (3, 3, 3): ["a"], (3, 6, 6): ["a"], (3, None, 6): ["a"]}
    for (one, other, least), current in cases.items():
        counts = {NIGHT_1.uid: one, NIGHT_2.uid: other}
        wanted = {uid: count for uid, count in counts.items() if count is not None}
        runs = runs_of(pods, least=lambda least=least: least, wanted=wanted)  # type: ignore[misc]
        assert [pod.name for pod in runs.current] == current
        assert len(runs.later) == 2 - len(current)


def test_an_index_that_runs_again_counts_once() -> None:
    """An Indexed Job that shrank and grew runs an index again beside the pod that Succeeded for it."""
    owner = Controller("batch/v1", "Job", "j", "uid-j")
    seats = [replace(one, owner=owner) for one in (done(job("j"), "old", index=1), new(job("j"), "again", index=1))]
    first = replace(done(job("j"), "first", index=0), owner=owner)
    assert split(*seats, first) == ["again first", "old", ""]
    assert split(seats[0], first) == ["first old", "", ""]
    elsewhere = replace(seats[1], owner=replace(owner, uid="uid-k"))
    assert split(seats[0], elsewhere) == ["again old", "", ""], "another Job's index is another place"


RUNS = [None, NIGHT_1, NIGHT_2, AGAIN, TF, TF_AGAIN, MPI, LAUNCH, MPI_2, FIRST, SECOND, OTHER_SET]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(RUNS),
            st.sampled_from(Phase),
            st.booleans(),
            st.booleans(),
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=7,
    )
)
def test_every_pod_is_somewhere_once(drawn: list[tuple[RunRef | None, Phase, bool, bool, int, int]]) -> None:
    """Whatever is there: nothing is lost, what lives is never earlier, what is later lives or waits with what does."""
    pods = [
        of(
            run,
            f"p{number}",
            phase=phase,
            node="n1" if bound or phase is Phase.RUNNING else None,
            deleting=deleting,
            created_s=float(created),
            scheduled_s=float(created + after) if bound else None,
        )
        for number, (run, phase, bound, deleting, created, after) in enumerate(drawn)
    ]
    living = [p for p in pods if not p.terminal and not p.deleting]
    for ended in (frozenset[PodUid](), frozenset(p.uid for p in pods)):
        runs = runs_of(pods, ended=ended)
        assert sorted(p.uid for some in runs for p in some) == sorted(p.uid for p in pods)
        assert runs.current
        assert not set(living) & set(runs.earlier)
        assert bool(living) == any(p in living for p in runs.current)
        again = runs_of(list(runs.current), ended=ended)
        assert again.current == runs.current or not living
