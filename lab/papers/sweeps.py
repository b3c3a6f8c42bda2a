"""N5: how much longer a step takes when the three impaired nodes get worse, five values each over the published ranges.

A synchronous job of gradients of 0.1 MB trains on the worst six nodes: its parameter server and two workers are on the
impaired ones. Its steps are compared with its own ones before, on a clean network. A value's steps have a time limit;
one that does not keep it counts with the limit, and the next value has a new job.
"""

import asyncio
from statistics import fmean
from typing import Final

from lab.bench.testbed.cases import BASE_BPS, WANTED, Impairment, Setting, settings, worst_case
from lab.bench.testbed.nodes import NODES, Bed
from lab.bench.testbed.shaping import set_rates, shaped
from lab.papers.bed import TrainingSite
from lab.papers.figures import Figure, Tell
from lab.papers.resizes import now, steps
from lab.testbed.errors import ControlPlaneError

_SWEEP: Final = {
    Impairment.BANDWIDTH: (90.0, 75.0, 60.0, 50.0, 40.0),
    Impairment.DELAY: (50.0, 100.0, 200.0, 350.0, 500.0),
    Impairment.LOSS: (5.0, 10.0, 20.0, 35.0, 50.0),
}
_STEPS, _LIMIT_S, _START_S = 2, 12.0, 60.0
_TRAINS: Final = ("--mode=ps", "--steps=1000000", "--batch=64", "--pad-bytes=100000")


async def measure(made: Bed, site: TrainingSite, runs: int, tell: Tell) -> list[Figure]:
    """All values, `runs` times."""
    await site.set_rooms(NODES, cpu_m=1450)
    ratios: dict[Setting, list[float]] = {one: [] for one in sorted(settings(_SWEEP), key=lambda one: one.impairment)}
    late = dict.fromkeys(ratios, 0)
    set_rates(made, dict.fromkeys(made.nodes, BASE_BPS))
    for run in range(runs):
        name, clean_s = "", 0.0
        for number, (setting, found) in enumerate(ratios.items()):
            if not name:
                name, worst = f"n5-{run}-{number}", worst_case()
                job = site.job(name, _TRAINS, workers=WANTED - 1, ps_on=worst[:1], workers_on=worst[1:])
                await site.api.create(job)
                (_, starts), (clean_s, whole) = await _step_s(site, name, limit_s=_START_S), await _step_s(site, name)
                if not (starts and whole):
                    raise ControlPlaneError(f"{name} does not train on a clean network")
            with shaped(made, setting):
                step_s, whole = await _step_s(site, name)
            found.append(step_s / clean_s)
            if not whole:
                late[setting] += 1
                await site.remove(name)
                name = ""
            words = f"{found[-1]:.1f} times {clean_s:.3f} s{'' if whole else ', at least'}"
            tell(f"N5: run {run + 1}, {setting.title}: {words}")
        if name:
            await site.remove(name)
    cut = {one: f", at least in {count} of {runs}" if count else "" for one, count in late.items()}
    return [Figure("N5", f"{one.title}: step by the clean one{cut[one]}", "–", tuple(ratios[one])) for one in ratios]


async def _step_s(site: TrainingSite, name: str, *, limit_s: float = _LIMIT_S) -> tuple[float, bool]:
    """Mean of the next steps but the first, which has begun; False: they are not over in time, and take as long."""
    began_s = now()
    while True:
        told = [line["seconds"] for line in steps(site, name) if line["at_s"] > began_s]
        if len(told) > _STEPS:
            return fmean(told[1 : 1 + _STEPS]), True
        if now() - began_s > limit_s:
            return limit_s / (1 + len(told)), False
        await asyncio.sleep(0.2)
