"""What came of an experiment: a row for each run, and what was measured and left out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from lab.bench.testbed.running_job import Run


@dataclass(frozen=True, slots=True)
class Row:
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
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "run"}
        return {**fields, "nodes": list(self.nodes), **asdict(self.run), "worker_steps": list(self.run.worker_steps)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """As `as_json` wrote it."""
        told = {name: given[name] for name in Run.__dataclass_fields__}
        run = Run(**{**told, "worker_steps": tuple(given.get("worker_steps", ()))})
        own = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        return cls(**{**own, "nodes": tuple(given["nodes"]), "run": run})


@dataclass(slots=True)
class Result:
    """What came of it."""

    seed: int
    delay_by: str
    congestion: str = ""
    rows: list[Row] = field(default_factory=list)
    probes: list[dict[str, Any]] = field(default_factory=list)
    """Per setting: medians of what was measured between clean nodes and from impaired ones."""
    left_out: list[str] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    """Runnable processes of the whole machine at each setting (mean of a minute): what else there was to wait for."""
    seconds: float = 0.0
