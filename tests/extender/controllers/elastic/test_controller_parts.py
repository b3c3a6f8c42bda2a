"""The parts of the elastic controller, each by itself: stages, views, notes, records, retries."""

from typing import Any

import pytest
from msgspec.structs import replace

from extender.controllers.elastic.jobs import ARRIVES_S, GROWTH_S, REMOVAL_S, RESERVE_S, gang_key_of, view_of
from extender.controllers.elastic.jobs import ChangeFacts as Facts
from extender.controllers.elastic.kinds import Intent, NotNow, Requester, Seen, Unsafe, WorkerBounds
from extender.controllers.elastic.records import OPEN, Records, Resize, Stage
from extender.runtime.telemetry import Telemetry
from scoring import GangKey, Namespace
from scoring.model import Gang, GangSource, Phase, Pod, Role
from scoring.scaling.job import JobKey, Wants
from tests.builders import gang, pod

LOW = JobKey(Namespace("default"), "TFJob.kubeflow.org", "low")
HEAVY = GangKey("default/heavy")
SEEN = Seen(key=LOW, uid="u1", workers=3, bounds=WorkerBounds(2, None, "annotation"), unsafe=None, rests=None)
NOTE = Intent(6, 3, 100.0, Requester.QUEUE, "room", HEAVY, 6, 6, (100.0,))  # what `SHRINK` writes on the job
SHRINK = Resize(LOW, "u1", NOTE, Stage.REMOVING)
FREED = replace(SHRINK, stage=Stage.FREED, gone_s=105.0)
FEWER = replace(SHRINK, intent=Intent(6, 3, 100.0, Requester.METRICS))
GROW = Resize(LOW, "u1", Intent(2, 3, 100.0, Requester.QUEUE, "room"), Stage.GROWING)


def facts(*, seen: Seen | None = SEEN, left: int = 0, bound: int = 3, waits: bool = True, runs: bool = False) -> Facts:
    """What can be seen: the patch took effect, the pods are gone, the beneficiary waits."""
    return Facts(SHRINK, seen, left, left, bound, waits=waits, runs=runs)


STEP = replace(SHRINK, intent=Intent(6, 5, 100.0, Requester.QUEUE, "room", HEAVY, target=3))
LATER = replace(SHRINK, intent=STEP.intent.one_further(), stepped_s=120.0)


def step(workers: int, left: int, going: int, bound: int, *, runs: bool = False) -> Facts:
    return Facts(SHRINK, replace(SEEN, workers=workers), left, going, bound, waits=not runs, runs=runs)


STAGES = {  # case: (stage, change, facts, now_s)
    "pods are going": (Stage.REMOVING, SHRINK, facts(left=2), 110.0),
    "pods are gone": (Stage.FREED, SHRINK, facts(), 110.0),
    "they never go": (Stage.GIVEN_BACK, SHRINK, facts(left=2), 101.0 + REMOVAL_S),
    "the beneficiary is let in": (Stage.FREED, FREED, facts(), 110.0),
    "the beneficiary runs": (Stage.DONE, FREED, facts(waits=False, runs=True), 110.0),
    "it runs before the last pod is gone": (Stage.DONE, SHRINK, facts(left=1, waits=False, runs=True), 110.0),
    "the beneficiary never comes": (Stage.GIVEN_BACK, FREED, facts(), 106.0 + RESERVE_S),
    "the beneficiary is gone": (Stage.GIVEN_BACK, FREED, facts(waits=False), 110.0),
    "the job is gone": (Stage.OVERRULED, SHRINK, facts(seen=None, left=2), 110.0),
    "another job has its name": (Stage.OVERRULED, SHRINK, facts(seen=replace(SEEN, uid="u2")), 110.0),
    "the job ended": (Stage.OVERRULED, SHRINK, facts(seen=replace(SEEN, rests=NotNow.ENDED)), 110.0),
    "the watch is behind": (Stage.REMOVING, SHRINK, facts(seen=replace(SEEN, workers=6)), 100.0 + ARRIVES_S),
    "the patch was lost": (Stage.OVERRULED, SHRINK, facts(seen=replace(SEEN, workers=6)), 101.0 + ARRIVES_S),
    "somebody scaled": (Stage.OVERRULED, SHRINK, facts(seen=replace(SEEN, workers=4)), 101.0),
    "somebody scaled back": (Stage.OVERRULED, FREED, facts(seen=replace(SEEN, workers=6, intent=NOTE)), 106.0),
    "fewer for nobody": (Stage.DONE, FEWER, facts(waits=False), 101.0),
    "fewer, pods are going": (Stage.REMOVING, FEWER, facts(left=1, waits=False), 101.0),
    "growing": (Stage.GROWING, GROW, facts(bound=2, waits=False), 101.0),
    "grown": (Stage.DONE, GROW, facts(bound=3, waits=False), 101.0),
    "growth found no room": (Stage.GIVEN_BACK, GROW, facts(bound=2, waits=False), 101.0 + GROWTH_S),
    "one by one, the first worker is going": (Stage.REMOVING, STEP, step(5, 3, 1, 5), 125.0),
    "one by one, the first is gone: the next": (Stage.REMOVING, STEP, step(5, 2, 0, 5), 125.0),
    "one by one, the watch is behind": (Stage.REMOVING, LATER, step(5, 2, 0, 5), 125.0),
    "one by one, the second is gone: the next": (Stage.REMOVING, LATER, step(4, 1, 0, 4), 125.0),
    "one by one, all are gone by themselves: the next": (Stage.REMOVING, LATER, step(4, 0, 0, 4), 125.0),
    "one by one, the beneficiary runs by now": (Stage.DONE, LATER, step(4, 1, 0, 4, runs=True), 125.0),
    "one by one, somebody scaled": (Stage.OVERRULED, LATER, step(6, 1, 0, 4), 125.0),
}


