"""Scenario files: those that come with netgang, and those that users write.

Rule: a name without a file ending is a built-in one; everything else is a path. What is wrong in a file is reported
with the field's name, in sentences, as a `ScenarioError`.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lab.simulator.scenarios.document import Assume, ScenarioError, ScenarioFile
from lab.simulator.scenarios.generate import scenarios

__all__ = ["Assume", "ScenarioError", "ScenarioFile", "builtin_names", "load", "load_csv", "scenarios"]


_ELASTIC = {"min_ratio": 0.5, "max_ratio": 2.0, "suspendable": 0.5}
"""What the jobs of a CSV file may do unless it is said otherwise"""


def builtin_names() -> tuple[str, ...]:
    """Names of the built-in scenarios."""
    found = (Path(one.name) for one in files(__name__).iterdir())
    return tuple(sorted(one.stem for one in found if one.suffix == ".yaml"))


def load(
    name: str, *, changes: Mapping[str, Any] | None = None, workload: Mapping[str, Any] | None = None
) -> ScenarioFile:
    """Read a built-in scenario or a file, with these top-level fields, and fields of its workload, changed.

    ScenarioError when it is not usable, or its kind of workload has no such field.
    """
    if name in builtin_names():
        text = files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")
    elif name.endswith((".yaml", ".yml", ".json")):
        try:
            text = Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    else:
        known = ", ".join(sorted((*builtin_names(), "elastic")))
        raise ScenarioError(f"no scenario is named {name!r}: use {known}, or a path to a .yaml or .csv file")
    return parse(text, name=name, changes=changes, workload=workload)


def load_csv(
    name: str,
    *,
    nodes: int = 16,
    gpus: int = 4,
    workload: Mapping[str, Any],
    changes: Mapping[str, Any] | None = None,
) -> ScenarioFile:
    """A scenario of the jobs in a CSV file on equal nodes; `workload`: fields of `RecordedJobs` besides its files."""
    document = {
        "name": re.sub("[^a-z0-9]+", "-", Path(name).stem.lower()).strip("-") or "jobs",
        "policies": ("coscheduling", "tiresias", "srpt", "netgang", "netgang preemption=levels"),
        "nodes": [{"count": nodes, "cpu": 12 * gpus, "memory": f"{48 * gpus}Gi", "gpu": gpus}],
        "workload": {"kind": "recorded", "files": [name], **_ELASTIC, **workload},
    }
    return checked({**document, **(changes or {})}, name=name)


def parse(
    text: str,
    *,
    name: str,
    changes: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
) -> ScenarioFile:
    """Read the text of a scenario file; `name` is for errors."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScenarioError(f"{name}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ScenarioError(f"{name}: a scenario is a mapping with at least name, nodes and workload")
    if workload and isinstance(document.get("workload"), dict):
        document["workload"] |= workload
    return checked({**document, **(changes or {})}, name=name)


def checked(document: Mapping[str, Any], *, name: str) -> ScenarioFile:
    """The document as a scenario; ScenarioError names what is wrong, field by field."""
    try:
        return ScenarioFile.model_validate(document)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, one['loc'])) or 'scenario'}: {one['msg']}" for one in error.errors()]
        raise ScenarioError("\n".join([f"{name}:", *lines])) from error
