"""CPU and memory of one agent with twenty peers and five packets a second to each, which send it as many.

    python -m lab.bench.probe.load [--peers 20] [--seconds 30] [--packet-interval 0.2]

A hundred packets a second are the most that netgang assigns without `probe.packets_per_s`.

All agents are processes of this machine, on loopback addresses; netgang's side is a stand-in. One is looked at, after
its first reports: its CPU time is the scheduler's (/proc/PID/schedstat), user and kernel together. Sending over the
loopback also pays for receiving, so a node's figure is rather lower. Ends with status 1 if a goal is missed.
"""

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from time import monotonic

from lab.bench.probe.agents import agents
from lab.bench.probe.assigner import Assigner, serving

MOST_MILLICORES = 5.0
MOST_RSS_MIB = 40.0
_LOOKED_AT = "n0"


def main() -> int:
    """Print a line, and say whether the goals hold."""
    parser = argparse.ArgumentParser(description="CPU and memory of one agent.")
    parser.add_argument("--peers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--interval", type=float, default=10.0)
    parser.add_argument("--packet-interval", type=float, default=0.2)
    given = parser.parse_args()
    addresses = {f"n{number}": f"127.0.1.{number + 1}" for number in range(given.peers + 1)}
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder, "token")
        token.write_text("token")
        made = Assigner(addresses, interval_s=given.interval, packet_interval_s=given.packet_interval)
        with serving(made) as assigner, agents(assigner, token) as running:
            assigner.wait(_LOOKED_AT, 3, timeout_s=60.0 + 3 * given.interval)
            process = running[_LOOKED_AT].pid
            ticks_before = ticks(process)
            reports_before, cpu_before_ns, from_s = len(assigner.reports(_LOOKED_AT)), cpu_ns(process), monotonic()
            threading.Event().wait(given.seconds)
            cpu_s, wall_s = (cpu_ns(process) - cpu_before_ns) / 1e9, monotonic() - from_s
            found = {
                "bench": "probe",
                "peers": given.peers,
                "packets_per_s": given.peers / given.packet_interval,
                "millicores": round(cpu_s / wall_s * 1e3, 2),
                "system_share": round(shares(ticks_before, ticks(process)), 2),
                "rss_mib": round(rss_mib(process), 1),
                "reports": len(assigner.reports(_LOOKED_AT)) - reports_before,
                **totals(assigner.reports(_LOOKED_AT)[reports_before:]),
            }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if found["millicores"] <= MOST_MILLICORES and found["rss_mib"] <= MOST_RSS_MIB else 1


def totals(reports: list[dict[str, list[dict[str, int]]]]) -> dict[str, int]:
    """Packets by their fate, of all links."""
    links = [link for report in reports for link in report["links"]]
    return {name: sum(link[name] for link in links) for name in ("sent", "lost", "suspect")}


def cpu_ns(process: int) -> int:
    """CPU time of all threads of a process."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int(Path(task, "schedstat").read_text().split()[0]) for task in tasks)


def ticks(process: int) -> tuple[int, int]:
    """(user, system) CPU time, in the kernel's coarse ticks."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def shares(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Part of the time that was the kernel's: sending and receiving."""
    user, system = after[0] - before[0], after[1] - before[1]
    return system / max(user + system, 1)


def rss_mib(process: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024.0


if __name__ == "__main__":
    sys.exit(main())
