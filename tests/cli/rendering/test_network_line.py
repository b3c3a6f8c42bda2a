"""The line about a gang's network, which `netgang explain` prints."""

from typing import Any

import msgspec
import pytest

from cli.rendering.explained import network_line
from scoring.explain.gang_network import GangNetwork

WORST = {"source": "n1", "target": "n2", "points": 41.2, "loss_ratio": 0.001, "delay_ms": 0.35, "oldest_s": 30.0}
WORST |= {"throughput_bps": 9.4e9}
NETWORK = {"zones": ["A"], "nodes": ["n1", "n2"], "of_nodes": 2, "score": 62.31, "worst": WORST}
NOTHING = dict.fromkeys(("loss_ratio", "delay_ms", "throughput_bps"))
LINES = {  # case: (fields that differ, the line)
    "all is known": (
        {},
        "network: zone A, 2 nodes, score 62.3; worst link n1 → n2: 41 points, loss 0.1 %, delay 0.35 ms, "
        "throughput 9400 Mbit/s",
    ),
    "two zones, nothing measured": (
        {"zones": ["A", "B"], "worst": WORST | NOTHING},
        "network: zones A, B, 2 nodes, score 62.3; worst link n1 → n2: 41 points, "
        "loss not known, delay not known, throughput not known",
    ),
    "one node": (
        {"zones": [""], "of_nodes": 1, "score": None, "worst": None},
        "network: no zone, 1 node; no two members exchange data over a link that is scored",
    ),
}


@pytest.mark.parametrize(("fields", "line"), LINES.values(), ids=LINES)
def test_the_line_says_what_is_known(fields: dict[str, Any], line: str) -> None:
    assert network_line(msgspec.convert({**NETWORK, **fields}, GangNetwork)) == line
