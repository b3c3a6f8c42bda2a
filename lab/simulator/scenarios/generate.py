"""From a scenario file to scenarios: every job with its arrival, sizes and work, drawn from the seed.

Rule: the same file and seed give the same jobs on every machine; each job draws from its own stream, so that one more
job changes none before it.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import exp, log
from pathlib import Path
from random import Random
from typing import TypeAlias

from lab.simulator.model import Scenario, SimJob, Sync, Work
from lab.simulator.scenarios.document import Mesh, NodeGroup, ScenarioFile
from lab.simulator.scenarios.jobs import Job, Periodic, Pods, RecordedJobs, Trace, TraceClass, Written
from lab.simulator.scenarios.recorded import Sizes, jobs_of, steps_of
from lab.simulator.speed import profile_of
from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model import Node
from scoring.model.resources import CPU, Resources
from scoring.network.matrix import Measurement, Metric, NetworkMatrix

_GPU = "nvidia.com/gpu"


Labels: TypeAlias = Mapping[str, str | int | float]
"""What distinguishes a run from the other ones of its file: columns of its row."""

_WEEK_S = 7 * 24 * 3600.0


def scenarios(file: ScenarioFile) -> Iterator[tuple[Labels, Scenario]]:
    """All runs of the file. Errors: ScenarioError when a recorded workload cannot be read."""
    nodes = tuple(node for group in file.nodes for node in nodes_of(group))
    network = mesh(nodes, file.network) if file.network is not None else NetworkMatrix()
    work = file.workload
    match work:
        case Periodic(cells=True):
            for model in work.models:
                for batch in work.batches:
                    one = work.model_copy(update={"models": (model,), "batches": (batch,)})
                    yield {"model": model, "batch": batch}, _scenario(file, nodes, network, periodic(one, file.seed))
        case Periodic():
            yield {}, _scenario(file, nodes, network, periodic(work, file.seed))
        case Trace():
            yield {}, _scenario(file, nodes, network, trace(work, file.seed))
        case Written():
            yield {}, _scenario(file, nodes, network, tuple(written(job) for job in work.jobs))
        case RecordedJobs():
            yield from _recorded(file, work)


def _recorded(file: ScenarioFile, work: RecordedJobs) -> Iterator[tuple[Labels, Scenario]]:
    """A run for each file and load."""
    sizes = Sizes(work.min_ratio, work.max_ratio, work.suspendable)
    steps = steps_of(work.scaling) if work.scaling is not None else {}
    for name in work.files:
        jobs = jobs_of(name, steps=steps, sizes=sizes, worker=requests(work.worker), seed=file.seed)
        for load in work.loads or (None,):
            groups = file.nodes if load is None else (_sized(file.nodes[0], jobs, load),)
            nodes = tuple(node for group in groups for node in nodes_of(group))
            network = mesh(nodes, file.network) if file.network is not None else NetworkMatrix()
            labels: Labels = {"workload": Path(name).stem, **({} if load is None else {"load": load})}
            yield labels, _scenario(file, nodes, network, jobs)


def _sized(group: NodeGroup, jobs: tuple[SimJob, ...], load: float) -> NodeGroup:
    """As many of these nodes as the jobs of a week load so much."""
    gpu_s = sum(job.workers * job.work.samples for job in jobs)
    return group.model_copy(update={"count": max(round(gpu_s / _WEEK_S / load / max(group.gpu, 1)), 1)})


def _scenario(
    file: ScenarioFile, nodes: tuple[Node, ...], network: NetworkMatrix, jobs: tuple[SimJob, ...]
) -> Scenario:
    return Scenario(file.name, nodes, network, jobs, seed=file.seed, until_s=file.until_s)


def nodes_of(group: NodeGroup) -> Iterator[Node]:
    """The group's nodes. Zones are named `a` to `z`, then `za`, `zb`, …; neighbours in number share a zone."""
    for number, node in enumerate(group.names()):
        zone = number * group.zones // group.count
        name = "z" * (zone // 26) + chr(ord("a") + zone % 26)
        yield Node(
            NodeName(node),
            ZoneName(name),
            Resources.parse({"cpu": group.cpu, "memory": group.memory, _GPU: group.gpu, "pods": 110}),
        )


def mesh(nodes: tuple[Node, ...], network: Mesh) -> NetworkMatrix:
    """Measurements of all links inside each zone. Cost: O(nodes of a zone²) for each."""
    base = {
        Metric.LOSS: network.loss_ratio,
        Metric.DELAY: network.delay_ms,
        Metric.THROUGHPUT: network.throughput_bps,
    }
    worse: dict[str, dict[Metric, float]] = {}
    for one in network.impaired:
        given = {Metric.LOSS: one.loss_ratio, Metric.DELAY: one.delay_ms, Metric.THROUGHPUT: one.throughput_bps}
        worse[one.node] = {metric: value for metric, value in given.items() if value is not None}
    found: list[Measurement] = []
    for a in nodes:
        for b in nodes:
            if a.zone != b.zone or a.name == b.name:
                continue
            for metric, usual in base.items():
                values = [worse.get(end.name, {}).get(metric, usual) for end in (a, b)]
                value = min(values) if metric is Metric.THROUGHPUT else max(values)
                found.append(Measurement(EndpointId(a.name), EndpointId(b.name), metric, value, 0.0))
    ends = {node.name: EndpointId(node.name) for node in nodes}
    return NetworkMatrix.of(found, endpoint_of=dict.fromkeys(base, ends), now_s=0.0)


def requests(pods: Pods) -> Resources:
    """One pod's requests."""
    return Resources.parse({"cpu": pods.cpu, "memory": pods.memory, _GPU: pods.gpu})


def written(job: Job) -> SimJob:
    """A job that the file writes out."""
    work = job.work
    return SimJob(
        name=job.name,
        arrival_s=job.arrival_s,
        work=Work(work.model, work.batch, work.samples, work.sync),
        worker=requests(job.worker),
        workers=job.workers,
        min_workers=job.workers if job.min_workers is None else job.min_workers,
        max_workers=job.max_workers,
        ps=requests(job.ps),
        ps_count=job.ps_count,
        priority=job.priority,
        namespace=job.namespace,
        zones=job.zones,
    )


def periodic(work: Periodic, seed: int) -> tuple[SimJob, ...]:
    """One job after another."""
    jobs: list[SimJob] = []
    ps = requests(work.ps)
    for number in range(work.count):
        chance = Random(f"{seed} {number}")  # noqa: S311 - drawn workloads, no secrets
        least = chance.choice(work.min_workers)
        workers = least + chance.choice(work.further_workers)
        worker = Pods(cpu=chance.choice(work.worker_cpu), memory=chance.choice(work.worker_memory))
        model, batch = chance.choice(work.models), chance.choice(work.batches)
        jobs.append(
            SimJob(
                name=f"job-{number}",
                arrival_s=number * work.every_s,
                work=Work(model, batch, work.samples, work.sync),
                worker=requests(worker),
                workers=workers,
                min_workers=least,
                ps=ps,
                ps_count=work.ps_count,
            )
        )
    return tuple(jobs)


def trace(work: Trace, seed: int) -> tuple[SimJob, ...]:
    """Jobs in the order of arrival; a job's samples are what its GPUs train undisturbed in its GPU hours."""
    hours = list(accumulate(work.arrivals_per_hour))
    shares = list(accumulate(one.share for one in work.classes))
    worker = requests(work.worker)
    drawn: list[tuple[float, int, TraceClass, int, float]] = []
    for number in range(work.count):
        chance = Random(f"{seed} {number}")  # noqa: S311 - as above
        hour = chance.choices(range(len(hours)), cum_weights=hours)[0]
        arrival_s = round((hour + chance.random()) * 3600.0, 3)
        kind = chance.choices(work.classes, cum_weights=shares)[0]
        low, high = kind.gpu_hours
        gpu_hours = exp(chance.uniform(log(low), log(high)))
        drawn.append((arrival_s, number, kind, chance.choice(kind.gpus), gpu_hours))
    drawn.sort(key=lambda one: one[:2])
    digits = len(str(work.count - 1))
    jobs: list[SimJob] = []
    cores, gpus_each = worker.get(CPU) / 1000.0, max(work.worker.gpu, 1)
    steps_s = {
        (one.model, one.batch): profile_of(one.model).compute_s(one.batch, cores=cores, gpus=gpus_each)
        for one in work.classes
    }
    for place, (arrival_s, number, kind, gpus, gpu_hours) in enumerate(drawn):
        step_s = steps_s[kind.model, kind.batch]
        elastic = kind.elastic and gpus > 1
        jobs.append(
            SimJob(
                name=f"{kind.model}-{place:0{digits}}",
                arrival_s=arrival_s,
                work=Work(kind.model, kind.batch, gpu_hours * 3600.0 / step_s * kind.batch, Sync.SYNCHRONOUS),
                worker=worker,
                workers=gpus,
                min_workers=(gpus + 1) // 2 if elastic else gpus,
                max_workers=2 * gpus if elastic else gpus,
                suspendable=Random(f"{seed} {number} suspendable").random() < work.suspendable,  # noqa: S311 - as above
            )
        )
    return tuple(jobs)
