"""From demands to worker counts: what a job may have of what its metrics ask for.

Why between the metrics and the room: a policy sees one job's numbers and knows neither the cluster nor the queue. Rule:
a demand for fewer workers frees room and is granted at once; a demand for more is only a target, and the queue's order
decides in `scoring.scaling.scale_out` which job gets room when there is too little. A demand never keeps a job from
giving up workers for a heavier gang, and what was taken from it for others is given back before it counts as wanting
more.
"""

from collections.abc import Mapping, Sequence

from scoring.model.snapshot import Snapshot
from scoring.scaling.change import Change, No, Refusal
from scoring.scaling.job import ElasticJob, JobKey
from scoring.scaling.options import Options
from scoring.scaling.shrink.eligible import resizable
from scoring.scaling.shrink.leaving import workers_of


def fewer(
    snapshot: Snapshot,
    jobs: Sequence[ElasticJob],
    wishes: Mapping[JobKey, int],
    options: Options,
    *,
    now_s: float,
) -> tuple[tuple[Change, ...], tuple[Refusal, ...]]:
    """Jobs that want fewer workers than they have, and those that must not be changed now; both by job.

    >>> from tests.builders import node, snapshot
    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1", "n1", None])
    >>> job, cluster = elastic(gang, least=2), snapshot([node("n1")], [gang])
    >>> [(c.before, c.after, c.leaving) for c in fewer(cluster, [job], {job.key: 1}, Options(), now_s=0.0)[0]]
    [(4, 2, ('uid-default-g-worker-2',))]
    """
    changes: list[Change] = []
    refused: list[Refusal] = []
    for job in sorted(jobs, key=lambda one: one.key):
        wish = wishes.get(job.key)
        after = target_of(job, wish)
        if wish is None or after >= job.workers:
            continue
        gang = snapshot.gangs.get(job.gang)
        refusal = resizable(job, gang, options, now_s=now_s)
        if refusal is not None or gang is None:
            refused.append(refusal or Refusal(job.key, No.NOT_RUNNING))
            continue
        workers = workers_of(job, gang)
        found = (workers.get(index) for index in range(job.workers - 1, after - 1, -1))
        leaving = [(pod.uid, pod.node) for pod in found if pod is not None and pod.node is not None]
        uids, nodes = tuple(uid for uid, _ in leaving), tuple(node for _, node in leaving)
        changes.append(Change(job.key, job.uid, job.workers, after, uids, nodes))
    return tuple(changes), tuple(refused)


def target_of(job: ElasticJob, wish: int | None) -> int:
    """How many workers the job grows to if there is room: what it asks for, else its maximum, within its bounds.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1", "n1"])
    >>> job = elastic(gang, least=2, most=8)
    >>> target_of(job, None), target_of(job, 5), target_of(job, 50), target_of(job, 0)
    (8, 5, 8, 2)
    """
    return job.max_workers if wish is None else min(max(wish, job.floor), job.max_workers)
