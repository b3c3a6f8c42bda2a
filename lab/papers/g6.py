"""G6: a TFJob of one ps and four workers of two GPUs each, on four GPUs and then on eight.

A GPU here is what a node says that it has: each pod trains on its CPU. Four nodes have two GPUs each; those of two of
them come later, as with a device plugin that starts. The default scheduler gets the same job for comparison.
"""

import asyncio
from functools import partial
from typing import Final

from lab.bench.testbed.cases import BASE_BPS
from lab.bench.testbed.nodes import NODES, Bed
from lab.bench.testbed.shaping import set_rates
from lab.papers.bed import TrainingSite
from lab.papers.figures import Figure, Tell

_GPUS, _WORKERS = 2, 4
_WATCHED_S, _LIMIT_S = 6.0, 120.0
"""How long pods on four GPUs are watched"""
_TRAINS: Final = ("--mode=ps", "--steps=20", f"--peers-s={_LIMIT_S}", f"--limit-s={_LIMIT_S}")


async def measure(made: Bed, site: TrainingSite, runs: int, tell: Tell) -> list[Figure]:
    """Each run: the job by the default scheduler on four GPUs, then by netgang on four and on eight."""
    alone, gang, whole, falls = list[float](), list[float](), list[float](), list[float]()
    set_rates(made, dict.fromkeys(made.nodes, BASE_BPS))
    for run in range(runs):
        await site.set_rooms(NODES[:4], cpu_m=8000, gpus=dict.fromkeys(NODES[:2], _GPUS))
        alone.append(await _started(site, f"plain-{run}", "default-scheduler"))
        await site.remove(f"plain-{run}")
        gang.append(await _started(site, f"gang-{run}"))
        await site.set_rooms(NODES[:4], cpu_m=8000, gpus=dict.fromkeys(NODES[:4], _GPUS))
        pods = await site.until_ended(f"gang-{run}", 1 + _WORKERS, limit_s=_LIMIT_S)
        whole.append(sum(one["status"]["phase"] == "Succeeded" for one in pods))
        losses = [line["loss"] for line in site.lines(f"gang-{run}-ps-0") if "loss" in line]
        falls.append(losses[-1] / losses[0])
        tell(f"G6: run {run + 1}: {alone[-1]} of 5 run without gangs, {gang[-1]} with; then {whole[-1]} train")
        await site.remove(f"gang-{run}")
    return [
        Figure("G6", "pods that run on 4 GPUs, default scheduler", "hangs half started", tuple(alone)),
        Figure("G6", "pods that run on 4 GPUs, netgang", "0 of 5", tuple(gang)),
        Figure("G6", "pods that train to their end on 8 GPUs, netgang", "5 of 5", tuple(whole)),
        Figure("G6", "last loss by first", "–", tuple(falls)),
    ]


async def _started(site: TrainingSite, name: str, scheduler: str = "") -> int:
    """Create the job; how many of its pods run after a while."""
    await site.api.create(site.job(name, _TRAINS, workers=_WORKERS, gpu=_GPUS, scheduler=scheduler))
    pods = partial(site.pods, name)
    await site.api.until(pods, lambda found: len(found) == 1 + _WORKERS, what=f"pods of {name}")
    await asyncio.sleep(_WATCHED_S)
    return sum(one["status"]["phase"] == "Running" for one in await pods())
