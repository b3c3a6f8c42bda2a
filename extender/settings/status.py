"""Settings of what is written on PodGroups for people. A part of `extender.settings.settings`.

Why a validator: YAML 1.1 reads `on` and `off` without quotes as true and false.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator


class StatusMode(StrEnum):
    """Whether netgang writes the status of the PodGroups of its gangs."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


def _word(value: object) -> object:
    """The word that YAML took for a truth value."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


StatusSetting: TypeAlias = Annotated[StatusMode, BeforeValidator(_word)]
