"""What is installed, as facts: settings, kube-scheduler's configuration, replicas, versions.

Rule: only the fields that a check reads; files may take the place of objects.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from cli.doctor.facts import Facts, Json, Replica, spec_of
from extender.errors import ConfigError
from extender.kube.own_objects import ROLE_LABEL
from extender.settings.layers import from_environment, merge, mistakes
from extender.settings.settings import Settings


def settings_of(text: str, environment: Mapping[str, str], *, origin: str) -> Facts:
    """Settings of a file's text, under the NETGANG_… variables of a container; with problems the defaults.

    >>> settings_of("port: 9000", {"NETGANG_ELASTIC__ENABLED": "true"}, origin="").settings.elastic.enabled
    True
    >>> settings_of("hold_limit_s: much", {}, origin="").settings_problems
    ("hold_limit_s = 'much': must be a valid number, unable to parse string as a number",)
    """
    problems: tuple[str, ...]
    try:
        found = yaml.safe_load(text) or {}
        return Facts(Settings(**merge(found, from_environment(environment))), origin)
    except ValidationError as error:
        problems = tuple(mistakes(Settings, error))
    except (yaml.YAMLError, RecursionError, TypeError, AttributeError):
        problems = ("it is no YAML of names and values",)
    return Facts(Settings(), origin, problems)


def scheduler_of(text: str, *, where: str) -> Json:
    """The document with a kube-scheduler's configuration. Errors: ConfigError if it is no YAML mapping."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
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
    spec = spec_of(workload)
    containers: Sequence[Json] = (spec_of(spec.get("template")) or spec).get("containers") or [{}]
    return containers[0]


def environment_of(workload: Json) -> dict[str, str]:
    """Plain variables of its first container: name → value; those that come from elsewhere are left out."""
    listed = container_of(workload).get("env") or ()
    return {one["name"]: str(one["value"]) for one in listed if "value" in one}


def mounted(workload: Json) -> Iterator[str]:
    """Names of the ConfigMaps that its pods mount."""
    for volume in spec_of(spec_of(workload).get("template")).get("volumes") or ():
        if name := (volume.get("configMap") or {}).get("name"):
            yield str(name)


def replica_of(pod: Json) -> Replica:
    """A pod of netgang's."""
    meta, status = pod["metadata"], pod.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    role = (meta.get("labels") or {}).get(ROLE_LABEL, "")
    return Replica(meta["name"], str(container_of(pod).get("image", "")), ready=ready, role=role)


def version_of(image: str) -> str | None:
    """The version in an image's name; `None`: there is none, such as in a digest.

    >>> version_of("registry.k8s.io/kube-scheduler:v1.36.3@sha256:abc"), version_of("localhost:5000/kube-scheduler")
    ('1.36.3', None)
    """
    name, _, tag = image.partition("@")[0].rpartition(":")
    return tag.removeprefix("v") if name and "/" not in tag else None
