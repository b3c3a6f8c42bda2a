"""From measurements to netgang's choice: the bed's mesh file through the real source, service and planner."""

import pytest

from lab.bench.testbed.cases import IMPAIRED, WANTED, Impairment
from lab.bench.testbed.choosing import chosen
from lab.bench.testbed.nodes import NODES
from lab.bench.testbed.probes import Link, Measured

CLEAN = Link(loss_ratio=0.0, delay_ms=0.014, throughput_bps=95.6e6)
BAD = {  # case: what an impaired node's links show, as the bed measures it at the weakest end of the sweep
    "bandwidth": Link(0.0, 0.013, 86.1e6),
    "loss": Link(0.05, 0.015, 47.2e6),
    "delay": Link(0.0, 50.2, 27.0e6),
    "nothing was measured": Link(1.0, None, None),
}


def mesh(bad: Link, impaired: tuple[str, ...] = IMPAIRED) -> Measured:
    """All pairs of the bed; those from an impaired node are bad, with a little noise everywhere."""
    found = {}
    for number, (a, b) in enumerate((a, b) for a in NODES for b in NODES if a != b):
        link = bad if a in impaired else CLEAN
        rate = None if link.throughput_bps is None else link.throughput_bps * (1.0 - 0.002 * (number * 7 % 5))
        found[a, b] = Link(link.loss_ratio, link.delay_ms, rate)
    return found


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_netgang_avoids_the_impaired_nodes(bad: Link) -> None:
    assert set(chosen(mesh(bad))) == set(NODES) - set(IMPAIRED)


def test_the_choice_follows_the_measurements() -> None:
    other = ("node28", "node30", "node36")
    found = chosen(mesh(BAD["loss"], impaired=other))
    assert (len(found), set(found)) == (WANTED, set(NODES) - set(other))


def test_every_impairment_has_a_case_above() -> None:
    """A new impairment needs a measured example."""
    assert {one.value for one in Impairment} <= set(BAD)
