"""K8: ten TFJobs on three nodes, one after the other, with and without gangs; completion times and CPU use.

Scaled: a published core is 60 millicores, so that three nodes of ten are 1.8; 30 s between two jobs are 0.5, as are
netgang's own times of levels. As published: four models by size, and requests that are drawn. A job takes as many
images whatever its batch and workers, asynchronously; it begins when all its ranks are there, so one that is started in
part holds its room for nothing. With *levels*, jobs declare that one worker suffices. KOD2 as printed has no live form:
netgang decides by its own algorithms, and the printed ones are in the simulator alone. Rule: when all jobs are there,
none of those that are left is whole although pods of some run, and nothing changed for `_STUCK_S`, the jobs that are
left are *deadlocked*; each counts in the mean with the run's limit, as does one that has not ended by then. The order
of netgang's settings is drawn for each two runs; in the second of them it and the batches are reversed. The default
scheduler has its turn before *levels*, while netgang with these new settings takes nobody's pods yet.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from statistics import fmean
from time import monotonic
from typing import Final

import msgspec

from extender.controllers.removals import QUIET_S
from lab.bench.testbed.cases import BASE_BPS
from lab.bench.testbed.nodes import NODES, Bed
from lab.bench.testbed.shaping import set_rates
from lab.papers.bed import TEAM, TrainingSite
from lab.papers.figures import Figure, Tell
from lab.papers.resizes import dynamic
from lab.testbed.api import Object
from lab.testbed.errors import ControlPlaneError

_NODES: Final = NODES[:3]
_CORE_M, _CORES = 60, 10
_JOBS, _EVERY_S = 10, 0.5
_LIMIT_S, _STUCK_S = 100.0, 15.0
_IMAGES: Final = 7680
"""That a job trains on, in all"""
_MODELS: Final = {
    "cnn-rand": (64, 20_000),
    "resnext110": (512, 60_000),
    "resnet50": (1024, 200_000),
    "vgg16": (1536, 1_000_000),
}
"""name → hidden units, and bytes of a gradient"""
_BATCHES: Final = (64, 128)
_DEFAULT, _LEVELS = "default scheduler", "netgang, levels"
_TURNS: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    (): ("netgang, weight",),
    ("settings.queue.order=fifo",): ("gangs, first come first served",),
    (
        *("settings.service_levels_h={0.00104,0.0167}", "settings.elastic.cool_down_s=1"),
        *("settings.elastic.metrics.default=off", "settings.elastic.increment=null"),
    ): (_DEFAULT, _LEVELS),
}
"""Values of netgang's chart → the systems that have their turn with them"""


class _Job(msgspec.Struct, frozen=True):
    name: str
    model: str
    workers: int
    cores: int


class _Outcome(msgspec.Struct, frozen=True):
    mean_s: float
    deadlocked: int
    cpu_share: float
    """Of the nodes, while the run lasted"""


