"""What came of an experiment: a row for each run, and what was measured and left out."""

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from lab.bench.testbed.running_job import Run


class Row(msgspec.Struct, frozen=True):
    """One run of one job."""

    dataset: str
    topology: str
    impairment: str
    value: float
    choice: str
    nodes: tuple[str, ...]
    impaired: int
    """How many of the three impaired nodes are among them."""
    run: Run
    round: int = 0
    draw: int = 0
    """Of the random choices of one setting and round: which one."""

    def as_json(self) -> dict[str, Any]:
        """One flat object."""
        whole: dict[str, Any] = msgspec.to_builtins(self)
        return {**whole, **whole.pop("run")}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """As `as_json` wrote it."""
        told = {name: given[name] for name in Run.__struct_fields__}
        run = Run(**{**told, "worker_steps": tuple(given.get("worker_steps", ()))})
        own = {name: given[name] for name in cls.__struct_fields__ if name in given}
        return cls(**{**own, "nodes": tuple(given["nodes"]), "run": run})


class Result(msgspec.Struct):
    """What came of it."""

    seed: int
    delay_by: str
    congestion: str = ""
    rows: list[Row] = []
    probes: list[dict[str, Any]] = []
    """Per setting: medians of what was measured between clean nodes and from impaired ones."""
    left_out: list[str] = []
    load: list[float] = []
    """Runnable processes of the whole machine at each setting (mean of a minute): what else there was to wait for."""
    seconds: float = 0.0
