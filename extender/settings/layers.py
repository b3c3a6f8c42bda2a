"""Where values of settings come from, how they become one, and how a mistake in them is reported.

Why apart from the settings: this knows no setting by name. Rule: command line over environment over file; mappings
are merged name by name and lists are replaced whole; every refusal is one line that names the setting, where it was
set, its value and what is accepted.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from extender.errors import ConfigError

ENV_PREFIX = "NETGANG_"
NOT_SETTINGS = ("NETGANG_HELM", "NETGANG_KUBECTL", "NETGANG_TESTBED", "NETGANG_TOKEN", "NETGANG_URL")
"""Environment names (and beginnings of names) that belong to the tests, and to commands that ask a running netgang."""

KINDS = ("file", "maddash", "opensearch", "prometheus")
"""Kinds of sources: pydantic puts them into the place of a mistake, behind the source's number."""

_USER = re.compile(r"//[^/@\s]+@")  # User name and password in an address: never repeated in a text

Layer: TypeAlias = tuple[str, Mapping[str, Any]]  # Where values come from, in words, and the values


def read_file(file: Path) -> dict[str, Any]:
    """Values in a YAML or JSON file; an empty file holds none. ConfigError when it cannot be read."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"settings file {file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        at = f", line {place.line + 1}," if place is not None else ""
        raise ConfigError(f"settings file {file}{at} is neither YAML nor JSON") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError(f"settings file {file} must hold names and values, such as `port: 8888`")
    return found


def read_environment(settings: type[BaseModel], environment: Mapping[str, str]) -> dict[str, Any]:
    """Values of NETGANG_… names; others are refused, and Kubernetes' own for a Service of this name explained."""
    found: dict[str, str] = {}
    for variable, text in sorted(environment.items()):
        if not variable.upper().startswith(ENV_PREFIX) or variable.startswith(NOT_SETTINGS):
            continue
        name = variable.upper().removeprefix(ENV_PREFIX).lower().split("__")[0]
        if text.startswith("tcp://") or name.startswith(("service_host", "service_port", "port_")):
            raise ConfigError(
                f"{variable} was set by Kubernetes for a Service named netgang, and would be read as a setting: "
                "set `enableServiceLinks: false` in the pod"
            )
        if name not in settings.model_fields:
            raise ConfigError(f"{variable}: {_unknown(name, settings.model_fields)}")
        found[variable.upper()] = text
    return from_environment(found)


def from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Values of the NETGANG_… names among these; lists and mappings are JSON, all else is text for the setting to read.

    >>> from_environment({"NETGANG_LEASE__NAME": "a", "NETGANG_DEBUG_PORT": "null", "NETGANG_RULES": "[]", "HOME": "/"})
    {'lease': {'name': 'a'}, 'debug_port': None, 'rules': []}
    """
    mine = {name: text for name, text in variables.items() if name.startswith(ENV_PREFIX)}
    return unfold({name.removeprefix(ENV_PREFIX).lower().replace("__", "."): _value(mine[name]) for name in mine})


def _value(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, list | dict) or found is None else text


def unfold(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into nested mappings.

    >>> unfold({"port": 1, "network.rules": [], "network.sources": []})
    {'port': 1, 'network': {'rules': [], 'sources': []}}
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        branch: Any = value
        for part in reversed(name.split(".")):
            branch = {part: branch}
        nested = merge(nested, branch)
    return nested


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """`low` with the values of `high` put over it.

    >>> merge({"a": {"x": 1, "y": 2}, "b": [1, 2]}, {"a": {"y": 3}, "b": [4]})
    {'a': {'x': 1, 'y': 3}, 'b': [4]}
    """
    merged = dict(low)
    for name, value in high.items():
        known = merged.get(name)
        merged[name] = merge(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def mistakes(settings: type[BaseModel], error: ValidationError, layers: Sequence[Layer] = ()) -> list[str]:
    """A line for each mistake, with the layer that it is from where `layers` are given, strongest first."""
    return [_sentence(settings, one, layers) for one in error.errors(include_url=False)]


def _sentence(settings: type[BaseModel], error: ErrorDetails, layers: Sequence[Layer]) -> str:
    whole = error["loc"]
    path = [part for i, part in enumerate(whole) if not (part in KINDS and i > 0 and isinstance(whole[i - 1], int))]
    name = ".".join(str(part) for part in path)
    origin = next((where for where, values in layers if path and _holds(values, path)), "")
    place = f" (from {origin})" if origin else ""
    value = "" if isinstance(error["input"], Mapping) else f" = {_USER.sub('//…@', repr(error['input']))}"
    match error["type"]:
        case "extra_forbidden":
            return f"{name}{place}: {_unknown(str(path[-1]), names_at(settings, path[:-1]))}"
        case "missing":
            return f"{name}: must be given"
        case "union_tag_not_found" | "union_tag_invalid":
            return f"{name}{place}: kind must be one of {', '.join(KINDS)}"
        case "value_error" if not name:
            return error["msg"].removeprefix("Value error, ")
        case _:
            accepted = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
            return f"{name}{value}{place}: {accepted}"


def _holds(values: Any, path: Sequence[int | str]) -> bool:
    for part in path:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _unknown(name: str, known: Iterable[str]) -> str:
    """What to say about a name that is no setting: the nearest one there is, else all of them."""
    listed = sorted(known)
    near = difflib.get_close_matches(name, listed, n=1)
    return f"no such setting; did you mean {near[0]}?" if near else f"no such setting; there are {', '.join(listed)}"


def names_at(settings: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    """Names of settings that exist at a place."""
    here = [settings]
    for part in path:  # numbers of a list and keys of a mapping lead to no other names
        fields = [one.model_fields[str(part)] for one in here if part in one.model_fields]
        here = [model for field in fields for model in _models_in(field.annotation)] or here
    return {name for one in here for name in one.model_fields}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
