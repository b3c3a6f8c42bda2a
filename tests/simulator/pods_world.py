"""One line for a scenario, a job, a run of the pod engine, a pod."""

from collections.abc import Mapping
from typing import Any

from extender.settings.settings import Settings
from lab.simulator.model import Scenario, SimJob, Work
from lab.simulator.pods import SECOND, Options, PodRun, SchedulerProfile, record
from scoring.model import Node
from scoring.model.resources import NO_RESOURCES, Resources
from scoring.network.matrix import NetworkMatrix
from tests.builders import node


def job(
    name: str,
    workers: int = 2,
    *,
    at_s: float = 0.0,
    least: int | None = None,
    cpu: str = "1",
    ps: int = 0,
    samples: float = 100.0,
    **more: Any,
) -> SimJob:
    """A job whose workers see one sample a second each, unless the engine is told otherwise."""
    return SimJob(
        name,
        at_s,
        Work("any", 8, samples),
        worker=Resources.parse({"cpu": cpu}),
        workers=workers,
        min_workers=workers if least is None else least,
        ps=Resources.parse({"cpu": "1"}) if ps else NO_RESOURCES,
        ps_count=ps,
        **more,
    )


def nodes(count: int, *, cpu: str = "1500m", zones: str = "a") -> tuple[Node, ...]:
    return tuple(node(f"n{i + 1}", cpu=cpu, zone=zones[i % len(zones)]) for i in range(count))


def scenario(jobs: list[SimJob], on: tuple[Node, ...], **more: Any) -> Scenario:
    return Scenario("test", on, NetworkMatrix(), tuple(jobs), **more)


def played(
    jobs: list[SimJob],
    on: tuple[Node, ...],
    *,
    profile: SchedulerProfile = SECOND,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    until_s: float | None = None,
    **options: Any,
) -> PodRun:
    chosen = Settings.model_validate(dict(settings)) if settings is not None else None
    cut = scenario(jobs, on, until_s=until_s)
    return record(cut, settings=chosen, seed=seed, scheduler=profile, options=Options(**options))


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {}},
        "spec": {"schedulerName": "netgang", "containers": containers, **spec},
        "status": {"phase": "Pending"},
    }