@pytest.mark.parametrize(("case", "want", "change", "seen", "now_s"), [(case, *one) for case, one in STAGES.items()])
def test_stages(case: str, want: Stage, change: Resize, seen: Facts, now_s: float) -> None:
    """How far a change has come follows from what can be seen; whatever ends it has a moment."""
    now = replace(seen, change=change).followed(now_s)
    assert now.stage is want
    assert (now.ended_s is None) == (want in OPEN)
    assert now == change if want is change.stage else now != change
    again = replace(seen, change=now)
    assert again.followed(now_s).stage is want or want not in OPEN
    assert again.steps_on is case.endswith("the next")
    assert want in OPEN or (now.intent.goal, now.intent.target) == (now.intent.after, None)


def test_what_a_change_cost() -> None:
    done = replace(facts(waits=False, runs=True), change=FREED).followed(107.0)
    assert (done.lost_pod_s, done.took_s) == (21.0, 7.0)
    lapsed = replace(facts(), change=FREED).followed(300.0)
    assert (lapsed.lost_pod_s, lapsed.took_s) == (600.0, None)
    assert (SHRINK.lost_pod_s, GROW.lost_pod_s) == (None, None)


def worker(index: int, *, name: str, **fields: Any) -> Pod:
    return pod(name, role=Role.WORKER, index=index, gang="low", job="low", **fields)


def members(*, workers: int = 3, **fields: object) -> list[Pod]:
    ps = pod("low-ps-0", role=Role.PS, index=0, gang="low", job="low", node="n1")
    return [ps, *(worker(i, name=f"low-worker-{i}", node="n1", **fields) for i in range(workers))]


Where = tuple[list[Pod], Gang | None, Unsafe | NotNow | None]


def around(pods: list[Pod] | None = None, *, group: Gang | None = None, also: Unsafe | NotNow | None = None) -> Where:
    there = members() if pods is None else pods
    return there, group or gang("low", members=there, min_member=3), also


REFUSALS = {  # case: (refusal, job, its pods, gang and what else is known)
    "fine": (None, SEEN, around()),
    "unsafe": (Unsafe.CHIEF, replace(SEEN, unsafe=Unsafe.CHIEF), around()),
    "autoscaled": (Unsafe.AUTOSCALED, SEEN, around(also=Unsafe.AUTOSCALED)),
    "another kind's job of its name": (NotNow.NAMESAKE, SEEN, around(also=NotNow.NAMESAKE)),
    "suspended": (NotNow.SUSPENDED, replace(SEEN, rests=NotNow.SUSPENDED), around()),
    "restarting": (NotNow.RESTARTING, replace(SEEN, rests=NotNow.RESTARTING), around()),
    "deleted": (NotNow.DELETED, replace(SEEN, rests=NotNow.DELETED), around()),
    "no gang": (NotNow.NO_GANG, SEEN, (members(), None, None)),
    "others' gang": (NotNow.NO_GANG, SEEN, around(group=replace(gang("low", members=members()), own=False))),
    "native gang": (NotNow.NO_GANG, SEEN, around(group=replace(gang("low", 4), source=GangSource.NATIVE))),
    "its last change": (NotNow.UNDER_WAY, SEEN, around(also=NotNow.UNDER_WAY)),
    "the last attempt": (NotNow.ATTEMPT_FAILED, SEEN, around(also=NotNow.ATTEMPT_FAILED)),
    "a worker is missing": (NotNow.UNSETTLED, SEEN, around(members(workers=2))),
    "a worker too many": (NotNow.UNSETTLED, SEEN, around(members(workers=4))),
    "workers are being deleted": (NotNow.UNSETTLED, SEEN, around(members(deleting=True))),
    "a failed worker was replaced": (None, SEEN, around([*members(), worker(1, name="x", phase=Phase.FAILED)])),
}


