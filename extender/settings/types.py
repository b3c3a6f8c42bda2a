"""What all groups of settings are made of: numbers with their bounds, and the base of a group.

Why one place: a group that accepts unknown names, or a number that accepts `nan`, would be a mistake nobody sees.
"""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import AllowInfNan

Number: TypeAlias = Annotated[float, AllowInfNan(False)]
Positive: TypeAlias = Annotated[Number, Field(gt=0.0)]
NotNegative: TypeAlias = Annotated[Number, Field(ge=0.0)]


class Section(BaseModel):
    """A group of settings: frozen, unknown names refused, docstrings are the help text."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def names(value: object) -> object:
    """A list, or the environment's comma-separated text.

    >>> names("a, b"), names(["a"])
    (['a', 'b'], ['a'])
    """
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value
