"""A job's workers: those that count, those that leave when it loses some, and those that come when it grows.

Rule (docs/safety.md S18): frameworks remove the highest index first, so a job's plan is a prefix of its workers by
descending index. A worker without a node costs nothing and frees nothing; a prefix therefore ends with a worker that
has one. New workers are made after those that exist: all of one job are alike, and only its kind knows the template.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scoring.feasibility.filters import as_written
from scoring.ids import PodName, PodUid
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.snapshot import Snapshot
from scoring.scaling.job import ElasticJob


@dataclass(frozen=True, slots=True)
class Step:
    """One more worker with a node leaves: `after` workers are wanted then, and `pod` is gone besides those before."""

    after: int
    pod: Pod


def workers_of(job: ElasticJob, gang: Gang) -> dict[int, Pod]:
    """Index → pod of the job's workers that are neither finished nor being removed; pods of other roles never count.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> sorted(workers_of(elastic(gang := workers("g", ["n1", "n1"], ps="n1")), gang))
    [0, 1]
    """
    found: dict[int, Pod] = {}
    for pod in gang.members:
        index = job.indexes.get(pod.uid)
        if index is not None and not pod.deleting and not pod.terminal and pod.role not in (Role.PS, Role.CHIEF):
            found[index] = pod
    return found


def steps_down(job: ElasticJob, gang: Gang, *, most: int | None) -> tuple[Step, ...]:
    """What the job can give up, one worker with a node after the other; at most `most` workers, never the minimum.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1", "n2", None, "n3", None], ps="n1")  # workers 3 and 5 have no node
    >>> [(step.after, step.pod.node) for step in steps_down(elastic(gang, least=1), gang, most=None)]
    [(4, 'n3'), (2, 'n2'), (1, 'n1')]
    >>> [step.after for step in steps_down(elastic(gang, least=1), gang, most=1)]
    [4]
    """
    workers = workers_of(job, gang)
    steps: list[Step] = []
    for index in range(job.workers - 1, job.floor - 1, -1):
        if most is not None and len(steps) == most:
            break
        pod = workers.get(index)
        if pod is not None and pod.node is not None:
            steps.append(Step(index, pod))
    return tuple(steps)


def going(snapshot: Snapshot, jobs: Iterable[ElasticJob]) -> tuple[Pod, ...]:
    """Pods with a node that go without more ado: they are being deleted, or their index is not wanted."""
    unwanted = {uid for job in jobs for uid, index in job.indexes.items() if index >= job.workers}
    return tuple(
        pod
        for _, gang in sorted(snapshot.gangs.items())
        for pod in gang.members
        if (pod.deleting or pod.uid in unwanted) and pod.node is not None and not pod.terminal
    )


def newcomers(job: ElasticJob, gang: Gang, *, first: int, number: int, zone_label: str) -> tuple[Pod, ...]:
    """Workers with the indexes from `first` on, made after the worker with the highest index; none if there is none.

    What our own admission wrote into that worker (nodes or zone, docs/safety.md S6) is taken out again.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1"], ps="n1")
    >>> [(p.name, p.node) for p in newcomers(elastic(gang), gang, first=2, number=2, zone_label="zone")]
    [('g-2', None), ('g-3', None)]
    """
    known = [pod for pod in gang.members if pod.uid in job.indexes and pod.role not in (Role.PS, Role.CHIEF)]
    if not known:
        return ()
    model = max(known, key=lambda pod: (not pod.terminal, job.indexes[pod.uid], pod.name))
    written = as_written(model, zone_label=zone_label)
    # A volume claim is of one worker: where the next one's will be is unknown.
    member_class = replace(written, constraints=replace(written.constraints, claims=()))
    return tuple(
        replace(
            model,
            uid=PodUid(f"{job.uid}/{index}"),
            name=PodName(f"{job.key.name}-{index}"),
            member_class=member_class,
            index=index,
            node=None,
            nominated_node=None,
            scheduled_s=None,
            admitted_to=None,
            phase=Phase.PENDING,
            deleting=False,
            gates=(),
        )
        for index in range(first, first + number)
    )
