"""The network test bed itself, on this machine's kernel: skipped, with what is missing, where it cannot be had."""

import json

import pytest

from lab.bench.testbed.cases import IMPAIRED, Impairment
from lab.bench.testbed.errors import BedUnavailable
from lab.bench.testbed.experiment import Wanted, experiment
from lab.bench.testbed.kernel import Kernel, examined
from lab.bench.testbed.nodes import NODES
from lab.bench.testbed.probes import Effort
from lab.bench.testbed.report import table
from lab.bench.testbed.result import Result

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("network-namespaces")]


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """What the kernel can do; without a bed the tests are skipped with what is missing."""
    try:
        return examined()
    except BedUnavailable as error:
        pytest.skip(str(error))


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