async def measure(made: Bed, site: TrainingSite, runs: int, tell: Tell) -> list[Figure]:
    """Each run draws jobs, which all systems get for each batch size."""
    found, numbers = defaultdict[tuple[int, str], list[_Outcome]](list), count()
    set_rates(made, dict.fromkeys(made.nodes, BASE_BPS))
    await site.set_rooms(_NODES, cpu_m=_CORE_M * _CORES)
    values: tuple[str, ...] = ()  # as installed: rows with others come later
    quiet_until_s = monotonic()
    for run in range(runs):
        turns = random.Random(run // 2).sample(list(_TURNS), len(_TURNS))
        for wanted in turns[:: -1 if run % 2 else 1]:
            if wanted != values:
                await site.configure(*wanted)
                values, quiet_until_s = wanted, monotonic() + QUIET_S
            for system in _TURNS[values]:
                if system == _LEVELS:
                    await asyncio.sleep(max(quiet_until_s - monotonic(), 0.0))
                for batch in _BATCHES[:: -1 if run % 2 else 1]:
                    jobs = list(_drawn(run, f"k8-{next(numbers)}"))  # names, and so checkpoints, of their own
                    one = await _run(site, jobs, batch, system)
                    found[batch, system].append(one)
                    jct = f"{one.mean_s:.1f} s, {one.deadlocked} deadlocked, {one.cpu_share:.0%} CPU"
                    tell(f"K8: run {run + 1}, batch {batch}, {system}: {jct}")
    return list(_figures(found))


def _drawn(seed: int, name: str) -> Iterator[_Job]:
    draw = random.Random(seed)
    for number in range(_JOBS):
        model = list(_MODELS)[number % len(_MODELS)]
        yield _Job(f"{name}-{number}", model, workers=draw.randint(2, 4), cores=draw.randint(1, 3))


async def _run(site: TrainingSite, jobs: list[_Job], batch: int, system: str) -> _Outcome:
    began_s, created_s, took_s = monotonic(), dict[str, float](), dict[str, float]()
    changed_s, seen = began_s, frozenset[tuple[str, str]]()
    while True:
        for one in jobs[len(created_s) :][: int((monotonic() - began_s) / _EVERY_S) + 1 - len(created_s)]:
            await site.api.create(_job(site, one, batch, system))
            created_s[one.name] = monotonic()
        pods = await site.api.list_all("Pod", namespace=TEAM)
        phases = defaultdict[str, list[str]](list)
        for pod in pods:
            job = pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
            phases[job].append(pod["status"]["phase"])
            if pod["metadata"]["name"] == f"{job}-ps-0" and pod["status"]["phase"] == "Succeeded":  # all steps are done
                took_s.setdefault(job, monotonic() - created_s[job])
        if (now := frozenset((pod["metadata"]["name"], pod["status"]["phase"]) for pod in pods)) != seen:
            changed_s, seen = monotonic(), now
        left = [one for one in jobs if one.name not in took_s]
        least = {one.name: 2 if system == _LEVELS else 1 + one.workers for one in left}  # some are shrunk
        whole = any("Pending" not in phases[name] and len(phases[name]) >= count for name, count in least.items())
        holds = any("Running" in phases[one.name] for one in left)
        stuck = len(created_s) == len(jobs) and holds and not whole and monotonic() - changed_s > _STUCK_S
        if not left or stuck or monotonic() - began_s > _LIMIT_S:
            break
        await asyncio.sleep(0.2)
    lasted_s = monotonic() - began_s
    for one in jobs:
        told = sum("world" in line for line in site.lines(f"{one.name}-ps-0")) if one.name in took_s else 0
        if one.name in took_s and told != _steps(one, batch):
            raise ControlPlaneError(f"{one.name} ended well after {told} of {_steps(one, batch)} steps")
    used_s = sum(one.group.usage().cpu_s for (team, _), one in site.kubelet.running.items() if team == TEAM)
    for one in jobs:
        await site.api.delete("TFJob", one.name, namespace=TEAM)
    pods_left = partial(site.api.list_all, "Pod", namespace=TEAM)
    await site.api.until(pods_left, lambda found: not found, what="all jobs gone", limit_s=60.0)
    share = used_s / (lasted_s * len(_NODES) * _CORES * _CORE_M / 1e3)
    return _Outcome(fmean([*took_s.values(), *[_LIMIT_S] * len(left)]), len(left) if stuck else 0, share)


def _steps(job: _Job, batch: int) -> int:
    return max(round(_IMAGES / batch), 1)


def _job(site: TrainingSite, job: _Job, batch: int, system: str) -> Object:
    hidden, padded = _MODELS[job.model]
    sizes = [f"--steps={_steps(job, batch)}", f"--batch={batch}", f"--hidden={hidden}", f"--pad-bytes={padded}"]
    arguments = ["--mode=async", *sizes, f"--peers-s={_LIMIT_S}", f"--limit-s={_LIMIT_S}"]
    scheduler, cpu = "default-scheduler" if system == _DEFAULT else "", f"{job.cores * _CORE_M}m"
    made = site.job(job.name, arguments, workers=job.workers, scheduler=scheduler, cpu=cpu, limited=True)
    if system == _LEVELS:
        made = dynamic(made, min_workers="1", max_workers=str(job.workers))
        made["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": 1 + job.workers}
    return made


def _figures(found: dict[tuple[int, str], list[_Outcome]]) -> Iterator[Figure]:
    for (batch, system), ours in found.items():
        of = f"batch {batch}, {system}"
        yield Figure("K8", f"{of}: mean completion, s", "–", tuple(one.mean_s for one in ours))
        yield Figure("K8", f"{of}: deadlocked of {_JOBS}", "–", tuple(float(one.deadlocked) for one in ours))
        yield Figure("K8", f"{of}: CPU use", "–", tuple(one.cpu_share for one in ours))
        if ours is not (plain := found[batch, _DEFAULT]):
            pairs = list(zip(ours, plain, strict=True))
            times = tuple(one.mean_s / other.mean_s for one, other in pairs)
            yield Figure("K8", f"{of}: completion by the default's", "0.16 at best", times)
            shares = tuple(one.cpu_share / other.cpu_share for one, other in pairs)
            yield Figure("K8", f"{of}: CPU use by the default's", "1.92 at best", shares)
