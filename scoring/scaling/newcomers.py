"""The pods that a job's controller would create for further workers, as far as their placement goes.

Why made up: only the job's kind knows its pod template, and its workers show it: all of one job are alike. Rule:
what our own admission wrote into a worker (the nodes or zone it was admitted to, docs/safety.md S6) is not in the
template, and is taken out again.
"""

from collections.abc import Sequence
from dataclasses import replace

from scoring.feasibility.filters import HOSTNAME_LABEL
from scoring.ids import PodName, PodUid
from scoring.model import Gang, NodeSelectorTerm, Phase, Pod, Role
from scoring.scaling.job import ElasticJob

_NAME_FIELD = "metadata.name"


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
        constraints = replace(constraints, affinity=_as_written(constraints.affinity, zone_label))
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


def _as_written(terms: Sequence[NodeSelectorTerm], zone_label: str) -> tuple[NodeSelectorTerm, ...] | None:
    """Required node affinity without what admission added: whole terms by name, or the last line of each term.

    >>> from scoring.model import Requirement
    >>> by_name = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),))
    >>> _as_written([by_name, by_name], "zone") is None
    True
    >>> ssd, ours = Requirement("ssd", "Exists"), Requirement("kubernetes.io/hostname", "In", ("n1",))
    >>> _as_written([NodeSelectorTerm((ssd, ours))], "zone") == (NodeSelectorTerm((ssd,)),)
    True
    """
    if all(not term.expressions and [one.key for one in term.fields] == [_NAME_FIELD] for term in terms):
        return None
    kept: list[NodeSelectorTerm] = []
    for term in terms:
        lines = term.expressions
        if lines and lines[-1].operator == "In" and lines[-1].key in (HOSTNAME_LABEL, zone_label):
            lines = lines[:-1]
        if not lines and not term.fields and term.expressions:
            return None  # only the zone was asked for, and by us
        kept.append(replace(term, expressions=lines))
    return tuple(kept)
