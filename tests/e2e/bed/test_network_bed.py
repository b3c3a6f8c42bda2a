"""The network test bed itself, on this machine's kernel: skipped, with what is missing, where it cannot be had."""

import msgspec
import pytest

from lab.bench.testbed.cases import Impairment
from lab.bench.testbed.commands import BedUnavailable
from lab.bench.testbed.experiment import Wanted, experiment
from lab.bench.testbed.nodes import examine
from lab.bench.testbed.report import table
from lab.bench.testbed.result import Result

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("network-namespaces")]


def test_smoke() -> None:
    try:
        examine()
    except BedUnavailable as error:
        pytest.skip(str(error))
    wanted = Wanted(
        sweep={Impairment.BANDWIDTH: (40.0,), Impairment.LOSS: (20.0,), Impairment.DELAY: (50.0,)},
        datasets=("notmnist",),
        topologies=("ps",),
        run_s=4.0,
        steps=5,
    )
    result = Result(wanted.seed)
    experiment(wanted, result, tell=lambda _: None)
    ours = {row.impairment: row for row in result.rows if row.choice == "netgang"}
    worst = {row.impairment: row for row in result.rows if row.choice == "worst"}
    assert set(ours) == set(worst) == {one.value for one in Impairment}
    assert result.left_out == []
    for impairment, row in ours.items():
        assert worst[impairment].impaired == 3
        assert row.finished
    for impairment in ("loss", "delay"):
        assert (ours[impairment].seconds or 0.0) < 0.7 * (worst[impairment].seconds or float("inf"))
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
    assert "| bandwidth | notmnist |" in table(result)
