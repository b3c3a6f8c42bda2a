"""What is supposed, read from JSON: changes, as `scoring.what_if.changes` defines them, and other settings."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError

from extender.settings.layers import merge
from extender.settings.settings import Settings
from scoring.model.policy import Policy
from scoring.what_if.changes import Change, MisfitError, WhatIf

DECIDING: Final = ("score", "queue", "selection", "zone_policy", "spill_wait_s", "zone_distance_ms")


def read_changes(body: bytes | str) -> tuple[Change, ...]:
    """The changes of a body. Errors: MisfitError names the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=WhatIf).changes
    except msgspec.ValidationError as error:
        what, _, place = str(error).rpartition(" - at `$")
        field = re.sub(r"\[(\d+)\]", r".\1", place).replace("[...]", "").strip(".`")
        raise MisfitError(f"{field or 'body'}: {what or error}") from error
    except msgspec.DecodeError as error:
        raise MisfitError(f"body: not JSON: {error}") from error


def policy_with(settings: Settings, given: Mapping[str, Any]) -> Policy:
    """The policy of `settings` with those of `given` instead, sections merged. MisfitError names what is wrong."""
    changed: dict[str, Any] = {}
    for name, value in given.items():
        if name not in DECIDING:
            raise MisfitError(f"settings.{name}: decides nothing in a plan; accepted: {', '.join(DECIDING)}")
        known, field = getattr(settings, name), Settings.model_fields[name]
        try:
            if isinstance(known, BaseModel):
                merged = merge(known.model_dump(), value) if isinstance(value, Mapping) else value
                changed[name] = type(known).model_validate(merged)
            else:
                kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
                changed[name] = TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(("settings", name, *map(str, first["loc"])))
            raise MisfitError(f"{where}: {first['msg']}") from error
    return settings.model_copy(update=changed).policy()
