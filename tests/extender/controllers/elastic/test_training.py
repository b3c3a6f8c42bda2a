"""A real, small training job is resized by the real controller while it trains, and its loss keeps falling.

In memory are the API server, Job controller, kubelets and kube-scheduler (`cluster`). Nothing waits for a duration:
phases of training are ordered and answered on pipes, and the quiet time after the start is jumped over.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from extender.bootstrap.serve import configs
from extender.controllers.removal.removals import QUIET_S
from extender.runtime.clock import SystemClock
from extender.settings.settings import Settings
from tests.extender.controllers.elastic import trainee
from tests.extender.controllers.elastic.cluster import Site, site
from tests.extender.controllers.elastic.reporting import TOKEN, TRAINER
from tests.extender.scheduling import world
from tests.extender.server.served import listening
from tests.fakes.clock import LoopClock
from tests.liveness import LIVENESS_S

ROOT = Path(__file__).parents[4]
STEPS = 50
POLICY = {"netgang.io/min-workers": "1", "netgang.io/max-workers": "3", "netgang.io/scaling": "loss"}
METRICS = {"every_steps": STEPS - 1, "min_interval_s": 0.0, "reversal_steps": 0, "workers_step": 1, "settle_steps": 0}


class Kubelets:
    """Keeps one process for each pod of the job that is on a node."""

    def __init__(self, here: Site, directory: Path, reports_url: str) -> None:
        self._here = here
        self._of: dict[int, Process] = {}  # index → its process
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("NETGANG_")},
            "NETGANG_REPORT_URL": f"{reports_url}/v1/jobs/default/train/metrics",
            "NETGANG_TOKEN_FILE": str(directory / "token"),
            "TRAINEE_ADDRESS": str(directory / "rank-0"),
            "OPENBLAS_NUM_THREADS": "1",
        }

    async def agree(self, workers: int) -> None:
        """Wait until the job has just these workers on nodes; start and end processes as kubelets would."""
        wanted = list(range(workers))
        await self._here.until(f"train has {workers} workers", lambda: self._here.on_nodes("train") == wanted)
        for index in wanted:
            if index not in self._of:
                self._of[index] = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "tests.extender.controllers.elastic.trainee", str(index)),
                    cwd=ROOT,
                    env=self._environment,
                    stdin=PIPE,
                    stdout=PIPE,
                )
        for index in [index for index in self._of if index >= workers]:
            gone = self._of.pop(index)
            gone.terminate()
            await gone.wait()

    async def train(self, workers: int) -> float:
        first = self._of[0]
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(f"{STEPS} {workers}\n".encode())
        answer = json.loads(await first.stdout.readline())
        return float(answer["loss"])

    @property
    def first(self) -> Process:
        return self._of[0]

    async def end(self) -> None:
        for process in self._of.values():
            if process.returncode is None:
                process.kill()
            await process.communicate()


@asynccontextmanager
async def served(here: Site, reports: dict[str, Any]) -> AsyncIterator[str]:
    """The service's port for reports on the loopback, as `netgang serve` has it; its address."""
    settings = Settings.model_validate({"elastic": {"enabled": True}, "reports": reports})
    config = dict(configs(settings, here.world.service))["reports.port"]
    async with listening(config, setting="reports") as server:
        yield server.url


async def document(here: Site) -> dict[str, Any]:
    return dict((await here.world.get("/v1/jobs/default/train")).json())


async def until_known(here: Site) -> None:
    async with asyncio.timeout(LIVENESS_S):
        while "state" not in await document(here):
            await here.world.settle(0.05)


@pytest.mark.slow
async def test_the_loss_keeps_falling_over_resizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, jumped_s = asyncio.get_running_loop(), 0.0
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + jumped_s)
    monkeypatch.setattr(world, "LoopClock", lambda: LoopClock(SystemClock().now_s() - real_time()))
    reports = {"port": 0}
    (tmp_path / "token").write_text(TOKEN)
    losses: list[float] = []
    async with site(nodes=2, reports=reports, elastic={"metrics": METRICS}) as here, served(here, reports) as url:
        here.api.reviews.owners = TRAINER
        kubelets = Kubelets(here, tmp_path, url)
        try:
            here.create("train", 1, least=1, annotations=POLICY)
            await kubelets.agree(1)
            await until_known(here)
            losses.append(await kubelets.train(1))
            rank_0 = kubelets.first.pid
            jumped_s += QUIET_S + 1.0
            for workers in (2, 3):  # the loss falls: one more, and one more
                await kubelets.agree(workers)
                losses.append(await kubelets.train(workers))
            here.create("heavy", 6, least=6)  # 8 CPUs, of which 3 are used
            await kubelets.agree(2)
            losses.append(await kubelets.train(2))
            await here.until("heavy runs", lambda: len(here.on_nodes("heavy")) == 6)
            here.end("heavy")
            await kubelets.agree(3)
            losses.append(await kubelets.train(3))
            told = await document(here)
            assert (kubelets.first.pid, kubelets.first.returncode) == (rank_0, None)
        finally:
            await kubelets.end()
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[1]
    schedule = [(STEPS, workers) for workers in (1, 2, 3, 2, 3)]
    assert losses == pytest.approx(trainee.alone(schedule)), "every worker's part counted, in every step"
    changes = [(one["before"], one["after"], one["who"], one["for"]) for one in told["changes"]]
    assert changes == [
        (1, 2, "metrics", None),
        (2, 3, "metrics", None),
        (3, 2, "queue", "default/heavy"),
        (2, 3, "queue", None),
    ]
    assert (told["points"]["kept"], told["reported"]["step"]) == (5 * STEPS, 5 * STEPS)
    assert told["reported"]["loss"] == pytest.approx(losses[-1])
    assert {one["workers"] for one in told["points"]["last"]} == {3}
