"""`python -m lab.papers [ROWS…]`: the papers' figures by processes that train, as one table (Linux, root).

Exit codes: 0 done; 1 a row failed, and the others are printed; 3 this machine lacks what is named.
"""

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from lab.bench.testbed.commands import BedUnavailable
from lab.papers.bed import examine_machine
from lab.papers.figures import Figure, table
from lab.testbed.errors import ControlPlaneError

_ROWS: Final = {
    **{"N4": "n4", "N5": "n4", "G6": "g6", "K8": "k8"},
    **dict.fromkeys(("E1", "E2", "E3", "E4"), "elastic"),
}
"""Row → the module whose `measure` it is"""
_LONG: Final = {"KILLS": "kills"}
"""The same, only if it is asked for"""
_UNAVAILABLE: Final = 3
_BEGAN_S: Final = monotonic()


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.papers", description="The papers' figures, measured")
    parser.add_argument(
        "rows", nargs="*", help=f"of {', '.join(_ROWS)}, how their names begin, or a module (default: all); KILLS"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each figure (default: 3)")
    parser.add_argument("--json", type=Path, help="where the figures go, each run's value apart")
    options = parser.parse_args(arguments)
    begins = tuple(options.rows) or ("",)
    asked = _ROWS | _LONG if options.rows else _ROWS
    chosen = [*dict.fromkeys(module for row, module in asked.items() if row.startswith(begins) or module in begins)]
    if not chosen:
        parser.error(f"there is no row {' '.join(options.rows)}: {', '.join(_ROWS)}")
    try:
        examine_machine()
    except (BedUnavailable, ControlPlaneError) as error:
        _tell(f"this machine cannot run it: {error}")
        return _UNAVAILABLE
    figures, failed = list[Figure](), False
    for module in chosen:
        _tell(f"{module}: begins; load of the machine {os.getloadavg()[0]:.1f}")
        try:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                figures += runner.run(import_module(f"lab.papers.{module}").measure(options.runs, _tell))
        except Exception:  # noqa: BLE001 - said, and the other rows run
            traceback.print_exc()
            failed = True
        _tell(f"{module}: over; load of the machine {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")
    print(table(figures))
    return int(failed)


def _tell(line: str) -> None:
    print(f"{(monotonic() - _BEGAN_S) / 60.0:5.1f} min  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
