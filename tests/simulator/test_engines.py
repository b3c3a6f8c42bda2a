"""`--engine pods`: what a scenario assumes reaches the service, what it cannot do is refused, progress is told."""

import json
from pathlib import Path

import pytest

from lab.simulator.compare import Report, compare
from lab.simulator.engines import for_pods, pods_engine, settings_of
from lab.simulator.scenarios import Assume, ScenarioError, ScenarioFile, load
from scoring.model.policy import Surplus
from scoring.scaling.options import Condition
from tests.simulator.simulated import KOD2, small

FEW = """\
name: few
nodes: [{count: 2, cpu: 4, memory: 8Gi}]
policies: [coscheduling, kod2-literal, netgang]
workload:
  kind: periodic
  count: 4
  every_s: 5
  models: [vgg16]
  batches: [32]
  samples: 2000
  worker_cpu: [1]
  worker_memory: [1Gi]
  min_workers: [2]
  further_workers: [1]
  ps: {cpu: 1, memory: 1Gi}
"""


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.yaml"
    path.write_text(FEW)
    return path


def by_pods(file: ScenarioFile, told: list[tuple[int, int, str]]) -> Report:
    """The comparison on this engine; `told` gets what the progress bar would."""
    return compare(for_pods(file), engine=pods_engine(), told=lambda *said: told.append(said))


def test_assumptions_become_settings_of_the_service() -> None:
    """STARVELIMIT, the scaling limits and condition, the rule for further members and the queue's order."""
    assume = Assume(starve_limit_s=77.0, most_at_once=1, cool_down_s=5.0, surplus=Surplus.IN_TURN)
    found = settings_of(assume, "netgang-elastic")
    assert found is not None
    queue, elastic = found.queue.policy(), found.elastic.options()
    assert (queue.starve_limit_s, queue.surplus, queue.extended) == (77.0, Surplus.IN_TURN, ())
    assert (elastic.enabled, elastic.decrement, elastic.increment, elastic.cool_down_s) == (True, 1, 1, 5.0)
    assert elastic.condition is Condition.LIGHTER
    either = (
        settings_of(assume, "netgang-elastic-any"),
        settings_of(Assume(condition=Condition.ANY), "netgang-elastic"),
    )
    assert [one.elastic.condition for one in either if one is not None] == [Condition.ANY] * 2
    fifo, gpus = (settings_of(assume, policy) for policy in ("netgang-elastic-fifo", "netgang-elastic-gpus"))
    assert fifo is not None
    assert fifo.queue.order == "fifo"
    assert gpus is not None
    assert gpus.queue.extended == ("nvidia.com/gpu",)
    assert settings_of(assume, "default") is None


SHRINKS = """\
name: shrinks
nodes: [{count: 1, cpu: 8, memory: 64Gi}]
policies: [netgang-elastic]
workload:
  kind: list
  jobs:
    - {name: a, work: {model: vgg16, batch: 32, samples: 20000}, worker: {cpu: 1, memory: 1Gi}, workers: 7,
       min_workers: 1, ps_count: 1}
    - {name: b, arrival_s: 60, work: {model: vgg16, batch: 32, samples: 500}, worker: {cpu: 1, memory: 1Gi}, workers: 2}
"""


def test_settings_change_the_run(tmp_path: Path) -> None:
    path = tmp_path / "shrinks.yaml"
    path.write_text(SHRINKS)
    file = load(str(path))
    two, one = (
        by_pods(file.model_copy(update={"assume": Assume(most_at_once=most)}), []).rows[0]["resizes"] for most in (2, 1)
    )
    assert two
    assert not one


def test_the_same_seed_prints_the_same_bytes_and_all_progress_is_told(few: Path) -> None:
    """Twice the same file; each job that ends is told, of both policies that this engine knows."""
    told: list[tuple[int, int, str]] = []
    first, second = (json.dumps(by_pods(load(str(few)), told).document()) for _ in range(2))
    assert first == second
    assert [row["policy"] for row in json.loads(first)["rows"]] == ["coscheduling", "netgang"]
    steps = [done for done, _, _ in told]
    assert steps[: len(steps) // 2] == steps[len(steps) // 2 :]
    assert set(steps) == set(range(1, 9))
    assert {total for _, total, _ in told} == {8}


REFUSED: dict[str, tuple[str, dict[str, object], tuple[str, ...]]] = {
    # case: (words of the refusal, fields of the file, policies asked for)
    "a policy asked for": ("not kod2-literal", {}, ("kod2-literal",)),
    "none that it knows": ("not paper-n", {"policies": ("paper-n",)}, ()),
    "another stall": ("assume.stall_factor", {"assume": Assume(stall_factor=0.0)}, ()),
    "fewer looks": ("assume.decide_every_s", {"assume": Assume(decide_every_s=60.0)}, ()),
}


@pytest.mark.parametrize(("words", "fields", "asked"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_do_is_refused(words: str, fields: dict[str, object], asked: tuple[str, ...]) -> None:
    file = small(("default", "kod2-literal", "netgang-elastic")).model_copy(update=fields)
    with pytest.raises(ScenarioError, match=words):
        for_pods(file, asked=asked)
    assert "kod2-literal" in for_pods(KOD2).about.rpartition("Left out")[2], "what is left out is named"
