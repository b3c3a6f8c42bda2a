"""The benchmarks there are: what each measures, how it is run, how long it takes.

Rule: what is not in this table has no place on the page of results; `make bench` runs all of it but what is long and
measures something else (`on_request`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bench:
    """One benchmark; `minutes` are on two cores, with everything built."""

    name: str
    words: str
    arguments: str
    minutes: float
    quick_arguments: str = ""
    quick_minutes: float = 0.2
    writes_record: bool = False
    """Whether it writes its lines with `--json FILE`, because what it prints is for people."""
    on_request: bool = False
    """Whether it runs only where `--only` names it: `make bench` is to take no longer than about 45 minutes."""

    def command(self, *, quick: bool) -> str:
        """The command line that runs it.

        >>> BENCHES[0].command(quick=False)
        'python -m lab.bench.http --factory bench.service:create_app'
        """
        return f"python -m {self.quick_arguments if quick and self.quick_arguments else self.arguments}"


_HTTP = "lab.bench.http --factory bench.service:create_app"

BENCHES = (
    Bench("http", "one call of a verb, beside a Go echo", _HTTP, 0.7, f"{_HTTP} --names 500 --calls 50"),
    Bench("http_cpu", "CPU of one call between socket and service", "lab.bench.http_cpu", 0.8,
          "lab.bench.http_cpu --rounds 1 --calls 200"),
    Bench("planner", "plans of long queues and large gangs", "lab.bench.planner", 0.7, "lab.bench.planner --rounds 1"),
    Bench("sync", "the first sync of 50,000 pods", "lab.bench.sync", 0.3, "lab.bench.sync --pods 5000 --nodes 500"),
    Bench("scale", "the service beside 5,000 and 15,000 nodes", "lab.bench.scale", 2.2,
          "lab.bench.scale --nodes 1000 --pods 5000 --seconds 5", 0.6),
    Bench("soak", "a busy cluster for a minute", "lab.bench.soak --gangs 300 --minutes 1", 1.5, quick_minutes=1.5),
    Bench("maddash", "a mesh of 100 ends, and a site of 5,000 nodes", "lab.bench.maddash", 0.7,
          "lab.bench.maddash --ends 20 --nodes 500 --zones 4"),
    Bench("page", "twenty viewers of the page, and a browser", "lab.bench.page --strict --seconds 10", 2,
          "lab.bench.page --nodes 500 --pairs 1 --seconds 3", 0.5),
    Bench("kube_client", "API calls of the service", "lab.bench.kube_client --uvloop", 0.4, quick_minutes=0.4),
    Bench("simulated", "simulating 100,000 jobs on 5,000 nodes", "lab.bench.simulated", 9,
          "lab.bench.simulated --scenario examples/simulate.yaml", on_request=True),
    Bench("peers", "gangs on a real control plane, beside peers", "bench peers", 35, "bench peers --quick", 5,
          writes_record=True),
    Bench("exam", "knavigator's scheduling scenarios, beside peers", "bench exam", 75, "bench exam --runs 1", 25,
          writes_record=True, on_request=True),
)  # fmt: skip


def lines_of(output: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    """The JSON objects among the lines of an output.

    >>> lines_of(["table", '{"a": 1}'])
    ({'a': 1},)
    """
    return tuple(json.loads(line) for line in output if line.startswith("{"))