@pytest.mark.parametrize(("want", "seen", "where"), REFUSALS.values(), ids=REFUSALS)
def test_when_a_job_is_left_alone(want: str | None, seen: Seen, where: Where) -> None:
    view = view_of(seen, *where)
    assert view.job.refusal == want


OURS = Intent(6, 3, 9.0, Requester.QUEUE, "", HEAVY, 6, 6, (5.0, 9.0))
FIELDS: dict[str, tuple[Seen, dict[str, Any]]] = {  # case: (job, fields as decisions see them)
    "with our note": (
        replace(SEEN, intent=OURS, wants=Wants.LOSS),
        {"workers": 3, "min_workers": 2, "max_workers": 6, "grow_back_to": 6, "changed_s": 9.0,
         "changes_s": (5.0, 9.0), "wants": Wants.LOSS}),
    "after somebody else's change our note is history": (
        replace(SEEN, intent=replace(OURS, after=4)), {"max_workers": 3, "grow_back_to": None, "changed_s": 9.0}),
    "without bounds": (replace(SEEN, bounds=WorkerBounds()), {"min_workers": 3, "max_workers": 3}),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "fields"), FIELDS.values(), ids=FIELDS)
def test_what_decisions_see(seen: Seen, fields: dict[str, Any]) -> None:
    view = view_of(seen, *around())
    assert {name: getattr(view.job, name) for name in fields} == fields
    assert sorted(view.job.indexes.values()) == [0, 1, 2]
    assert view.elastic is (seen.bounds.least is not None)


def test_a_gang_that_we_do_not_steer_limits_the_minimum() -> None:
    """Below the gang's minimum a restart could not start again, so the job is not shrunk below it."""
    seen = replace(SEEN, bounds=WorkerBounds(1, None, "annotation"))
    assert view_of(seen, *around()).job.min_workers == 1
    assert view_of(replace(seen, key=replace(LOW, kind="Job.batch")), *around()).job.min_workers == 2


def test_the_gang_of_a_job() -> None:
    assert gang_key_of(members()) == "default/low"
    others: list[list[Pod]] = [[*members(), pod("y", gang="other")], [*members(), pod("y")], []]
    assert [gang_key_of(pods) for pods in others] == [None] * 3


def test_records_are_bounded_and_keep_the_newest() -> None:
    records = Records(Telemetry(), most=5, most_a_job=3)
    for uid, at_s in (*(("u1", float(number)) for number in range(4)), *((f"u{number}", 10.0) for number in "2345")):
        records.put(Resize(LOW, uid, Intent(6, 3, at_s, Requester.QUEUE), Stage.REMOVING))
        if (uid, at_s) == ("u1", 3.0):
            records.put(Resize(LOW, uid, Intent(6, 3, at_s, Requester.QUEUE), Stage.DONE))
            stages = [(one.intent.at_s, one.stage) for one in records.changes_of("u1")]
            assert stages == [(1.0, Stage.REMOVING), (2.0, Stage.REMOVING), (3.0, Stage.DONE)]
    assert [one.intent.at_s for one in records.changes_of("u1")] == [3.0]
    assert len(records.open_changes()) == 4


@pytest.mark.parametrize("stage", [Stage.DONE, Stage.GIVEN_BACK, Stage.OVERRULED])
def test_the_end_of_a_change_is_counted_once(stage: Stage) -> None:
    """That of a former process, known from a note without a moment, is not; a dry run's is."""
    telemetry = Telemetry()
    records = Records(telemetry)

    def count(direction: str, outcome: Stage) -> float | None:
        labels = {"kind": "TFJob.kubeflow.org", "direction": direction, "outcome": outcome.value}
        return telemetry.registry.get_sample_value("netgang_resizes_total", labels)

    records.put(replace(SHRINK, uid="u2", stage=stage))
    records.put(SHRINK)
    assert count("in", stage) is None
    for _ in range(3):
        records.put(replace(SHRINK, stage=stage, ended_s=104.0))
        assert count("in", stage) == 1.0
