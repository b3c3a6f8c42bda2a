"""Whatever stands in a manifest: a change, or a sentence that names what cannot be read; never another error."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from cli.job_manifests.add_job import add_job
from extender.errors import ConfigError
from tests.cli.job_manifests.manifests import GANG, job_set, mpi_pi, pytorch, runtime, template, train_job

POD = template(labels=GANG, priorityClassName="c", schedulerName="netgang", initContainers=[{"name": "i"}])
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": POD}}
PATCH = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {}}}}}}]}
GIVEN: dict[str, list[Any]] = {
    "Job": [JOB],
    "PyTorchJob": [pytorch(minAvailable=1)],
    "MPIJob": [mpi_pi(runPolicy={"schedulingPolicy": {"minAvailable": 2}})],
    "JobSet": [job_set(("a", 1, 2), ("b", 1, 1), depends="Ready", startupPolicy={})],
    "TrainJob": [runtime(), train_job(patches=[PATCH], numNodes=2, resourcesPerNode={"limits": {"cpu": 1}})],
    "class": [{"kind": "PriorityClass", "metadata": {"name": "c"}, "value": 1}, JOB],
}
JUNK: tuple[Any, ...] = (None, 5, -1, "x", [], {}, [5], [None], {"name": 5}, float("nan"))


def places(whole: Any, *at: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each value, from the outermost; `kind` decides which reader is asked, and stays."""
    items = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ()
    for key, value in items:
        if key != "kind":
            yield (*at, key)
            yield from places(value, *at, key)


def replaced(objects: list[Any], at: tuple[Any, ...], junk: Any) -> list[Any]:
    found = deepcopy(objects)
    inside = found
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = junk
    return found


@pytest.mark.parametrize("objects", GIVEN.values(), ids=GIVEN)
def test_any_value_may_be_wrong(objects: list[Any]) -> None:
    tried = 0
    for at in places(objects):
        if len(at) > 1:  # objects themselves have a kind, as the reader of manifests checks
            for junk in JUNK:
                with suppress(ConfigError):
                    add_job(replaced(objects, at, junk), namespace="team")
                tried += 1
    assert tried > 50
