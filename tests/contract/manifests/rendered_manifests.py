"""The manifests as kustomize (kubectl of 1.21 or newer) renders them, and what the tests read in them."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.settings.layers import ENV_PREFIX
from extender.settings.settings import Settings
from lab.testbed.programs.build import program_path
from tests.liveness import LIVENESS_S

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"
Object = Mapping[str, Any]


def kubectl() -> Path:
    """Named by NETGANG_KUBECTL, on PATH, or built for the test bed; a loud skip without any, a failure in CI."""
    if named := os.environ.get("NETGANG_KUBECTL"):
        return Path(named)
    if found := shutil.which("kubectl"):
        return Path(found)
    built = program_path("kubectl")
    if built.exists():
        return built
    reason = "no kubectl: set NETGANG_KUBECTL, install kubectl, or run `make cluster` once; manifests NOT checked"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def kustomized(directory: Path) -> str:
    done = subprocess.run([kubectl(), "kustomize", directory], capture_output=True, text=True, timeout=LIVENESS_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(directory: Path) -> tuple[Object, ...]:
    return tuple(one for one in yaml.safe_load_all(kustomized(directory)) if one)


@cache
def rendered_overlay(overlay: str) -> tuple[Object, ...]:
    return rendered(MANIFESTS / "overlays" / overlay)


def with_components(directory: Path, what: str, components: Sequence[str]) -> Path:
    """Write the kustomization of a part of manifests/ with these components into a directory; the directory."""
    directory.mkdir(exist_ok=True)
    above = os.path.relpath(MANIFESTS, directory)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{above}/{what}"],
        "components": [f"{above}/components/{name}" for name in components],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


def of_kind(objects: Sequence[Object], kind: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def pod_spec(deployment: Object) -> Mapping[str, Any]:
    return deployment["spec"]["template"]["spec"]


def container_of(objects: Sequence[Object], deployment: str = "netgang") -> Mapping[str, Any]:
    (found,) = pod_spec(of_kind(objects, "Deployment")[deployment])["containers"]
    return dict(found)


def rights_of(rules: Sequence[Object]) -> Iterator[tuple[str, str, str]]:
    """(verb, API group, resource) of all that a role's rules allow."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield verb, group, resource


def mounted_settings(
    objects: Sequence[Object], directory: Path, environment: pytest.MonkeyPatch | None = None
) -> Settings:
    """What netgang reads in its pod: the ConfigMap that it mounts and, over it, the container's environment."""
    if environment is not None:
        for one in container_of(objects)["env"]:
            if one["name"].startswith(ENV_PREFIX):
                environment.setenv(one["name"], one["value"])
    volumes = pod_spec(of_kind(objects, "Deployment")["netgang"])["volumes"]
    (name,) = [volume["configMap"]["name"] for volume in volumes if volume["name"] == "settings"]
    file = directory / "netgang.yaml"
    file.write_text(of_kind(objects, "ConfigMap")[name]["data"]["netgang.yaml"])
    return Settings.load(file)
