"""What a scenario file may say of jobs: written out, at equal intervals, or as they were recorded.

Why apart from the rest of the file: each way of saying it is a model of its own, distinguished by `kind`. Rule: as for
the whole file (`lab.simulator.scenarios.document`).
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from lab.simulator.model import Sync
from lab.simulator.speed.table import profile_of
from scoring.model.pod import Resources, parse_quantity

GPU = "nvidia.com/gpu"
Positive: TypeAlias = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]


def _quantity(text: str | int) -> str | int:
    if parse_quantity(str(text)) < 0:
        raise ValueError("a quantity must not be negative")
    return text


Quantity: TypeAlias = Annotated[str | int, AfterValidator(_quantity)]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class Part(BaseModel):
    """A part of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Trained(Part):
    """What a job trains."""

    model: str
    batch: Count
    samples: Positive
    sync: Sync = Sync.ASYNCHRONOUS

    @field_validator("model")
    @classmethod
    def _known(cls, model: str) -> str:
        return profile_of(model).name


class Pods(Part):
    """Requests of one pod."""

    cpu: Quantity = 1
    memory: Quantity = "1Gi"
    gpu: Annotated[int, Field(ge=0)] = 0

    def requests(self) -> Resources:
        """As the scheduler sees them."""
        return Resources.parse({"cpu": self.cpu, "memory": self.memory, GPU: self.gpu})


class Job(Part):
    """One job, written out."""

    name: Name
    arrival_s: NotNegative = 0.0
    work: Trained
    worker: Pods = Pods()
    workers: Count
    min_workers: Count | None = None
    """Default: all of them: the job is not elastic."""
    max_workers: Count | None = None
    """Default: as many as `workers`."""
    ps: Pods = Pods()
    ps_count: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _in_order(self) -> "Job":
        most = self.workers if self.max_workers is None else self.max_workers
        if not (self.workers if self.min_workers is None else self.min_workers) <= self.workers <= most:
            raise ValueError("min_workers <= workers <= max_workers must hold")
        return self


class Written(Part):
    """Jobs one by one."""

    kind: Literal["list"] = "list"
    jobs: Annotated[tuple[Job, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _different(self) -> "Written":
        names = [job.name for job in self.jobs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two jobs are named {', '.join(twice)}")
        return self


class Periodic(Part):
    """TFJobs at equal intervals; each draws its requests and worker counts from the given choices (PAPERS K8)."""

    kind: Literal["periodic"]
    count: Count
    every_s: NotNegative
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    batches: Annotated[tuple[Count, ...], Field(min_length=1)]
    samples: Positive
    cells: bool = False
    """One run for each model and batch, in which all jobs train it; else each job draws its own."""
    worker_cpu: Annotated[tuple[Quantity, ...], Field(min_length=1)] = (1,)
    worker_memory: Annotated[tuple[Quantity, ...], Field(min_length=1)] = ("1Gi",)
    min_workers: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    further_workers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    """Workers above the minimum that the owner asks for; also the maximum."""
    ps: Pods = Pods()
    ps_count: Annotated[int, Field(ge=0)] = 1
    sync: Sync = Sync.ASYNCHRONOUS

    @field_validator("models")
    @classmethod
    def _known(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(profile_of(model).name for model in models)


class RecordedJobs(Part):
    """Jobs that were recorded on real clusters, one run for each file (`lab.simulator.scenarios.recorded`)."""

    kind: Literal["recorded"]
    files: Annotated[tuple[str, ...], Field(min_length=1)]
    """CSV files with the columns `job, submit_s, gpus, run_s`; names without a folder may be those that are shipped."""
    scaling: str | None = None
    """CSV file with the columns `application, batch_size, gpus, step_s`; without it jobs keep their size."""
    min_ratio: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Least workers of a job, as a share of those asked for."""
    max_ratio: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 1.0
    """Most workers."""
    declaring: Share = 0.0
    """Share of the jobs, drawn from the seed, that declare so and may be suspended; others keep their size."""
    worker: Pods = Pods(cpu=8, memory="32Gi", gpu=1)
    loads: tuple[Positive, ...] = ()
    """One run for each: as many nodes as make the files' GPU hours this share of a week's. Empty: nodes as given."""


Workload: TypeAlias = Annotated[Written | Periodic | RecordedJobs, Field(discriminator="kind")]
