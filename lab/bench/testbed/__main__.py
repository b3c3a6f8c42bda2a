"""`python -m lab.bench.testbed`: `check` whether this machine can have such nodes, or `clean` up after a killed run."""

import argparse
import sys
from collections.abc import Sequence

from lab.bench.testbed.commands import BedError, BedUnavailable, clean
from lab.bench.testbed.nodes import examine

_UNAVAILABLE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked. Exit codes: 0 done; 1 a namespace cannot be removed; 3 this machine lacks what is named."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.testbed", description="Nodes that are network namespaces (Linux, root)."
    )
    parser.add_argument("action", choices=("check", "clean"))
    try:
        if parser.parse_args(arguments).action == "check":
            examine()
            print("network namespaces: yes")
        else:
            print("\n".join(clean()) or "nothing to clean")
    except BedError as error:
        print(error, file=sys.stderr)
        return _UNAVAILABLE if isinstance(error, BedUnavailable) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
