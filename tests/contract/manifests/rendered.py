"""What `helm template` prints of the chart, and what the tests read in it.

manifests/ holds that of the two modes, and tests/fixtures/rendered that of the gates, which no mode has by itself but
native: so most tests need no Helm. `make manifests` renews them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from extender.settings.settings import Settings
from lab.testbed.cluster import INSTALLED_IN
from lab.testbed.parts.helm import CHART, Helm
from lab.testbed.parts.installed import MANIFESTS, installed
from lab.testbed.programs.catalogue import KUBERNETES

ROOT = Path(__file__).parents[3]
GATES = ROOT / "tests/fixtures/rendered/gates.yaml"
MODES = ("second-scheduler", "native")
Object = Mapping[str, Any]
_GATED = ("--show-only", "templates/gates.yaml", "--set", "gates.enabled=true,scheduler.namespaces=true")


def rendered(helm: Helm) -> dict[Path, str]:
    options = ("--namespace", INSTALLED_IN, "--kube-version", KUBERNETES, "--set", "image.repository=netgang")
    command = ("template", "netgang", str(CHART), "--no-hooks", *options)
    modes = {MANIFESTS / f"{mode}.yaml": helm.good(*command, "--set", f"mode={mode}") for mode in MODES}
    return {**modes, GATES: helm.good(*command, *_GATED)}


@cache
def gates() -> tuple[Object, ...]:
    """The policies of the gate and of the scheduler's name, with their bindings, of mode second-scheduler."""
    return tuple(one for one in yaml.safe_load_all(GATES.read_text()) if one)


@cache
def objects_of(mode: str) -> tuple[Object, ...]:
    return tuple(installed(mode))


def of_kind(objects: Sequence[Object], kind: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def pod_spec(owner: Object) -> Mapping[str, Any]:
    return owner["spec"]["template"]["spec"]


def container_of(objects: Sequence[Object], deployment: str = "netgang") -> Mapping[str, Any]:
    (found,) = pod_spec(of_kind(objects, "Deployment")[deployment])["containers"]
    return dict(found)


def rights_of(rules: Sequence[Object]) -> Iterator[tuple[str, str, str]]:
    """(verb, API group, resource) of all that a role's rules allow."""
    for rule in rules:
        yield from product(rule["verbs"], rule["apiGroups"], rule["resources"])


def mounted_settings(objects: Sequence[Object], directory: Path) -> Settings:
    file = directory / "netgang.yaml"
    file.write_text(of_kind(objects, "ConfigMap")["netgang"]["data"]["netgang.yaml"])
    return Settings.load(file)
