"""A rank whose framework also does the transport: JAX over several processes, whose all-reduce is Gloo's over TCP.

Why a process of its own: JAX joins a group once in a process's life, and nothing interrupts a collective that waits for
a slow link; this one is ended instead. Gloo binds to what the machine's own name resolves to, so the child has a name
of its own (UTS namespace, util-linux' `unshare`): the address of its interface in the bed. Progress is counted in whole
steps, as no byte of Gloo passes through us; repeated segments are the network namespace's.
"""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any, Final

import numpy as np

from lab.bench.testbed.training.convolution import Convolution
from lab.bench.testbed.training.data import batch
from lab.bench.testbed.training.job import Job, Trained
from lab.bench.testbed.training.model import LEARNING_RATE
from lab.bench.testbed.training.models import JAX

_ROOT: Final = Path(__file__).parents[4]
_COMPILE_S: Final = 25.0
"""Beside the time for connections: six processes import JAX and compile on the cores there are."""


class GlooRank:
    """As `worker.Rank`: `listen`, then `connect`, then `train`, then `close`."""

    def __init__(self, job: Job, rank: int) -> None:
        if job.model != JAX:
            raise ValueError("Gloo is JAX's transport: it needs the model jax")
        self._job = job
        self._rank = rank
        self._child: subprocess.Popen[bytes] | None = None

    def listen(self) -> None:
        """Start the child; it imports JAX meanwhile."""
        given = [json.dumps(asdict(self._job)), str(self._rank)]
        command = ["unshare", "--uts", sys.executable, "-m", "lab.bench.testbed.training.gloo", *given]
        pipe = subprocess.PIPE
        # Without a buffer, so that no line hides in it from `select`.
        self._child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0, cwd=_ROOT
        )

    def connect(self) -> None:
        """Wait until the group is there, everything is compiled and one all-reduce is through. Errors: OSError."""
        limit_s = self._job.connect_s + _COMPILE_S
        if self._line(monotonic() + limit_s) is None:
            raise TimeoutError(f"rank {self._rank} joined no group within {limit_s:g} s")

    def train(self) -> Trained:
        """All steps, or as many as the time allows."""
        assert self._child is not None
        assert self._child.stdin is not None
        before = _segments_sent_again()
        began_s = monotonic()
        losses: list[float] = []
        self._child.stdin.write(b"train\n")
        while len(losses) < self._job.steps and (line := self._line(began_s + self._job.limit_s)) is not None:
            losses.append(float(line))
        size = 4 * Convolution.shaped(self._job.data).size
        return Trained(
            rank=self._rank,
            steps=len(losses),
            seconds=monotonic() - began_s,
            finished=len(losses) == self._job.steps,
            received_bytes=len(losses) * size,
            expected_bytes=self._job.steps * size,
            retransmits=_segments_sent_again() - before,
            losses=tuple(losses),
        )

    def close(self) -> None:
        """End the child, whatever it waits for."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()

    def _line(self, until_s: float) -> bytes | None:
        """The child's next line; None: it has ended, or the time is over."""
        assert self._child is not None
        assert self._child.stdout is not None
        ready, _, _ = select.select([self._child.stdout], [], [], max(until_s - monotonic(), 0.0))
        return (self._child.stdout.readline().strip() or None) if ready else None


def _segments_sent_again() -> int:
    names, values = (
        line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines() if line[:4] == "Tcp:"
    )
    return int(values[names.index("RetransSegs")])


def main() -> None:
    """The child: join, compile, say so; train at a line of input, with a line of the loss after each step."""
    job, rank = Job.from_json(json.loads(sys.argv[1])), int(sys.argv[2])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Gloo writes lines of its own to the standard output
    socket.sethostname(job.addresses[rank])
    step, parameters = _joined(job, rank)
    _, loss = step(parameters, 0)
    float(loss)
    print("ready", file=out, flush=True)
    sys.stdin.readline()
    for number in range(job.steps):
        parameters, loss = step(parameters, number)
        print(float(loss), file=out, flush=True)
    sys.stdin.read()  # until we are ended: JAX's coordinator must not go before the others are through


def _joined(job: Job, rank: int) -> tuple[Callable[[Any, int], tuple[Any, Any]], Any]:
    """One step of the whole group, (parameters, number) → (parameters, mean loss), and the first parameters."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    members = len(job.addresses)
    jax.distributed.initialize(
        f"{job.addresses[0]}:{job.port}", members, rank, initialization_timeout=int(job.connect_s + _COMPILE_S)
    )
    net, data = Convolution.shaped(job.data), job.data
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rank",))
    own, everyone = PartitionSpec("rank"), PartitionSpec()

    def one_step(parameters: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(net.loss)(jax.lax.pcast(parameters, "rank", to="varying"), images, labels)
        return parameters - LEARNING_RATE * jax.lax.pmean(gradient, "rank"), jax.lax.pmean(loss, "rank")

    parts = {"in_specs": (everyone, own, own), "out_specs": (everyone, everyone)}
    compiled = jax.jit(jax.shard_map(one_step, mesh=mesh, **parts))

    def step(parameters: Any, number: int) -> tuple[Any, Any]:
        images, labels = batch(data, seed=job.seed, worker=rank, step=number)
        shared = [
            jax.make_array_from_process_local_data(NamedSharding(mesh, own), one)
            for one in (images, labels.astype(np.int32))
        ]
        moved, loss = compiled(parameters, *shared)
        return moved, loss

    return step, jax.make_array_from_process_local_data(NamedSharding(mesh, everyone), net.initial(job.seed))


if __name__ == "__main__":
    main()
