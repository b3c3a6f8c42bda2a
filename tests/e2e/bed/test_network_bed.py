"""The network test bed itself, on this machine's kernel: skipped, with what is missing, where it cannot be had."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from lab.bench.testbed.cases import IMPAIRED, Impairment, Setting
from lab.bench.testbed.commands import NAMESPACES
from lab.bench.testbed.errors import BedError, BedUnavailable
from lab.bench.testbed.experiment import Wanted, experiment
from lab.bench.testbed.kernel import Kernel, examined
from lab.bench.testbed.nodes import NODES, Bed, bed
from lab.bench.testbed.probes import Effort, Measured, probe
from lab.bench.testbed.record import PREFIX, clean
from lab.bench.testbed.report import table
from lab.bench.testbed.result import Result
from lab.bench.testbed.running_job import run_job
from lab.bench.testbed.shaping import shaped

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("network-namespaces")]
THREE = NODES[:3]
SICK = THREE[:1]
QUICK = Effort(packets=60, gap_s=0.005, warm_up_s=0.1, seconds=0.3)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """What the kernel can do; without a bed the tests are skipped with what is missing."""
    try:
        return examined()
    except BedUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def three(kernel: Kernel) -> Iterator[Bed]:
    with bed(nodes=THREE) as made:
        yield made


def namespaces(run_id: str) -> list[str]:
    return [one.name for one in NAMESPACES.glob(f"{PREFIX}-{run_id}-*")]


def measured(three: Bed, kernel: Kernel, impairment: Impairment, value: float) -> Measured:
    with shaped(three, kernel, Setting(impairment, value, SICK)):
        return probe(three, longest_delay_ms=value if impairment is Impairment.DELAY else 0.0, effort=QUICK)


def test_probes_find_the_rate(three: Bed, kernel: Kernel) -> None:
    """40 Mbit/s in both directions of the impaired node, and more than twice that between the clean ones."""
    found = measured(three, kernel, Impairment.BANDWIDTH, 40.0)
    rates = {pair: link.throughput_bps or 0.0 for pair, link in found.items()}
    sick = [rate for pair, rate in rates.items() if set(SICK) & set(pair)]
    clean_ = [rate for pair, rate in rates.items() if not set(SICK) & set(pair)]
    assert all(30e6 < rate < 44e6 for rate in sick)
    assert all(1.5 * max(sick) < rate < 110e6 for rate in clean_)


def test_probes_find_the_loss(three: Bed, kernel: Kernel) -> None:
    """A third of what the impaired node sends is lost, and nothing else."""
    found = measured(three, kernel, Impairment.LOSS, 33.0)
    lost = {pair: link.loss_ratio for pair, link in found.items()}
    sick = [ratio for (source, _), ratio in lost.items() if source in SICK]
    assert sum(sick) / len(sick) == pytest.approx(0.33, abs=0.15)
    assert all(ratio == 0.0 for (source, _), ratio in lost.items() if source not in SICK)


def test_probes_find_the_delay(three: Bed, kernel: Kernel) -> None:
    """100 ms on what the impaired node sends, and none on what it gets."""
    found = measured(three, kernel, Impairment.DELAY, 100.0)
    delays = {pair: link.delay_ms for pair, link in found.items()}
    for (source, _), delay_ms in delays.items():
        assert delay_ms is not None
        assert (100.0 <= delay_ms < 130.0) if source in SICK else (0.0 <= delay_ms < 30.0)


def test_a_setting_leaves_nothing_behind(three: Bed, kernel: Kernel) -> None:
    """After all three impairments, each ended by an error, the impaired node is as good as the others."""
    for impairment in Impairment:
        with ExitStack() as stack:
            stack.enter_context(suppress(KeyError))
            stack.enter_context(shaped(three, kernel, Setting(impairment, 40.0, SICK)))
            raise KeyError
    found = probe(three, longest_delay_ms=0.0, effort=QUICK)
    for link in found.values():
        assert link.loss_ratio == 0.0
        assert link.delay_ms is not None
        assert link.delay_ms < 30.0
        assert link.throughput_bps is not None
        assert link.throughput_bps > 60e6


def test_loss_is_real_to_tcp(three: Bed, kernel: Kernel) -> None:
    """With loss the job's kernels send segments again, and the job still learns what it learns without."""
    found = {}
    for value in (0.0, 10.0):
        with shaped(three, kernel, Setting(Impairment.LOSS, value, SICK)):
            found[value] = run_job(three, THREE, dataset="notmnist", topology="ps", seed=0, limit_s=20.0, steps=3)
    assert all(one.finished for one in found.values())
    assert found[10.0].retransmits > found[0.0].retransmits
    assert found[10.0].last_loss == found[0.0].last_loss


