"""Run one training job on six nodes of the bed, stage by stage, and put together what its ranks say."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import msgspec

from lab.bench.testbed.model import DATASETS, Job
from lab.bench.testbed.nodes import Bed, address

_PORTS = count(20_000)
CONNECT_LIMITS: Final = 2.0
"""Time for the connections, in limits of a run: at 50 % loss a handshake between impaired nodes takes several tries,
and the kernel waits longer before each."""
_LATE_S: Final = 30.0
"""A rank answers that long after its limit at the latest: it may be in the middle of computing."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one job."""

    seconds: float | None
    """Time of all steps; of a run that was cut short, what it would take at the rate until then; None: never began."""
    finished: bool
    progress_ratio: float
    """Share of the bytes that were to be received."""
    steps: int
    """Steps that all ranks completed."""
    first_loss: float | None
    last_loss: float | None
    """Mean over the workers' batches of the first and of the last step that all of them computed."""
    staleness: float | None = None
    """Of an asynchronous job: mean number of others' updates between a worker's pull and its push."""


NEVER_BEGAN: Final = Run(seconds=None, finished=False, progress_ratio=0.0, steps=0, first_loss=None, last_loss=None)


def run_job(
    bed: Bed, nodes: Sequence[str], *, dataset: str, topology: str, seed: int, limit_s: float, steps: int | None = None
) -> Run:
    """Train on these nodes; the first is rank 0. Errors: ChildFailed if a node's process fails."""
    job = Job(
        dataset=dataset,
        topology=topology,
        addresses=tuple(address(node) for node in nodes),
        port=next(_PORTS),
        seed=seed,
        steps=DATASETS[dataset].steps if steps is None else steps,
        limit_s=limit_s,
        connect_s=CONNECT_LIMITS * limit_s,
    )
    ranks = [bed.processes[node] for node in nodes]
    for number, rank in enumerate(ranks):
        rank.ask("listen", limit_s=_LATE_S, job=msgspec.to_builtins(job), rank=number)
    try:
        for rank in ranks:
            rank.tell("connect")
        connected = [rank.answer(limit_s=job.connect_s + _LATE_S) for rank in ranks]
        if any(connected):
            return NEVER_BEGAN
        for rank in ranks:
            rank.tell("train")
        return together([rank.answer(limit_s=limit_s + _LATE_S) for rank in ranks])
    finally:
        for rank in ranks:
            rank.ask("close", limit_s=_LATE_S)


def together(ranks: Sequence[dict[str, Any]]) -> Run:
    """One run from what its ranks said (`Trained`)."""
    judged = [one for one in ranks if one["expected_bytes"]]  # an asynchronous worker does what the server lets it
    finished = all(one["finished"] for one in judged)
    progress = sum(one["received_bytes"] for one in judged) / sum(one["expected_bytes"] for one in judged)
    seconds = max(one["seconds"] for one in judged)
    losses = list(zip(*(one["losses"] for one in ranks if one["losses"]), strict=False))
    means = [sum(step) / len(step) for step in losses]
    staleness = [count for one in ranks for count in one.get("staleness", ())]
    return Run(
        seconds=seconds if finished else seconds / progress if progress > 0.0 else None,
        finished=finished,
        progress_ratio=progress,
        steps=min(one["steps"] for one in judged),
        first_loss=means[0] if means else None,
        last_loss=means[-1] if means else None,
        staleness=sum(staleness) / len(staleness) if staleness else None,
    )
