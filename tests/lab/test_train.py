"""A job trains alike however it is spread, and goes on whatever is killed or resized."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.papers.train.__main__ import place

pytestmark = pytest.mark.slow  # ranks are processes
ROOT = Path(__file__).parents[2]


class Job:
    """Ranks of one job as processes; rank 0 is the ps, or the first of a ring."""

    def __init__(self, folder: Path, mode: str, *, ranks: int, steps: int, batch: int = 32) -> None:
        sizes = [f"--steps={steps}", f"--batch={batch}", "--pad-bytes=100000", f"--checkpoint-dir={folder}"]
        self._command = [sys.executable, "-m", "lab.papers.train", f"--mode={mode}", *sizes]
        with socket.create_server(("127.0.0.1", 0)) as free:
            chief = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        self._env = os.environ | chief | {"WORLD_SIZE": str(ranks), "OPENBLAS_NUM_THREADS": "1"}
        self.running: dict[int, subprocess.Popen[str]] = {}
        self.told: list[dict[str, Any]] = []  # The chief's lines, of all its lives
        for rank in range(ranks):
            self.start(rank)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        for rank in [*self.running]:
            self.end(rank)

    def start(self, rank: int) -> None:
        output = subprocess.DEVNULL if rank else subprocess.PIPE
        how: dict[str, Any] = {"cwd": ROOT, "stdout": output, "text": True, "pipesize": 4096}  # not far ahead of us
        self.running[rank] = subprocess.Popen(self._command, env=self._env | {"RANK": str(rank)}, **how)

    def end(self, rank: int, how: signal.Signals = signal.SIGKILL) -> int:
        """Its exit code; what the chief had still said is read."""
        process = self.running.pop(rank)
        process.send_signal(how)
        self.told += map(json.loads, process.communicate()[0].splitlines() if rank == 0 else ())
        return process.wait()

    def until(self, accept: Callable[[dict[str, Any]], bool]) -> None:
        """Read the chief's lines."""
        for text in self.running[0].stdout or ():
            self.told.append(json.loads(text))
            if accept(self.told[-1]):
                return
        raise AssertionError(self.told[-1:])

    def steps(self) -> list[dict[str, Any]]:
        return [line for line in self.told if "world" in line]


def losses(folder: Path, mode: str, *, ranks: int, batch: int) -> list[float]:
    with Job(folder, mode, ranks=ranks, steps=80, batch=batch) as job:
        job.until(lambda line: "exit" in line)
        assert {process.wait() for process in job.running.values()} == {0}
    return [line["loss"] for line in job.steps()]


@pytest.mark.parametrize(("mode", "ranks", "batch"), [("ps", 2, 32), ("ps", 5, 8), ("ring", 4, 8)])
def test_a_synchronous_job_of_any_size_has_the_losses_of_one_process(
    tmp_path: Path, mode: str, ranks: int, batch: int
) -> None:
    want = losses(tmp_path / "alone", "ring", ranks=1, batch=32)
    assert losses(tmp_path / "job", mode, ranks=ranks, batch=batch) == pytest.approx(want, rel=1e-3)
    assert sum(want[-5:]) < 0.9 * sum(want[:5])


@pytest.mark.parametrize("mode", ["ps", "async", "ring"])
def test_whatever_happens_less_than_an_interval_is_repeated(tmp_path: Path, mode: str) -> None:
    """Kills and a resize by SIGTERM: no step is lost twice, and the loss falls."""
    with Job(tmp_path, mode, ranks=3, steps=10**6) as job:
        for rank, step in ((1, 5), (0, 17), (0, 1), (2, 60)):
            job.until(lambda line, step=step: line.get("step", 0) >= step)  # type: ignore[misc]
            job.end(rank)
            job.start(rank)
        job.start(3)
        job.until(lambda line: line.get("step", 0) > 60 and line["world"] == 3 + (mode == "ring"))
        assert (job.end(3, signal.SIGTERM), job.end(0, signal.SIGTERM)) == (143, 143)
        last = job.steps()[-1]["step"]
        job.start(0)
        job.until(lambda line: line.get("step", 0) >= max(last + 20, 300))
    told = job.steps()
    assert max(Counter(line["step"] for line in told).values()) <= 2
    begins = [number for number, line in enumerate(job.told) if "rank" in line]
    before = [max((line.get("step", 0) for line in job.told[:number]), default=0) for number in begins]
    lost = [had - job.told[number]["resumed"] for had, number in zip(before, begins, strict=True)]
    assert len(lost) == 4
    assert all(-1 <= one < 10 for one in lost), "-1: killed between a step's checkpoint and its line"
    assert lost[-1] <= 0, "a chief that is told to go leaves all to the next"
    assert told[-1]["loss"] < 0.5 * told[0]["loss"]
    assert any(line.get("staleness") for line in told) == (mode == "async")


def test_a_pod_of_an_indexed_job_finds_its_chief() -> None:
    assert place({"JOB_COMPLETION_INDEX": "3", "MASTER_ADDR": "j", "MASTER_PORT": "294"}) == (3, ("j", 294), 1)
