"""Scenario files are validated with the field's name."""

import pytest

from lab.simulator.scenarios import ScenarioError, parse

GOOD = """
name: mine
network: {delay_ms: 1}
nodes: [{count: 4, cpu: 8, memory: 32Gi, zones: 2}]
policies: [coscheduling, netgang]
workload:
  kind: list
  jobs:
    - name: a
      work: {model: vgg16, batch: 32, samples: 1000}
      workers: 4
      min_workers: 2
      ps_count: 1
"""

BAD = {  # case: (what is replaced, by what, what the error names)
    "unknown policy": ("[coscheduling, netgang]", "[best]", "policy 'best' is not one of default, coscheduling"),
    "unknown model": ("vgg16", "alexnet", "workload.list.jobs.0.work.model: Value error, model 'alexnet' is not one"),
    "no such setting": ("[coscheduling, netgang]", "[netgang luck=1]", "setting 'luck' is not one of queue.order"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), BAD.values(), ids=BAD)
def test_errors_name_the_field(old: str, new: str, words: str) -> None:
    with pytest.raises(ScenarioError) as told:
        parse(GOOD.replace(old, new), name="mine.yaml")
    assert words in str(told.value)
    assert str(told.value).startswith("mine.yaml:")
