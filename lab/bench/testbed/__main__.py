"""`python -m lab.bench.testbed`: run the experiment, `check` the machine, `clean` up, or print a result's `table`."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lab.bench.child import ChildFailed
from lab.bench.testbed.cases import SWEEP, Impairment
from lab.bench.testbed.commands import BedError, BedUnavailable, clean
from lab.bench.testbed.experiment import Wanted, experiment
from lab.bench.testbed.nodes import examine
from lab.bench.testbed.report import table
from lab.bench.testbed.result import Result
from lab.bench.testbed.running_job import DATASETS

_UNAVAILABLE = 3
"""Exit code: this machine cannot have a bed."""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.testbed",
        description="Train on six of nine network namespaces, three of which have a bad network (Linux, root).",
    )
    parser.add_argument("action", nargs="?", choices=("run", "check", "clean", "table"), default="run")
    parser.add_argument("--minutes", type=float, default=14.0, help="longest time of the whole (default: 14)")
    parser.add_argument("--run-seconds", type=float, default=8.0, help="longest time of one run (default: 8)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each choice, with seeds of their own (default: 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", action="append", choices=tuple(DATASETS), help="only this one; may be repeated")
    for impairment, values in SWEEP.items():
        shown = ",".join(f"{one:g}" for one in values)
        parser.add_argument(
            f"--{impairment.value}",
            type=_values,
            metavar="A,B,…",
            help=f"values in {impairment.unit}".replace("%", "%%") + f" (default: {shown}; '' for none)",
        )
    parser.add_argument(
        "--json", type=Path, default=Path("lab/bench/out/testbed.json"), help="where the result goes; `table` reads it"
    )
    return parser


def _values(text: str) -> tuple[float, ...]:
    return tuple(float(one) for one in text.split(",") if one)


def wanted_of(options: argparse.Namespace) -> Wanted:
    """What the options ask for."""
    given: dict[Impairment, tuple[float, ...] | None] = {one: getattr(options, one.value) for one in SWEEP}
    return Wanted(
        sweep={one: SWEEP[one] if values is None else values for one, values in given.items()},
        datasets=tuple(options.dataset or DATASETS),
        rounds=options.runs,
        seed=options.seed,
        run_s=options.run_seconds,
        whole_s=60.0 * options.minutes,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what was asked. Exit codes: 0 done; 1 the bed failed; 3 this machine cannot have one."""
    options = parser().parse_args(arguments)
    result: Result | None = None
    try:
        if options.action == "clean":
            print("\n".join(clean()) or "nothing to clean")
            return
        if options.action == "table":
            print(table(msgspec.json.decode(options.json.read_bytes(), type=Result)))
            return
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
        examine()
        print("network namespaces: yes", file=sys.stderr, flush=True)
        if options.action == "check":
            return
        result = Result(options.seed)
        experiment(wanted_of(options), result, lambda line: print(line, file=sys.stderr, flush=True))
    except BedUnavailable as error:
        print(f"no test bed here: {error}", file=sys.stderr)
        sys.exit(_UNAVAILABLE)
    except (BedError, ChildFailed) as error:
        print(f"the test bed failed: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("stopped; all namespaces are removed", file=sys.stderr)
        if result is not None and result.rows:
            _write(result, options.json)
            print(f"{len(result.rows)} runs are in {options.json}", file=sys.stderr)
        sys.exit(130)
    _write(result, options.json)
    print(table(result))
    print(f"\n{options.json}")


def _write(result: Result, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
