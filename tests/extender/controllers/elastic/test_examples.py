"""Reports from a training loop, and examples/reporting-job.yaml: what reaches netgang."""

from pathlib import Path

import yaml

from netgang_report import StepReporter
from scoring.model.policy import KNOWN_OPTIONS
from tests.extender.controllers.elastic.reporting import Sink

EXAMPLES = Path(__file__).parents[4] / "examples"


class Tensor:
    """A number that waits for a GPU: it counts how often it was asked for."""

    asked = 0

    def __init__(self, value: float) -> None:
        self._value = value

    def __float__(self) -> float:
        Tensor.asked += 1
        return self._value


def test_a_loop(sink: Sink) -> None:
    """Rank 0 reports every tenth step, and asks the GPU for no other loss; other ranks report nothing."""
    Tensor.asked = 0
    for rank in (0, 1):
        one = StepReporter(batch_size=64, world_size=4, rank=rank, first_step=5)
        for step in range(30):
            one.step(Tensor(2.0 - step / 100))
        one.close()
    points = sink.points()
    assert [point["step"] for point in points] == [10, 20, 30]
    assert (Tensor.asked, points[0]["loss"]) == (3, 1.96)
    assert all("workers" not in point for point in points), "ranks are no pods: netgang counts them itself"
    assert all(point["samples_per_second"] > 0.0 for point in points)


def test_the_job_says_where_it_reports() -> None:
    job = yaml.safe_load((EXAMPLES / "reporting-job.yaml").read_text())
    meta, spec = job["metadata"], job["spec"]
    env = {one["name"]: one["value"] for one in spec["template"]["spec"]["containers"][0]["env"]}
    assert env["NETGANG_REPORT_URL"].endswith(f":8891/v1/jobs/{meta['namespace']}/{meta['name']}/metrics")
    options = {name.removeprefix("netgang.io/"): value for name, value in meta["annotations"].items()}
    assert options.keys() <= KNOWN_OPTIONS
    least, most = int(options["min-workers"]), int(options["max-workers"])
    assert least <= spec["parallelism"] == spec["completions"] <= most
    assert spec["template"]["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"] == str(least)
    [mount] = spec["template"]["spec"]["containers"][0]["volumeMounts"]
    assert env["NETGANG_CA_FILE"] == f"{mount['mountPath']}/ca.crt"
