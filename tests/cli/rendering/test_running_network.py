"""The line about a running gang's network, which `netgang explain` and `netgang jobs` print."""

from typing import Any

import msgspec
import pytest

from cli.rendering.running_network import network_line
from extender.schemas.running_network import RunningNetwork
from tests.cli.test_queue import NETWORK, WORST

NOTHING = dict.fromkeys(("loss_ratio", "delay_ms", "throughput_bps"))
LINES = {  # case: (fields that differ, the line)
    "all is known": (
        {},
        "network: zone A, 2 nodes, score 62.3 (at start 80.0); worst link n1 → n2: 41 points, "
        "loss 0.1 %, one-way delay 0.35 ms, throughput 9.4 Gbit/s",
    ),
    "two zones, no start, nothing measured": (
        {"zones": ["A", "B"], "score_at_start": None, "worst": WORST | NOTHING},
        "network: zones A, B, 2 nodes, score 62.3; worst link n1 → n2: 41 points, "
        "loss not known, one-way delay not known, throughput not known",
    ),
    "one node": (
        {"zones": [""], "of_nodes": 1, "score": None, "worst": None},
        "network: no zone, 1 node; no two members exchange data over a link that is scored",
    ),
}


@pytest.mark.parametrize(("fields", "line"), LINES.values(), ids=LINES)
def test_the_line_says_what_is_known(fields: dict[str, Any], line: str) -> None:
    assert network_line(msgspec.convert({**NETWORK, **fields}, RunningNetwork)) == line
