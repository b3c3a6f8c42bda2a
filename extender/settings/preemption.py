"""The setting that lets gangs leave for others (docs/explanation/preemption.md). A part of the settings."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from scoring.model.policy import Preempting


def _word(value: object) -> object:
    """The word that YAML 1.1 took for a truth value: `off` without quotes."""
    return Preempting.OFF if value is False else value


PreemptionSetting: TypeAlias = Annotated[Preempting, BeforeValidator(_word)]
