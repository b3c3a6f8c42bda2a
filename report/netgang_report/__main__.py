"""`python -m netgang_report --step 10 --loss 0.5`: one report, from a shell."""

import argparse
import logging
import os
import sys
from typing import Optional, Sequence

from netgang_report import Reporter


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Exit code 0: netgang has the report; 1: it has not, and why is on standard error."""
    parser = argparse.ArgumentParser(prog="python -m netgang_report", description="Report one step to netgang.")
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--loss", type=float, required=True)
    for name in ("samples-per-second", "accuracy", "workers"):
        parser.add_argument(f"--{name}", type=float)
    parser.add_argument("--url", default=os.environ.get("NETGANG_REPORT_URL"), help="default: NETGANG_REPORT_URL")
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS", help="default: 5")
    given = vars(parser.parse_args(argv))
    logging.basicConfig(format="%(message)s")
    url, timeout_s = given.pop("url"), given.pop("timeout")
    if not url:
        parser.error("no address: set NETGANG_REPORT_URL or --url")
    reporter = Reporter(url, timeout_s=timeout_s)
    taken = reporter.report(**given)
    return 0 if reporter.flush(timeout_s) and taken else 1


if __name__ == "__main__":
    sys.exit(main())
