"""The training-speed model has the shapes that were measured, whatever its numbers."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from lab.simulator.model import SimJob, Sync
from lab.simulator.speed.loss import LossModel
from lab.simulator.speed.rate import Crowd, Placement, speed_of
from lab.simulator.speed.stall import repeated_samples, resize_stall_s
from lab.simulator.speed.table import PROFILES
from lab.simulator.speed.traffic import Wires
from scoring.network.matrix import NetworkMatrix
from tests.builders import mesh
from tests.simulator.simulated import job, nodes

NAMES = tuple(node.name for node in nodes(8))
BLANK = Wires(NetworkMatrix(), NAMES)
ALONE = Crowd({}, {})


def seconds(one: SimJob, workers: int, *, wires: Wires = BLANK, crowd: Crowd = ALONE) -> float:
    """Seconds for the whole job with its ps on the first node and the workers on the others in turn."""
    at = Placement((0,) * one.ps_count, tuple(1 + i % 7 for i in range(workers)))
    return one.work.samples / speed_of(one, at, wires, crowd).samples_per_s


@pytest.mark.parametrize("model", PROFILES)
def test_more_workers_never_take_longer(model: str) -> None:
    """K8: time falls with workers as long as the ps is no bottleneck, and does not rise when it is."""
    one = job("j", model=model, batch=128)
    times = [seconds(one, count) for count in range(1, 13)]
    assert times == sorted(times, reverse=True)
    assert times[3] < 0.3 * times[0]


def test_a_synchronous_step_waits_for_the_slowest() -> None:
    """One crowded node makes all of its synchronous job slower, and asynchronous training only by its part."""
    crowd = Crowd({}, {1: 1.0})
    at = Placement((0,), (1, 2, 3, 4))
    slow = {}
    for sync in Sync:
        one = job("j", sync=sync)
        rates = [speed_of(one, at, BLANK, here).samples_per_s for here in (ALONE, crowd)]
        slow[sync] = rates[0] / rates[1]
    assert 1.0 < slow[Sync.ASYNCHRONOUS] < slow[Sync.SYNCHRONOUS] < 1.11


LINKS = {  # case: what is worse than 1 ms, no loss, 1 Gbit/s
    "delay": {"delay_ms": 200.0},
    "loss": {"loss_ratio": 0.05},
    "bandwidth": {"throughput_bps": 40e6},
}


@pytest.mark.parametrize("ps", [0, 1])
@pytest.mark.parametrize("worse", LINKS.values(), ids=LINKS)
def test_a_worse_link_makes_a_job_slower(worse: dict[str, float], ps: int) -> None:
    one = job("j", ps=ps, batch=8)
    good = Wires(mesh(NAMES, throughput_bps=1e9), NAMES)
    bad = Wires(mesh(NAMES, **cast("dict[str, Any]", {"throughput_bps": 1e9, **worse})), NAMES)
    at = Placement((0,) * ps, (1, 2, 3))
    assert speed_of(one, at, bad, ALONE).samples_per_s < 0.9 * speed_of(one, at, good, ALONE).samples_per_s


def test_a_change_costs_what_was_measured() -> None:
    """E3: 40.5 to 41.8 s for 3 → 6, 9, 12, and the steps since the last of checkpoints every 10 steps."""
    stalls = [resize_stall_s(to) for to in (6, 9, 12)]
    assert stalls == sorted(stalls)
    assert stalls[0] == pytest.approx(40.5)
    assert stalls[-1] == pytest.approx(41.8)
    assert repeated_samples(1000.0 * 32.0, 32.0) == 0.0
    assert repeated_samples(1009.0 * 32.0, 32.0) == 9.0 * 32.0


def test_the_loss_rises_with_twelve_asynchronous_workers_only() -> None:
    """E3: asynchronous training may get worse at 12 workers; synchronous training does not."""
    model = LossModel(32, Sync.ASYNCHRONOUS)
    low = model.after(model.start, 60_000.0, 6)
    assert model.after(low, 3_000.0, 12) > low > model.after(low, 3_000.0, 9)
    assert replace(model, sync=Sync.SYNCHRONOUS).after(low, 3_000.0, 12) < low
