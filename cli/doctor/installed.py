"""Read netgang's settings and kube-scheduler's configuration out of what is installed, or out of files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError

from extender.errors import ConfigError
from extender.settings.layers import ENV_PREFIX, merge, unfold
from extender.settings.settings import Settings, mistakes

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Read:
    """Settings as the installed netgang has them; with problems the defaults, which are then checked."""

    settings: Settings
    problems: tuple[str, ...] = ()


def settings_of(text: str, environment: Mapping[str, str]) -> Read:
    """Settings of a file's text, under the NETGANG_… variables of a container.

    >>> settings_of("port: 9000", {"NETGANG_ELASTIC__ENABLED": "true", "HOME": "/"}).settings.elastic.enabled
    True
    >>> settings_of("hold_limit_s: much", {}).problems
    ("hold_limit_s = 'much': must be a valid number, unable to parse string as a number",)
    """
    try:
        found = yaml.safe_load(text) or {}
        given = {
            name.removeprefix(ENV_PREFIX).lower().replace("__", "."): _value(value)
            for name, value in environment.items()
            if name.startswith(ENV_PREFIX)
        }
        return Read(Settings(**merge(found, unfold(given))))
    except ValidationError as error:
        return Read(Settings(), tuple(mistakes(error)))
    except (yaml.YAMLError, TypeError, AttributeError):
        return Read(Settings(), ("it is no YAML of names and values",))


def scheduler_of(text: str, *, where: str) -> Json:
    """The document with a kube-scheduler's configuration. Errors: ConfigError if it is no YAML mapping."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not YAML") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: holds no KubeSchedulerConfiguration")
    return found


def text_of(file: Path) -> str:
    """A file's text. Errors: ConfigError."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def container_of(workload: Json) -> Json:
    """The first container of a Deployment, or of a pod."""
    spec = workload.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or spec
    containers: Sequence[Json] = pod.get("containers") or [{}]
    return containers[0]


def environment_of(workload: Json) -> dict[str, str]:
    """Plain variables of its first container: name → value; those that come from elsewhere are left out."""
    listed = container_of(workload).get("env") or ()
    return {one["name"]: str(one["value"]) for one in listed if "value" in one}


def mounted(workload: Json) -> Iterator[str]:
    """Names of the ConfigMaps that its pods mount."""
    spec = (((workload.get("spec") or {}).get("template") or {}).get("spec")) or {}
    for volume in spec.get("volumes") or ():
        if name := (volume.get("configMap") or {}).get("name"):
            yield str(name)


def _value(text: str) -> Any:
    """As a list or mapping if it is one in JSON, else the text, which the settings read."""
    try:
        found = json.loads(text)
    except ValueError:
        return None if text == "null" else text
    return found if isinstance(found, list | dict) else text
