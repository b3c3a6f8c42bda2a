"""E1, E3 and E4: a TFJob that trains gets other worker counts: what stops for how long, what is repeated, who goes.

Each case is a patch of a job's worker count, two ways: *restarted*, in a job of its own, each process is ended with
SIGTERM and begun again in its pod, from the checkpoint, as where a framework cannot change a running job, which is the
paper's way; *in place*, the parameter server goes on, workers come and go (`enableDynamicWorker`). Stages, in seconds
after the patch: *stop*, the last process that had to end has; *operator*, the last pod that is to come is created, or
to go deleted; *start*, the last process says that it is there; *restore*, what reading the checkpoint took; *first
step*, one of all workers. *Stall*: the longest time without a step.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

import msgspec

from lab.bench.testbed.nodes import NODES
from lab.papers.bed import TEAM, TrainingSite
from lab.papers.figures import Figure, Tell
from lab.testbed.api import Object
from lab.testbed.beside import beside

_CASES: Final = {(3, 6): "40.5", (3, 9): "41.2", (3, 12): "41.8", (12, 9): "–"}
"""Workers before and after → published seconds of the change"""
_WAYS: Final = {"restarted": ((3, 6), (3, 9), (3, 12)), "in place": ((3, 12), (12, 9))}
"""Those in place one after the other"""
_LIMIT_S, _BEFORE_STEPS, _EVERY, _LOST = 120.0, 12, 10, 8
_TRAINS: Final = ("--mode=ps", "--steps=1000000", "--batch=128", "--pad-bytes=50000", f"--checkpoint-every={_EVERY}")


class Resize(msgspec.Struct, frozen=True):
    """What one change came to."""

    stages: dict[str, float]
    stall_s: float
    repeated: int  # Steps of the job that were done twice, by now
    changed: int  # Pods that were there before and afterwards, with another uid


class Resizes:
    """All cases both ways, run by run."""

    def __init__(self) -> None:
        self._found = defaultdict[tuple[tuple[int, int], str], list[Resize]](list)
        self._lost: list[tuple[float, bool]] = []

    async def run(self, site: TrainingSite, run: int, tell: Tell) -> None:
        """Once more."""
        for way, cases in _WAYS.items():
            for number, (before, after) in enumerate(cases):
                if number == 0 or way == "restarted":
                    name = f"resize-{run}-{number}-{way[:2]}"
                    made = site.job(name, _TRAINS, workers=before, ps_on=NODES[:1], workers_on=NODES[1:])
                    await site.api.create(dynamic(made))
                await until_steps(site, name, before, more=_BEFORE_STEPS, after_s=now())
                one = await _resized(site, name, after, restart=way == "restarted")
                self._found[(before, after), way].append(one)
                tell(f"E: run {run + 1}, {before} → {after}, {way}: {one}")
                if way == "restarted":
                    await site.remove(name)
        lost = [await _lost(site, f"{name}-worker-{number}", name) for number in range(_LOST)]  # one after the other
        self._lost += lost
        tell(f"E: run {run + 1}, deleted workers: {lost}")
        await site.remove(name)

    def figures(self) -> list[Figure]:
        """Of all runs."""
        seconds, same = zip(*self._lost, strict=True)
        back = Figure("E4", "share of deleted workers that are back on their node", "1", tuple(map(float, same)))
        later = Figure("E4", "deleted worker: until its successor's step, s", "–", seconds)
        return [*_figures(self._found), back, later]


def dynamic(made: Object, **annotations: str) -> Object:
    """A TFJob whose workers may come and go, and which goes on with three; netgang's annotations by their last word."""
    names = {
        f"netgang.io/{name.replace('_', '-')}": value for name, value in ({"scaling": "off"} | annotations).items()
    }
    made["metadata"]["annotations"] = names
    made["spec"]["enableDynamicWorker"] = True
    made["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": 4}
    for replicas in made["spec"]["tfReplicaSpecs"].values():
        replicas["restartPolicy"] = "OnFailure"
    return made


async def resize(site: TrainingSite, name: str, workers: int) -> None:
    """As netgang does: down by one at a time, as training-operator panics when the last of several is still there."""

    async def now_there() -> int:
        return len(await site.pods(name)) - 1

    for count in [*range(await now_there() - 1, workers, -1), workers]:
        change = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}}
        await site.api.patch("TFJob", name, change, namespace=TEAM)
        await site.api.until(now_there, range(count + 1).__contains__, what="fewer pods")


async def until_steps(site: TrainingSite, name: str, world: int, *, more: int = 1, after_s: float = 0.0) -> None:
    """Until the parameter server has told so many steps of so many workers since then, and no other pod is there."""

    async def told() -> tuple[int, int]:
        found = sum(line["world"] == world and line["at_s"] > after_s for line in steps(site, name))
        return (len(await site.pods(name)) - 1 if found >= more else 0), min(found, more)

    await site.api.until(told, lambda seen: seen == (world, more), what=f"{world} of {name} train", limit_s=_LIMIT_S)


