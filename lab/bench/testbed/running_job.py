"""Run one training job on six nodes of the bed (`lab.papers.train`), and put together what its rank 0 says."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from lab.bench.child import ONE_THREAD, ROOT, ChildFailed
from lab.bench.testbed.nodes import Bed, address

TOPOLOGIES: Final = ("ps", "async")
"""Synchronous and asynchronous parameter server: rank 0 in both, the others are workers."""
_PORTS = count(20_000)
CONNECT_LIMITS: Final = 2.0
"""Time for the connections, in limits of a run: at 50 % loss a handshake between impaired nodes takes several tries,
and the kernel waits longer before each."""
_LATE_S: Final = 30.0
"""The job ends that long after its limits at the latest: processes start, and one may be in the middle of computing."""


class Dataset(msgspec.Struct, frozen=True):
    """Digits, trained with the traffic and the work of one of the paper's data sets."""

    name: str
    hidden: int
    """Units of the model: decides how many bytes a gradient has, and how long a step computes."""
    batch: int
    """Images per worker and step."""
    steps: int
    """Steps of one run: so few that five runs of each choice take minutes, and that at 40 Mbit/s all end."""


DATASETS: Final = {
    one.name: one
    for one in (
        Dataset("cifar10", hidden=2630, batch=64, steps=4),
        Dataset("notmnist", hidden=339, batch=256, steps=12),
    )
}
"""name → sizes. A gradient has 0.79 MB (cifar10) or 0.10 MB (notmnist)."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one job."""

    seconds: float | None
    """Time of all steps; of a run that was cut short, what it would take at the rate until then; None: no step."""
    finished: bool
    progress_ratio: float
    """Share of the steps that were done; of an asynchronous job, of the updates."""
    steps: int
    first_loss: float | None
    last_loss: float | None
    """Mean over the workers' batches of the first and of the last step."""
    staleness: float | None = None
    """Of an asynchronous job: mean number of others' updates between a worker's pull and its push."""


def run_job(
    bed: Bed, nodes: Sequence[str], *, dataset: str, topology: str, seed: int, limit_s: float, steps: int | None = None
) -> Run:
    """Train on these nodes; the first is rank 0. Errors: ChildFailed if that one does not say how it ended."""
    data, connect_s = DATASETS[dataset], CONNECT_LIMITS * limit_s
    wanted = (data.steps if steps is None else steps) * (len(nodes) - 1 if topology == "async" else 1)
    port = str(next(_PORTS))
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        sizes = [f"--steps={wanted}", f"--hidden={data.hidden}", f"--batch={data.batch}", f"--seed={seed}"]
        limits = [f"--limit-s={limit_s}", f"--peers-s={connect_s}", f"--checkpoint-dir={folder}"]
        ranks = []
        for rank, node in enumerate(nodes):
            place = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(nodes)),
                "MASTER_ADDR": address(nodes[0]),
                "MASTER_PORT": port,
            }
            inside = ("ip", "netns", "exec", bed.namespace(node), sys.executable, "-m", "lab.papers.train")
            process = subprocess.Popen(
                [*inside, "--mode", topology, *sizes, *limits],
                stdout=subprocess.DEVNULL if rank else subprocess.PIPE,
                cwd=ROOT,
                env={**os.environ, **ONE_THREAD, **place},
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            ranks.append(process)
        try:
            said, _ = ranks[0].communicate(timeout=connect_s + limit_s + _LATE_S)
        except subprocess.TimeoutExpired as error:
            raise ChildFailed(f"the job on {', '.join(nodes)} did not end") from error
    return outcome([json.loads(line) for line in said.splitlines()], wanted=wanted, topology=topology)


def outcome(lines: Sequence[dict[str, float]], *, wanted: int, topology: str) -> Run:
    """One run from the lines of its rank 0.

    >>> steps = [{"world": 5, "seconds": 2.0, "loss": loss, "staleness": 0} for loss in (2.3, 2.1)]
    >>> cut = outcome([*steps, {"exit": 124}], wanted=8, topology="ps")
    >>> cut.seconds, cut.finished, cut.progress_ratio, cut.last_loss
    (16.0, False, 0.25, 2.1)
    """
    if not lines or "exit" not in lines[-1]:
        raise ChildFailed("rank 0 did not say how it ended")
    steps = [line for line in lines if "world" in line]
    seconds, progress = sum(line["seconds"] for line in steps), len(steps) / wanted
    return Run(
        seconds=seconds / progress if steps else None,
        finished=lines[-1]["exit"] == 0,
        progress_ratio=progress,
        steps=len(steps),
        first_loss=steps[0]["loss"] if steps else None,
        last_loss=steps[-1]["loss"] if steps else None,
        staleness=sum(line["staleness"] for line in steps) / len(steps) if steps and topology == "async" else None,
    )
