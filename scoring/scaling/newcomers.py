"""The pods that a job's controller would create for further workers, as far as their placement goes.

Why made up: only the job's kind knows its pod template, and its workers show it: all of one job are alike. Rule:
what our own admission wrote into a worker (the nodes or zone it was admitted to, docs/safety.md S6) is not in the
template, and is taken out again.
"""

from dataclasses import replace

from scoring.feasibility.filters import widened
from scoring.ids import PodName, PodUid
from scoring.model import Gang, Phase, Pod, Role
from scoring.scaling.job import ElasticJob


def newcomers(job: ElasticJob, gang: Gang, *, first: int, number: int, zone_label: str) -> tuple[Pod, ...]:
    """Workers with the indexes from `first` on, made after the worker with the highest index; none if there is none.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1"], ps="n1")
    >>> [(p.name, p.node) for p in newcomers(elastic(gang), gang, first=2, number=2, zone_label="zone")]
    [('g-2', None), ('g-3', None)]
    """
    known = [pod for pod in gang.members if pod.uid in job.indexes and pod.role not in (Role.PS, Role.CHIEF)]
    if not known:
        return ()
    model = max(known, key=lambda pod: (not pod.terminal, job.indexes[pod.uid], pod.name))
    constraints = model.member_class.constraints
    if model.admitted_to is not None and constraints.affinity is not None:
        constraints = replace(constraints, affinity=widened(constraints.affinity, zone_label=zone_label))
    # A volume claim is of one worker: where the next one's will be is unknown.
    member_class = replace(model.member_class, constraints=replace(constraints, claims=()))
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
