"""E1 to E4: resizes that a patch makes (`lab.papers.resizes`), then E2: workers follow what their jobs report.

The published 50, 200 and 500 steps between two looks are 5, 20 and 50 here, and netgang's least times between changes
are off. A job's parameter server reports each step with its pod's own token. All jobs of a batch train at once: each
has its parameter server on one node and its workers on the next, so that a link bounds the updates a second. *waits*
and *computes* follow the use of time: the workers of the one wait for the link, those of the other for their CPU.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from time import monotonic
from typing import Any, Final

import msgspec

from extender.controllers.removals import QUIET_S
from lab.bench.testbed.nodes import NODES, Bed
from lab.bench.testbed.shaping import set_rates
from lab.papers.bed import TEAM, TrainingSite
from lab.papers.figures import Figure, Tell
from lab.papers.resizes import Resizes, dynamic, steps

_LINK_BPS: Final = 20_000_000
"""So that jobs wait for their links and leave this machine's cores to those that start"""
_LIMIT_S, _MEAN_OF = 240.0, 20
_LINK: Final = ("--pad-bytes=150000", "--batch=64")


class _Policy(msgspec.Struct, frozen=True):
    name: str
    scaling: str
    updates: int
    """After which the job is over"""
    published: str = "–"
    arguments: tuple[str, ...] = _LINK
    workers: int = 3
    most: int = 12
    cpu: str = "1"


_CYCLE: Final = "3 → 6 → 9 → 12 → 3"
_LOSS: Final = _Policy("loss", "loss", 800, "3 → 6 → 9 → 12 → 9")
_CURVE: Final = _Policy("curve", "curve", 250)
_WAITS: Final = _Policy("usage, waits", "usage", 300, workers=6)
_COMPUTES: Final = _Policy("usage, computes", "usage", 250, arguments=("--batch=8192",), most=5, cpu="50m")
_COUNTED: Final = {every: _Policy("iterations", "iterations", 5 * every + 100, _CYCLE) for every in (5, 20, 50)}
_BATCHES: Final[Mapping[int, Sequence[Sequence[_Policy]]]] = {
    **{5: [[_COUNTED[5]]], 20: [[_COUNTED[20]]]},
    50: [(_LOSS, _COMPUTES, _WAITS), (_COUNTED[50], _CURVE)],
}
"""Steps between two looks → policies whose jobs train at once"""


class _Outcome(msgspec.Struct, frozen=True):
    changes: tuple[tuple[int, int, float], ...]  # Workers, step and loss at which each was decided
    loss: float  # At the end

    def path(self, workers: int) -> str:
        """For people."""
        return " → ".join([str(workers), *(f"{to} (step {step}, loss {loss:.2f})" for to, step, loss in self.changes)])


async def measure(made: Bed, site: TrainingSite, runs: int, tell: Tell) -> list[Figure]:
    """All of them; netgang's quiet time after a change of its settings is used for runs of the resizes."""
    figures, resizes = list[Figure](), Resizes()
    set_rates(made, dict.fromkeys(NODES, _LINK_BPS))
    await site.set_rooms(NODES, cpu_m=16_000)
    for number, every in enumerate(_BATCHES):
        await site.configure(*_settings(every))
        over_s = monotonic() + QUIET_S
        tell(f"E: netgang looks each {every} steps")
        for run in range(number, runs, len(_BATCHES)):
            await resizes.run(site, run, tell)
        await asyncio.sleep(max(over_s - monotonic(), 0.0))
        figures += await _followed(site, every, runs, tell)
    return [*resizes.figures(), *figures]


async def _followed(site: TrainingSite, every: int, runs: int, tell: Tell) -> list[Figure]:
    """The policies of so many steps, `runs` jobs of each."""
    figures = list[Figure]()
    for number, policies in enumerate(_BATCHES[every]):
        jobs = [policy for _ in range(runs) for policy in policies]
        ways = [(NODES[2 * place % len(NODES)], NODES[(2 * place + 1) % len(NODES)]) for place in range(len(jobs))]
        names = (f"e2-{every}-{number}-{place}" for place in range(len(jobs)))
        ended = await asyncio.gather(*(_trained(site, *one) for one in zip(names, jobs, ways, strict=True)))
        for policy in policies:
            ours = [one for job, one in zip(jobs, ended, strict=True) if job is policy]
            tell(f"E2: {policy.name}, k = {every}: {'; '.join(one.path(policy.workers) for one in ours)}")
            figures += _figures(policy, every, ours)
    return figures


def _settings(every: int) -> Iterator[str]:
    """Of the chart, for policies of so many steps; a replica of a busy machine may be late with its lease."""
    limits = {"every_steps": every, "settle_steps": 5, "min_interval_s": 0, "reversal_steps": 2 * every}
    for name, value in (limits | {"horizon_s": 60, "stall_s": 1}).items():
        yield f"settings.elastic.metrics.{name}={value}"
    yield from ("settings.elastic.cool_down_s=1", "settings.lease.duration_s=20")


async def _trained(site: TrainingSite, name: str, policy: _Policy, on: tuple[str, str]) -> _Outcome:
    """A job, until it has so many updates; it is removed."""
    made = site.job(
        name,
        ["--mode=async", "--steps=1000000", *policy.arguments],
        workers=policy.workers,
        cpu=policy.cpu,
        ps_cpu="1",
        limited=True,
        ps_on=on[:1],
        workers_on=on[1:],
    )
    await site.api.create(dynamic(made, scaling=policy.scaling, min_workers="3", max_workers=str(policy.most)))
    async with asyncio.timeout(_LIMIT_S):
        while len(told := steps(site, name)) < policy.updates:  # noqa: ASYNC110 - a file says it
            await asyncio.sleep(1.0)
    changes = (await site.document(f"/v1/jobs/{TEAM}/{name}"))["changes"]
    await site.remove(name)
    return _Outcome(tuple(_change(told, one) for one in changes), _loss(told))


def _change(told: list[dict[str, Any]], change: dict[str, Any]) -> tuple[int, int, float]:
    before = [line for line in told if line["at_s"] <= change["decided_s"]]
    return change["after"], before[-1]["step"], _loss(before)


def _loss(told: list[dict[str, Any]]) -> float:
    return fmean(line["loss"] for line in told[-_MEAN_OF:])


def _figures(policy: _Policy, every: int, ours: list[_Outcome]) -> Iterator[Figure]:
    paths = "; ".join(one.path(policy.workers) for one in ours)
    of = f"{policy.name}, k = {every}"
    yield Figure("E2", f"{of}: changes: {paths}", policy.published, tuple(float(len(one.changes)) for one in ours))
    falls = tuple(one.loss / one.changes[-1][2] for one in ours if one.changes)
    if falls:
        yield Figure("E2", f"{of}: last loss by that at the last change", "–", falls)
