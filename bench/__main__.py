"""`make bench`: every benchmark in one run, as JSON lines.

Each runs in a process of its own and says by its exit status whether its goals hold; this one fails if one of them did.
"""

import subprocess
import sys

BENCHES = (
    ["bench.http", "--factory", "bench.service:create_app"],
    ["bench.http_cpu"],
    ["bench.planner"],
    ["bench.sync"],
    ["bench.scale"],
    ["bench.soak", "--gangs", "300", "--minutes", "1"],
    ["bench.maddash"],
    ["bench.kube_client", "--uvloop"],
    ["bench.drain"],
)


def main() -> None:
    """Run them one after the other."""
    missed = [bench[0] for bench in BENCHES if subprocess.run([sys.executable, "-m", *bench]).returncode]
    if missed:
        sys.exit(f"goals missed, or failed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
