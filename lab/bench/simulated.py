"""How long the simulator takes for a large cluster: `netgang simulate SCENARIO`, policy by policy.

Why: "100,000 jobs on 5,000 nodes in minutes" is a promise to users that want to try a policy on a laptop. Rule: the
command that people run, in a process of its own for each policy; wall time, CPU and peak memory are that process's.
Run `python -m bench.simulated`; it prints one JSON line per policy, and ends with 1 if one takes longer than its goal.
"""

import argparse
import json
import os
import subprocess
import sys
from time import perf_counter
from typing import Any

GOAL_S = 600.0
"""Wall time of one policy: some minutes, on a machine that does something else beside."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="large")
    parser.add_argument("--policy", action="append", help="may be repeated; default: coscheduling and netgang-elastic")
    options = parser.parse_args()
    lines = [measure(options.scenario, policy) for policy in options.policy or ("coscheduling", "netgang-elastic")]
    for line in lines:
        print(json.dumps(line))
    return int(any(line["wall_s"] > GOAL_S for line in lines))


def measure(scenario: str, policy: str) -> dict[str, Any]:
    """One run of the command under one policy. RuntimeError if it fails."""
    command = [sys.executable, "-m", "cli.main", "simulate", scenario, "--policy", policy, "--json"]
    begin_s = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        printed = running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {running.returncode}")
    [row] = json.loads(printed)["rows"]
    kept = (
        "jobs",
        "completed",
        "jct_mean_s",
        "jct_p50_s",
        "jct_p99_s",
        "makespan_s",
        "gpu_requested_ratio",
        "decisions",
    )
    return {
        "scenario": scenario,
        "policy": policy,
        "wall_s": round(perf_counter() - begin_s, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        **{name: row.get(name) for name in kept},
    }


if __name__ == "__main__":
    sys.exit(main())
