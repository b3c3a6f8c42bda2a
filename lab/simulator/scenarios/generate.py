"""From a scenario file to scenarios: every job with its arrival, sizes and work, drawn from the seed.

Rule: the same file and seed give the same jobs on every machine; each job draws from its own stream, so that one more
job changes none before it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TypeAlias

from lab.simulator.model import Scenario, SimJob, Work
from lab.simulator.scenarios.document import NodeGroup, ScenarioFile
from lab.simulator.scenarios.jobs import GPU, Job, Periodic, Pods, RecordedJobs, Written
from lab.simulator.scenarios.recorded import jobs_of, steps_of
from scoring import NodeName, ZoneName
from scoring.model import Node
from scoring.model.pod import Resources

Labels: TypeAlias = Mapping[str, str | int | float]
"""What distinguishes a run from the other ones of its file: columns of its row."""

_WEEK_S = 7 * 24 * 3600.0


def scenarios(file: ScenarioFile) -> Iterator[tuple[Labels, Scenario]]:
    """All runs of the file. Errors: ScenarioError when a recorded workload cannot be read."""
    work = file.workload
    match work:
        case Periodic(cells=True):
            for model in work.models:
                for batch in work.batches:
                    one = work.model_copy(update={"models": (model,), "batches": (batch,)})
                    yield {"model": model, "batch": batch}, _scenario(file, periodic(one, file.seed))
        case Periodic():
            yield {}, _scenario(file, periodic(work, file.seed))
        case Written():
            yield {}, _scenario(file, tuple(written(job) for job in work.jobs))
        case RecordedJobs():
            steps = steps_of(work.scaling) if work.scaling is not None else {}
            for name in work.files:
                jobs = jobs_of(name, work, steps=steps, seed=file.seed)
                for load in work.loads or (None,):
                    labels: Labels = {"workload": Path(name).stem, **({} if load is None else {"load": load})}
                    yield labels, _scenario(file, jobs, load=load)


def _scenario(file: ScenarioFile, jobs: tuple[SimJob, ...], *, load: float | None = None) -> Scenario:
    """`load`: with as many of the file's first nodes as the jobs of a week load so much."""
    groups = file.nodes
    if load is not None:
        gpu_s = sum(job.workers * job.work.samples for job in jobs)
        count = max(round(gpu_s / _WEEK_S / load / max(groups[0].gpu, 1)), 1)
        groups = (groups[0].model_copy(update={"count": count}),)
    nodes = tuple(node for group in groups for node in nodes_of(group))
    return Scenario(file.name, nodes, jobs, seed=file.seed, resize_stall_s=file.resize_stall_s)


def nodes_of(group: NodeGroup) -> Iterator[Node]:
    """The group's nodes. Zones are named `a` to `z`, then `za`, `zb`, …; neighbours in number share a zone."""
    for number, node in enumerate(group.names()):
        zone = number * group.zones // group.count
        name = "z" * (zone // 26) + chr(ord("a") + zone % 26)
        has = Resources.parse({"cpu": group.cpu, "memory": group.memory, GPU: group.gpu, "pods": 110})
        yield Node(NodeName(node), ZoneName(name), has)


def written(job: Job) -> SimJob:
    """A job that the file writes out."""
    work = job.work
    return SimJob(
        name=job.name,
        arrival_s=job.arrival_s,
        work=Work(work.model, work.batch, work.samples, work.sync),
        worker=job.worker.requests(),
        workers=job.workers,
        min_workers=job.workers if job.min_workers is None else job.min_workers,
        max_workers=job.max_workers,
        ps=job.ps.requests(),
        ps_count=job.ps_count,
    )


def periodic(work: Periodic, seed: int) -> tuple[SimJob, ...]:
    """One job after another."""
    jobs: list[SimJob] = []
    ps = work.ps.requests()
    for number in range(work.count):
        chance = Random(f"{seed} {number}")  # noqa: S311 - drawn workloads, no secrets
        least = chance.choice(work.min_workers)
        workers = least + chance.choice(work.further_workers)
        pods = Pods(cpu=chance.choice(work.worker_cpu), memory=chance.choice(work.worker_memory))
        model, batch = chance.choice(work.models), chance.choice(work.batches)
        what, worker = Work(model, batch, work.samples, work.sync), pods.requests()
        name, at_s = f"job-{number}", number * work.every_s
        jobs.append(SimJob(name, at_s, what, worker, workers, min_workers=least, ps=ps, ps_count=work.ps_count))
    return tuple(jobs)
