"""`python -m lab.papers [ROWS…]`: the papers' figures by processes that train, as one table (Linux, root).

Exit codes: 0 done; 1 a row failed, and the others are printed; 3 this machine lacks what is named.
"""

import argparse
import asyncio
import os
import shutil
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from lab.bench.testbed.commands import BedUnavailable
from lab.bench.testbed.nodes import NODES, bed
from lab.papers.bed import SYSTEM, examine_machine, training_site
from lab.papers.figures import Figure, table
from lab.papers.n4 import case_one
from lab.testbed.errors import ControlPlaneError

_ROWS: Final = {
    **{"N4": "n4", "N5": "sweeps", "G6": "g6", "K8": "k8"},
    **dict.fromkeys(("E1", "E2", "E3", "E4"), "elastic"),
    "KILLS": "kills",
}
"""Row → the module whose `measure` it is"""
_USUAL: Final = ("N", "G", "K8", "E")
_ALONE: Final = ("n4", "elastic", "kills")  # They begin an installation: of other links nothing may be measured
_UNAVAILABLE: Final = 3
_BEGAN_S: Final = monotonic()


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.papers", description="The papers' figures, measured")
    parser.add_argument(
        "rows", nargs="*", help=f"of {', '.join(_ROWS)}, how their names begin, or a module (default: all but KILLS)"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each figure (default: 3)")
    parser.add_argument("--json", type=Path, help="where the figures go, each run's value apart")
    options = parser.parse_args(arguments)
    rows = list[str]()
    for word in options.rows or _USUAL:
        if not (meant := [row for row, module in _ROWS.items() if row.startswith(word) or module == word]):
            parser.error(f"there is no row {word}: {', '.join(_ROWS)}")
        rows += [row for row in meant if row != "KILLS" or len(word) > 1]
    chosen = list(dict.fromkeys(_ROWS[row] for row in rows))
    try:
        examine_machine()
        if "n4" in chosen and not all(map(shutil.which, ("iperf3", "ping"))):
            raise BedUnavailable("row N4 needs iperf3 and ping")
    except (BedUnavailable, ControlPlaneError) as error:
        _tell(f"this machine cannot run it: {error}")
        return _UNAVAILABLE
    figures, failed = list[Figure](), list[str]()
    while wanted := list(chosen):
        try:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(_measure(chosen, options.runs, figures))
        except Exception:  # noqa: BLE001 - said, and the other rows run, on another installation
            traceback.print_exc()
            failed.append(wanted[len(wanted) - len(chosen) - 1])
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")
    print(table(figures))
    _tell(f"done, runs: {options.runs}; without what failed: {', '.join(failed) or 'nothing'}")
    return int(bool(failed))


async def _measure(left: list[str], runs: int, figures: list[Figure]) -> None:
    """The rows that are left, on one installation, up to one that begins another; each is taken from the list."""
    row: str | None = left.pop(0)
    with bed(nodes=(*SYSTEM, *NODES)) as made, ExitStack() as impaired:
        if row == "n4":  # its network is there before agents measure
            impaired.enter_context(case_one(made))
        _tell("netgang is being installed")
        async with training_site(made) as site:
            while row:
                _tell(f"{row}: begins; load of the machine {os.getloadavg()[0]:.1f}")
                figures += await import_module(f"lab.papers.{row}").measure(made, site, runs, _tell)
                _tell(f"{row}: over; load of the machine {os.getloadavg()[0]:.1f}")
                impaired.close()
                row = left.pop(0) if left and left[0] not in _ALONE else None


def _tell(line: str) -> None:
    print(f"{(monotonic() - _BEGAN_S) / 60.0:5.1f} min  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
