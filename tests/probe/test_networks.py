"""Agents in network namespaces find what is wrong, and nothing else (root, iproute2, iptables, ping, iperf3)."""

import pytest

from lab.bench.probe import throughput
from lab.bench.probe.network import cases
from lab.bench.testbed.errors import BedUnavailable
from tests.liveness import LIVENESS_S


@pytest.mark.slow
@pytest.mark.timeout(LIVENESS_S * 5)
def test_faults_are_found_and_the_round_trip_is_pings() -> None:
    found = {}
    try:
        for line in cases(30.0):
            found[line["case"]] = line
    except BedUnavailable as error:
        pytest.skip(str(error))
    assert {name: line["found"] for name, line in found.items()} == dict.fromkeys(("clean", "loss", "delay"), True), (
        found
    )


@pytest.mark.slow
@pytest.mark.timeout(LIVENESS_S * 8)
def test_a_slow_link_is_found_by_bursts_and_a_gang_avoids_it() -> None:
    try:
        line = throughput.measured()
    except BedUnavailable as error:
        pytest.skip(str(error))
    assert line["found"], line
    assert throughput.SLOW in line["gang_unmeasured"]
