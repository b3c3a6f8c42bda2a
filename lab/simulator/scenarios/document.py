"""What a scenario file may say: nodes, jobs, policies.

Why pydantic: people write these files, and an error must name the field and what it accepts. Rule: nothing is read
silently: an unknown field is an error, and every default is the one described beside it.
"""

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from extender.errors import ConfigError
from lab.simulator.policies import POLICIES, made
from lab.simulator.scenarios.jobs import Count, Name, NotNegative, Part, Quantity, Workload


class ScenarioError(ConfigError):
    """The scenario cannot be used; the text says why and what would be accepted."""


class NodeGroup(Part):
    """Equal nodes, named `PREFIX-0…`, dealt out evenly to zones `a`, `b` and so on."""

    count: Count
    cpu: Quantity
    memory: Quantity
    gpu: Annotated[int, Field(ge=0)] = 0
    zones: Count = 1
    prefix: Name = "node"

    def names(self) -> list[str]:
        """Of all its nodes."""
        digits = len(str(self.count - 1))
        return [f"{self.prefix}-{number:0{digits}}" for number in range(self.count)]


class ScenarioFile(Part):
    """A comparison of policies."""

    name: Name
    about: str = ""
    seed: Annotated[int, Field(ge=0)] = 1
    policies: Annotated[tuple[str, ...], Field(min_length=1)] = tuple(POLICIES)
    nodes: Annotated[tuple[NodeGroup, ...], Field(min_length=1)]
    resize_stall_s: NotNegative | None = None
    """Seconds without training at each change of a worker count. Default: the elastic paper's 40.5 to 41.8."""
    workload: Workload

    @model_validator(mode="after")
    def _nodes_agree(self) -> "ScenarioFile":
        prefixes = [group.prefix for group in self.nodes]
        if len(set(prefixes)) < len(prefixes):
            raise ValueError("groups of nodes need different prefixes")
        return self

    @field_validator("policies")
    @classmethod
    def _known(cls, policies: tuple[str, ...]) -> tuple[str, ...]:
        for policy in policies:
            made(policy)
        return policies
