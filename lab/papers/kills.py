"""KILLS: fifty resizes of a job that trains; in each a process is killed (-9): the chief's, netgang's, the operator's.

The operator replaces a chief that was killed (restartPolicy ExitCode), which goes on from the checkpoint. Wanted: less
than an interval of steps is lost with each, no step is done more than twice, and the job ends with the loss that jobs
of as many steps have whose three, five and seven workers were left alone. It takes some five minutes, and `python -m
lab.papers KILLS` must be asked for it.
"""

import asyncio
import random
from collections import Counter
from itertools import pairwise
from statistics import fmean
from typing import Final

from lab.bench.testbed.cases import BASE_BPS
from lab.bench.testbed.nodes import NODES, Bed
from lab.bench.testbed.shaping import set_rates
from lab.papers.bed import TEAM, TrainingSite
from lab.papers.figures import Figure, Tell
from lab.papers.resizes import dynamic, now, resize, steps, until_steps
from lab.testbed.beside import beside
from lab.testbed.cluster import INSTALLED_IN
from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.operator import OPERATOR

_RESIZES, _COUNTS, _EVERY = 50, (3, 4, 5, 6, 7), 10
_MEAN_OF, _LIMIT_S = 100, 900.0
_KILLED: Final = ("nothing", "the chief", "netgang", "the chief", "the operator")


async def measure(made: Bed, site: TrainingSite, runs: int, tell: Tell) -> list[Figure]:
    """Once, whatever `runs` says."""
    del runs
    await site.set_rooms(NODES[:4], cpu_m=16_000)
    set_rates(made, dict.fromkeys(NODES[:4], 10_000_000))
    await site.api.create(_job(site, "kills", 3, 10**6))
    await until_steps(site, "kills", 3)
    workers, draw, panics = 3, random.Random(1), list[str]()
    restarting = asyncio.Lock()
    async with beside(_supervise(site, restarting, panics)):
        for number in range(_RESIZES):
            workers = draw.choice([one for one in _COUNTS if one != workers])
            killed, began_s = _KILLED[number % len(_KILLED)], now()
            kill = _kill(site, killed, restarting, after_s=draw.random())
            await asyncio.gather(resize(site, "kills", workers), kill)
            await until_steps(site, "kills", workers, more=_EVERY + 1, after_s=now())
            tell(f"KILLS: {number + 1}, {workers} workers, {killed} killed: {now() - began_s:.1f} s")
    told, ours = steps(site, "kills"), site.lines("kills-ps-0")
    await site.remove("kills")
    lost = [before["step"] - after["resumed"] for before, after in pairwise(ours) if "resumed" in after]
    often = max(Counter(line["step"] for line in told).values())
    last = max(line["step"] for line in told)
    alone = [f"alone-{one}" for one in (3, 5, 7)]
    set_rates(made, dict.fromkeys(NODES[:4], BASE_BPS))
    for name in alone:
        await site.api.create(_job(site, name, int(name[-1]), last))
    for name in alone:
        await site.until_ended(name, 1 + int(name[-1]), limit_s=_LIMIT_S)
    losses = [fmean(line["loss"] for line in steps(site, name)[-_MEAN_OF:]) for name in alone]
    at_the_end = fmean(line["loss"] for line in told[-_MEAN_OF:])
    return [
        Figure("KILLS", f"steps lost with each chief that was killed (in {last} steps)", f"< {_EVERY}", (*lost,)),
        Figure("KILLS", "most times that a step was done", "≤ 2", (often,)),
        Figure("KILLS", f"mean loss of the last {_MEAN_OF} steps", "–", (at_the_end,)),
        Figure("KILLS", "the same of jobs that were left alone", "–", tuple(losses)),
        Figure("KILLS", "times that the operator ended by itself", "–", (float(len(panics)),)),
    ]


def _job(site: TrainingSite, name: str, workers: int, count: int) -> dict[str, object]:
    arguments = ("--mode=ps", f"--steps={count}", "--batch=64", "--pad-bytes=20000", f"--checkpoint-every={_EVERY}")
    made = dynamic(site.job(name, arguments, workers=workers, ps_on=NODES[:1], workers_on=NODES[1:4]))
    made["spec"]["tfReplicaSpecs"]["PS"]["restartPolicy"] = "ExitCode"
    return made


async def _supervise(site: TrainingSite, restarting: asyncio.Lock, panics: list[str]) -> None:
    """Start the operator again when it ended, as its Deployment would: it panics now and then."""
    while True:
        async with restarting:
            try:
                site.cluster.check_alive()
            except ControlPlaneError as error:
                if not str(error).startswith(OPERATOR):
                    raise
                panics.append(str(error))
                await site.cluster.restart(OPERATOR)
        await asyncio.sleep(1.0)


async def _kill(site: TrainingSite, which: str, restarting: asyncio.Lock, *, after_s: float) -> None:
    await asyncio.sleep(after_s)
    if which == "the chief":
        await site.kubelet.running[TEAM, "kills-ps-0"].child.kill()
    elif which == "netgang":
        await site.kubelet.running[INSTALLED_IN, (await site.leader())["metadata"]["name"]].child.kill()
    elif which == "the operator":
        async with restarting:
            await site.cluster.restart(OPERATOR, crash=True)
