"""Scenario files: those that come with netgang, and those that users write.

Rule: a name without a file ending is a built-in one; everything else is a path. What is wrong in a file is reported
with the field's name, in sentences, as a `ScenarioError`.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lab.simulator.scenarios.document import ScenarioError, ScenarioFile
from lab.simulator.scenarios.generate import scenarios

__all__ = ["ScenarioError", "ScenarioFile", "builtin_names", "load", "scenarios"]


def builtin_names() -> tuple[str, ...]:
    """Names of the built-in scenarios."""
    found = (Path(one.name) for one in files(__name__).iterdir())
    return tuple(sorted(one.stem for one in found if one.suffix == ".yaml"))


def load(name: str, *, changes: Mapping[str, Any] | None = None) -> ScenarioFile:
    """Read a built-in scenario or a file, with these top-level fields changed. ScenarioError: it is not usable."""
    if name in builtin_names():
        text = files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")
    elif name.endswith((".yaml", ".yml", ".json")):
        try:
            text = Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    else:
        known = ", ".join(sorted((*builtin_names(), "elastic", "installed")))
        raise ScenarioError(f"no scenario is named {name!r}: use {known}, or a path to a .yaml file")
    return parse(text, name=name, changes=changes)


def parse(text: str, *, name: str, changes: Mapping[str, Any] | None = None) -> ScenarioFile:
    """Read the text of a scenario file; `name` is for errors."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScenarioError(f"{name}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"{name}: a scenario is a mapping with at least name, nodes and workload")
    try:
        return ScenarioFile.model_validate({**document, **(changes or {})})
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, one['loc'])) or 'scenario'}: {one['msg']}" for one in error.errors()]
        raise ScenarioError("\n".join([f"{name}:", *lines])) from error
