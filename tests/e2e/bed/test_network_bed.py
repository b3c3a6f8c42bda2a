"""The network test bed itself, on this machine's kernel: skipped, with what is missing, where it cannot be had."""

import socket
from contextlib import suppress
from time import monotonic

import pytest

from lab.bench.testbed.cases import Impairment, Setting
from lab.bench.testbed.commands import PREFIX, clean, in_namespace, make, run
from lab.bench.testbed.nodes import Bed, address
from lab.bench.testbed.shaping import shaped


def arrive(made: Bed, *nodes: str) -> bool:
    """Whether 40 datagrams of a kilobyte all do within 0.15 s; a try of ours may wait for a processor."""
    ends = list[socket.socket]()
    for node in nodes:
        in_namespace(made.namespace(node), lambda: ends.append(socket.socket(type=socket.SOCK_DGRAM)))
    with ends[0] as source, ends[1] as target, suppress(TimeoutError):
        target.bind((address(nodes[1]), 0))
        target.settimeout(0.15)
        began_s = monotonic()
        for _ in [source.sendto(bytes(1000), target.getsockname()) for _ in range(40)]:
            target.recv(1000)
        return monotonic() - began_s < 0.15
    return False


@pytest.mark.parametrize(("kind", "value"), [("bandwidth", 1.0), ("loss", 50.0), ("delay", 200.0)])
def test_one_node_is_impaired_until_the_end_of_the_block(nodes: Bed, kind: str, value: float) -> None:
    with shaped(nodes, Setting(Impairment(kind), value, ("node1",))):
        assert not arrive(nodes, "node1", "node2")
        assert any(arrive(nodes, "node2", "node1") for _ in range(5)) == (kind != "bandwidth"), "it is of both ways"
    assert any(arrive(nodes, "node1", "node2") for _ in range(5))


def test_what_a_killed_run_left_is_removed_and_what_runs_is_not(nodes: Bed) -> None:
    make(left := f"{PREFIX}-{run('sh', '-c', 'echo $$').strip()}.0-left")
    process = nodes.run_id.partition(".")[0]
    assert {f"removed {left}", f"{nodes.switch} is left alone: process {process} runs"} <= {*clean()}
