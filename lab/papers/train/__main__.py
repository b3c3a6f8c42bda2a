"""One rank of a training job: `python -m lab.papers.train --mode ps|async|ring --steps 100 --checkpoint-dir DIR`.

Rank 0 is the chief: it has the parameters and the checkpoint; all others call it, however many they are. `--steps` of
the job (updates of an asynchronous one); `--batch` images of each worker and step; `--hidden` units: how long a step
computes; `--pad-bytes` travel at least; the chief waits `--peers-s` for the ranks of the start, then `--limit-s` for
all steps. A line of JSON a step; the chief reports to netgang, too (NETGANG_REPORT_URL). Exit codes: 0 all steps are
done; 142 out of time; 143 SIGTERM, also of a chief: 0 would say that training is complete; operators retry above 127.
"""

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.papers.train.model import Learner
from lab.papers.train.ranks import Address, Chief, work
from netgang_report import flush, report

_USUAL = {"checkpoint-every": 10, "batch": 32, "hidden": 32, "pad-bytes": 0, "seed": 1, "limit-s": 9e3, "peers-s": 60.0}


def place(env: Mapping[str, str]) -> tuple[int, Address, int]:
    """This rank, the chief's address, and how many ranks are awaited at the start; 1: it begins with whoever comes.

    >>> cluster = {"ps": ["j-ps-0.team.svc:2222"], "worker": ["a:2222", "b:2222"]}
    >>> place({"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})})
    (2, ('j-ps-0.team.svc', 2222), 3)
    >>> cluster = {"ps": {"0": "j-ps-0.team.svc:2222"}, "worker": {"5": "f:2222"}}
    >>> place({"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 5}})})
    (6, ('j-ps-0.team.svc', 2222), 1)
    >>> place({"PET_RDZV_ENDPOINT": "j-0:3", "HOSTNAME": "j-worker-5"})
    (5, ('j-0', 3), 1)
    """
    rank, chief, ranks = 0, "localhost:0", 1
    if text := env.get("TF_CONFIG"):
        cluster, task = json.loads(text)["cluster"], json.loads(text)["task"]
        servers, workers = cluster["ps"], cluster.get("worker", {})  # maps by index with `enableDynamicWorker`
        (chief,) = servers.values() if isinstance(servers, dict) else servers
        rank = {"ps": 0, "worker": 1}[task["type"]] + int(task["index"])
        ranks = 1 if isinstance(workers, dict) else 1 + len(workers)
    elif "PET_RDZV_ENDPOINT" in env:  # an elastic PyTorchJob: which worker this is, its host's name says
        rank, chief = int(env["HOSTNAME"].rpartition("-")[2]), env["PET_RDZV_ENDPOINT"]
    elif index := env.get("RANK", env.get("JOB_COMPLETION_INDEX")):  # an Indexed Job's template has the chief's address
        rank, chief, ranks = int(index), f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}", int(env.get("WORLD_SIZE", 1))
    host, _, port = chief.rpartition(":")
    return rank, (host, int(port)), ranks


def main() -> None:
    """Train. SystemExit: something came before the end."""
    parser = argparse.ArgumentParser(description="One rank of a training job")
    parser.add_argument("--mode", choices=("ps", "async", "ring"), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    for name, default in _USUAL.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    rank, address, ranks = place(os.environ)

    def tell(facts: dict[str, Any]) -> None:
        say(**facts)
        if rank == 0:  # CPU and memory are in the line alone: a report has no such fields
            world, rank_s = facts["world"], facts["rank_s"]
            speed, ratio = options.batch * world / rank_s, min(facts["compute_s"] / rank_s, 1.0)
            report(step=facts["step"], loss=facts["loss"], workers=world, samples_per_second=speed, compute_ratio=ratio)

    options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # of the main thread, which saves
    began_s = time.monotonic()
    learner = Learner(options, tell, keeper=rank == 0)
    say(rank=rank, resumed=learner.resumed, restore_s=learner.since_s - began_s)
    Chief(learner, address[1]).lead(ranks) if rank == 0 else work(learner, rank, address)
    flush()


def say(**facts: Any) -> None:
    """One line of JSON, with the time of day by which the lines of several ranks are put together."""
    print(json.dumps({"at_s": time.time(), **facts}), flush=True)  # noqa: TID251 - the program's clock


if __name__ == "__main__":
    code = 0
    try:
        main()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except Exception:  # noqa: BLE001 - said, and then the end
        code = 1
        traceback.print_exc()
    say(exit=code)
    os._exit(code)  # a thread that waits for a lost peer must not keep the process
