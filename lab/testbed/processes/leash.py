"""Become another program that dies together with the process that started it.

Why: an aborted test run must leave nothing behind, whatever killed it. A function run between fork and exec would
do, but is unsafe once the parent has threads.
Rule: `python leash.py PARENT_PID PROGRAM ARGUMENT…` sets Linux's parent-death signal, which survives exec, checks
that the parent is still the one named, and replaces itself. It imports nothing of this project: it starts in
about 20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, argv: list[str]) -> None:
    """Replace this process by `argv`; exits with 1 if `parent` died in the meantime."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(argv[0], argv)  # noqa: S606 - the program and its arguments come from lab.testbed.processes.process


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
