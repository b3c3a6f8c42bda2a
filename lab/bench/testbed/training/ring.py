"""Ring all-reduce: n members add up their vectors, each sending 2(n−1)/n of a vector to its right neighbour.

First half: in n−1 rounds each member passes one chunk on and adds the one it gets; then each has one finished chunk.
Second half: in n−1 rounds the finished chunks go round. All 2(n−1) rounds wait for each other: one slow link, or one
link with delay, stands in every one of them.
"""

from socket import socket

import numpy as np

from lab.bench.testbed.training.data import Floats
from lab.bench.testbed.training.wire import Meter, transfer


def all_reduce(vector: Floats, rank: int, members: int, *, left: socket, right: socket, meter: Meter) -> None:
    """Replace `vector` by the sum of all members' vectors. Cost: 2(members−1) rounds of size/members numbers each.

    The order of additions of each chunk is fixed by the ring, so all members get the same bits.
    """
    chunks = _chunks(vector, members)
    inbox = np.empty(max(len(one) for one in chunks), np.float32)
    for turn in range(members - 1):  # 1. add up
        out, into = (rank - turn) % members, (rank - turn - 1) % members
        got = inbox[: len(chunks[into])]
        transfer(meter, send=[(right, chunks[out])], receive=[(left, got)])
        chunks[into] += got
    for turn in range(members - 1):  # 2. hand round
        out, into = (rank + 1 - turn) % members, (rank - turn) % members
        transfer(meter, send=[(right, chunks[out])], receive=[(left, chunks[into])])


def _chunks(vector: Floats, members: int) -> list[Floats]:
    """Views of nearly equal parts.

    >>> [len(part) for part in _chunks(np.zeros(10, np.float32), 4)]
    [3, 3, 2, 2]
    """
    return np.array_split(vector, members)
