"""What all groups of settings are made of: numbers with their bounds, words that YAML misreads, the base of a group.

Why one place: a group that accepted unknown names, or a number that accepted `nan`, would hide a mistake.
"""

from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.types import AllowInfNan

from scoring.network.measurement import METRICS, Metric

Number: TypeAlias = Annotated[float, AllowInfNan(False)]
Positive: TypeAlias = Annotated[Number, Field(gt=0.0)]
NotNegative: TypeAlias = Annotated[Number, Field(ge=0.0)]


class Section(BaseModel):
    """A group of settings: frozen, unknown names refused, what stands below a name explains it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ByMetric(Section):
    """Fields `loss`, `delay` and `throughput`; a plain value in their place means all three."""

    PLAIN: ClassVar[tuple[type, ...]] = (str,)

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {metric.value: value for metric in METRICS} if isinstance(value, cls.PLAIN) else value

    def named(self) -> dict[Metric, Any]:
        """Metric → its value, for the metrics that have one."""
        values = {metric: getattr(self, metric.value) for metric in METRICS}
        return {metric: value for metric, value in values.items() if value is not None}


def names(value: object) -> object:
    """A list, or the environment's comma-separated text."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def on_or_off(value: object) -> object:
    """The word `on` or `off`, which YAML 1.1 reads as a truth value unless it is quoted."""
    return ("on" if value else "off") if isinstance(value, bool) else value


OnOrOff = BeforeValidator(on_or_off)  # For settings that accept the word `on` or `off`
