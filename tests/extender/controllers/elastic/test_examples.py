"""The callbacks of netgang_report, and examples/reporting-job.yaml: what reaches netgang when a framework calls them.

No framework is installed here: stand-ins make the calls of Keras' and Hugging Face's documented callback protocols in
the documented order. Not tested: that a certain version of a framework makes these calls.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from netgang_report.callbacks import HuggingFaceCallback, KerasCallback, StepReporter
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


class Model:
    """Stand-in for keras.Model: its `fit` calls callbacks in the order of Keras' documentation, with logs as it has."""

    def fit(self, one: Any, *, epochs: int, batches: int) -> None:
        one.set_params({"epochs": epochs, "steps": batches, "verbose": 0})
        one.set_model(self)
        one.on_train_begin(None)
        for epoch in range(epochs):
            one.on_epoch_begin(epoch, {})
            for batch in range(batches):
                one.on_train_batch_begin(batch, {})
                one.on_train_batch_end(batch, {"loss": 2.0 - 0.01 * (epoch * batches + batch), "accuracy": 0.5})
            one.on_epoch_end(epoch, {"loss": 1.0, "val_loss": 1.5})
        one.on_train_end({"loss": 1.0})


def test_keras(sink: Sink) -> None:
    """Steps go on over epochs; every tenth batch is reported, and at the end everything is sent."""
    Model().fit(KerasCallback(batch_size=32, workers=2), epochs=3, batches=15)
    points = sink.points()  # on_train_end has waited for them
    assert [point["step"] for point in points] == [10, 20, 30, 40]
    assert [point["loss"] for point in points] == pytest.approx([1.91, 1.81, 1.71, 1.61])
    assert {point["accuracy"] for point in points} == {0.5}
    assert all(point["samples_per_second"] > 0.0 for point in points)


def test_keras_after_a_restart(sink: Sink) -> None:
    callback = KerasCallback(batch_size=32, first_step=100, every=1)
    callback.on_train_begin()
    for batch, logs in enumerate(({"loss": 1.0}, {}, None, {"loss": 0.5})):
        callback.on_train_batch_end(batch, logs)
    callback.on_train_end({})
    assert [point["step"] for point in sink.points()] == [101, 104]
    with pytest.raises(AttributeError):
        _ = callback.model


def test_pytorch(sink: Sink) -> None:
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


@pytest.mark.parametrize("first", [True, False], ids=["the first process", "another one"])
def test_hugging_face(sink: Sink, first: bool) -> None:
    """Every line of the Trainer's log that has a loss, from the checkpoint's step on; evaluations have none."""
    args = SimpleNamespace(train_batch_size=8, world_size=4, gradient_accumulation_steps=2)
    state, control = SimpleNamespace(global_step=500, is_world_process_zero=first), SimpleNamespace()
    callback = HuggingFaceCallback()
    assert callback.on_init_end(args, state, control, model=None) is None
    callback.on_train_begin(args, state, control, model=None)
    for step, logs in ((510, {"loss": 1.9, "learning_rate": 0.1}), (510, {"eval_loss": 2.0}), (520, {"loss": 1.8})):
        state.global_step = step
        callback.on_log(args, state, control, logs=logs, model=None)
    callback.on_train_end(args, state, control)
    points = sink.points()
    assert [(point["step"], point["loss"]) for point in points] == ([(510, 1.9), (520, 1.8)] if first else [])
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
