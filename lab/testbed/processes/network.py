"""Free loopback ports for the parts of a control plane.

Why: several clusters (test workers, a demo) run on one computer, and a port picked from the kernel's own range may
be taken by any outgoing connection before the program listens on it.
Rule: ports come from below that range, are tried by binding, and a process gets none of its last 500 again: the program
that is to listen on it may not have started yet.
"""

import os
import random
import socket
from collections import deque
from contextlib import ExitStack, suppress

LOOPBACK = "127.0.0.1"
FIRST_PORT = 20_000
LAST_PORT = 32_000  # Linux hands out 32768 and up by itself
_given = deque[int](maxlen=500)


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports that are free now, at random; each worker of pytest has every eighth for itself."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    mine, found = [port for port in range(FIRST_PORT + worker, LAST_PORT, 8) if port not in _given], list[int]()
    with ExitStack() as held:  # keep each port bound until all are found, so that they differ
        for port in random.SystemRandom().sample(mine, len(mine)):
            if len(found) == count:
                break
            holder = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            with suppress(OSError):
                holder.bind((LOOPBACK, port))
                found.append(port)
    if len(found) < count:
        raise OSError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")
    _given.extend(found)
    return tuple(found)