def steps(site: TrainingSite, name: str) -> list[dict[str, Any]]:
    """What the parameter server told."""
    return [line for line in site.lines(f"{name}-ps-0") if "world" in line]


async def _resized(site: TrainingSite, name: str, after: int, *, restart: bool) -> Resize:
    pods_before, changes_s = await _pods(site, name), dict[str, float]()
    async with beside(_follow(site, name, changes_s)):
        asked_s = now()
        await resize(site, name, after)
        if restart:
            for pod in pods_before.keys() & await _pods(site, name):
                site.kubelet.running[TEAM, pod].child.terminate()
            begun = partial(_begun_s, site, f"{name}-ps-0")
            await site.api.until(begun, lambda at_s: at_s > asked_s, what="a new parameter server", limit_s=_LIMIT_S)
        await until_steps(site, name, after, after_s=now() if restart else asked_s)
    left = await _pods(site, name)
    told = {pod: [line for line in site.lines(pod) if line["at_s"] > asked_s] for pod in {*pods_before, *left}}
    chief = steps(site, name)
    start_s = max([asked_s, *[await _begun_s(site, pod) for pod in left]])
    first_s = min(line["at_s"] for line in chief if line["world"] == after and line["at_s"] > start_s)
    stages = {
        "stop": _last(line["at_s"] for pod in pods_before for line in told[pod] if "exit" in line) - asked_s,
        "operator": _last(changes_s.values()) - asked_s,
        "start": start_s - asked_s,
        "restore": sum(line.get("restore_s", 0.0) for line in told[f"{name}-ps-0"]),
        "first step": first_s - asked_s,
    }
    gaps = [late - early for early, late in pairwise(line["at_s"] for line in chief) if asked_s <= late <= first_s]
    changed = sum(pods_before.get(pod, one)[0] != one[0] for pod, one in left.items())
    repeated = len(chief) - len({line["step"] for line in chief})
    return Resize({stage: max(s, 0.0) for stage, s in stages.items()}, max(gaps), repeated, changed)


async def _lost(site: TrainingSite, lost: str, name: str) -> tuple[float, bool]:
    """Delete a worker's pod; seconds until all train again, and whether its successor is on the same node."""
    world, asked_s = steps(site, name)[-1]["world"], now()
    before = (await _pods(site, name))[lost]
    await site.api.delete("Pod", lost, namespace=TEAM)
    pods = partial(_pods, site, name)
    await site.api.until(pods, lambda now: now.get(lost, before)[0] != before[0], what="another", limit_s=_LIMIT_S)
    await until_steps(site, name, world, after_s=now())
    return now() - asked_s, (await pods())[lost][1] == before[1]


async def _begun_s(site: TrainingSite, pod: str) -> float:
    return _last(line["at_s"] for line in site.lines(pod) if "rank" in line)


async def _follow(site: TrainingSite, name: str, changes_s: dict[str, float]) -> None:
    """Pod → when it was first seen created, or to be deleted."""
    known = {one["metadata"]["name"] for one in await site.pods(name)}
    async for _, pod in site.api.watch("Pod", namespace=TEAM):
        meta = pod["metadata"]
        if meta["name"].startswith(name) and ("deletionTimestamp" in meta or meta["name"] not in known):
            changes_s.setdefault(meta["name"], now())


async def _pods(site: TrainingSite, name: str) -> dict[str, tuple[str, str]]:
    """Pod → its uid and node."""
    found = ((one["metadata"], one["spec"].get("nodeName", "")) for one in await site.pods(name))
    return {meta["name"]: (meta["uid"], node) for meta, node in found}


def _last(times: Iterable[float]) -> float:
    return max(times, default=0.0)


def now() -> float:
    """By the clock of what pods say."""
    return time.time()  # noqa: TID251


def _figures(found: dict[tuple[tuple[int, int], str], list[Resize]]) -> Iterable[Figure]:
    for ((before, after), way), ours in found.items():
        of, published = f"{before} → {after}, {way}", _CASES[before, after]
        means = {stage: fmean(one.stages[stage] for one in ours) for stage in ours[0].stages}
        note = ", ".join(f"{stage} {seconds:.2g}" for stage, seconds in means.items())
        trained = tuple(one.stages["first step"] for one in ours)
        yield Figure("E3", f"{of}: until all train, s ({note})", published, trained)
        yield Figure("E3", f"{of}: stall, s", "–", tuple(one.stall_s for one in ours))
        yield Figure("E1", f"{of}: steps repeated", f"≤ {_EVERY}", tuple(float(one.repeated) for one in ours))
        yield Figure("E4", f"{of}: other pods with another uid", "0", tuple(float(one.changed) for one in ours))
