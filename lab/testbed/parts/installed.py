"""What users install: the objects of manifests/, which are what `helm template` prints of the chart for each mode."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lab.testbed.api import Object

MANIFESTS = Path(__file__).parents[3] / "manifests"
SECOND = "second-scheduler"
_RIGHTS = ("ServiceAccount", "Secret", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_CONFINEMENT = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def installed(mode: str = SECOND) -> list[Object]:
    """All objects of a mode, as the chart installs it without values."""
    return deepcopy(_read(mode))


def installed_object(kind: str, name: str = "netgang", *, mode: str = SECOND) -> Object:
    """One of them."""
    (found,) = [one for one in installed(mode) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def installed_settings(mode: str = SECOND) -> dict[str, Any]:
    """What netgang reads in its pod where the probe is off, which needs the certificates that the chart makes."""
    settings: dict[str, Any] = yaml.safe_load(installed_object("ConfigMap", mode=mode)["data"]["netgang.yaml"])
    return {name: value for name, value in settings.items() if name not in ("tls", "health_port", "reports", "probe")}


def installed_rights() -> list[Object]:
    """Accounts, roles, bindings, what netgang may write in its own namespace, and the confinement of its account."""
    left_out = [one for one in installed() if one["kind"] == "ConfigMap" and "data" in one]
    left_out += [one for one in installed() if one["metadata"]["name"].endswith("warnings")]
    kinds = (*_RIGHTS, *_CONFINEMENT, "ConfigMap")
    return [one for one in installed() if one["kind"] in kinds and one not in left_out]


@cache
def _read(mode: str) -> list[Object]:
    return [one for one in yaml.safe_load_all((MANIFESTS / f"{mode}.yaml").read_text()) if one]