def test_an_asynchronous_job_waits_for_no_slow_worker(three: Bed, kernel: Kernel) -> None:
    """One slow node of three: as the parameter server it is in everybody's way, as a worker it does fewer steps."""
    job: dict[str, Any] = {"dataset": "notmnist", "topology": "async", "seed": 0, "limit_s": 20.0, "steps": 6}
    with shaped(three, kernel, Setting(Impairment.BANDWIDTH, 5.0, SICK)):
        slow_server = run_job(three, THREE, **job)
        slow_worker = run_job(three, THREE[::-1], **job)
    assert slow_server.finished
    assert slow_worker.finished
    assert (slow_worker.seconds or 0.0) < 0.7 * (slow_server.seconds or 0.0)
    fast, slow = slow_worker.worker_steps
    assert slow < fast


def test_everything_is_removed_when_a_run_fails(kernel: Kernel) -> None:
    """An error inside takes all namespaces, and all processes with it."""

    def fail() -> None:
        with bed(nodes=THREE) as made:
            there.extend(namespaces(made.run_id))
            raise BedError("broken")

    there: list[str] = []
    with pytest.raises(BedError, match="broken"):
        fail()
    assert len(there) == len(THREE) + 1
    assert not any((NAMESPACES / name).exists() for name in there)


def test_a_run_that_lives_is_left_alone(three: Bed) -> None:
    assert any(f"process {os.getpid()} runs" in one for one in clean())
    assert len(namespaces(three.run_id)) == len(THREE) + 1


def test_ctrl_c_and_a_kill_leave_nothing(kernel: Kernel) -> None:
    """The first removes everything itself; what the second leaves, `clean` removes."""
    code = (
        "import signal, select; from lab.bench.testbed.nodes import bed, NODES\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored by what a shell runs in the background
        "with bed(nodes=NODES[:2]) as b:\n"
        "    print(b.run_id, flush=True); select.select([], [], [])\n"
    )
    for number, left in ((signal.SIGINT, 0), (signal.SIGKILL, 3)):
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            run_id = process.stdout.readline().strip()
            process.send_signal(number)
        assert len(namespaces(run_id)) == left
        said = [one for one in clean() if f"-{run_id}-" in one]
        assert len(said) == left
        assert all(one.startswith("removed ") for one in said)
        assert namespaces(run_id) == []


def test_smoke(kernel: Kernel) -> None:
    """One value of each impairment, one small job: netgang takes no impaired node, and saves time."""
    wanted = Wanted(
        sweep={Impairment.BANDWIDTH: (40.0,), Impairment.LOSS: (20.0,), Impairment.DELAY: (50.0,)},
        datasets=("notmnist",),
        topologies=("ps",),
        draws=0,
        run_s=4.0,
        steps=5,
        effort=Effort(packets=40, gap_s=0.005, warm_up_s=0.05, seconds=0.15),
    )
    result = Result(wanted.seed, kernel.delay_by)
    experiment(kernel, wanted, result, tell=lambda _: None)
    ours = {row.impairment: row for row in result.rows if row.choice == "netgang"}
    worst = {row.impairment: row for row in result.rows if row.choice == "worst"}
    assert set(ours) == set(worst) == {one.value for one in Impairment}
    assert result.left_out == []
    for impairment, row in ours.items():
        assert set(row.nodes) == set(NODES) - set(IMPAIRED)
        assert (row.impaired, worst[impairment].impaired) == (0, 3)
        assert row.run.finished
    for impairment in ("loss", "delay"):
        assert (ours[impairment].run.seconds or 0.0) < 0.7 * (worst[impairment].run.seconds or float("inf"))
    assert json.dumps([row.as_json() for row in result.rows])
    assert "| bandwidth | notmnist |" in table(result)
