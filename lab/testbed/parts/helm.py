"""Run Helm: lint and render the chart, install it on a control plane.

Why: only Helm itself shows what the chart's templates, schema and hooks come to. Rule: Helm keeps its caches in a
directory that is given, so that no run sees another's; it talks to the cluster of the kubeconfig it is given, and to
no other.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.service import ROOT
from lab.testbed.programs.build import program_path

CHART = ROOT / "charts" / "netgang"
VARIABLE = "NETGANG_HELM"
HOOK = "helm.sh/hook"
_LIMIT_S = 120.0


def find_helm() -> Path | None:
    """Helm 3: named by NETGANG_HELM, on PATH, or built for the test bed; `None`: there is none."""
    if named := os.environ.get(VARIABLE) or shutil.which("helm"):
        return Path(named)
    built = program_path("helm")
    return built if built.exists() else None


class Ended(msgspec.Struct, frozen=True):
    """How a run of Helm ended: exit code, standard output, and standard error."""

    code: int
    output: str
    complaint: str


class Helm(msgspec.Struct, frozen=True):
    """Helm with a place of its own, for one cluster or (without `kubeconfig`) none."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> Ended:
        """Run to the end, at most two minutes. Blocks."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr.strip())

    def command(self, *arguments: str) -> list[str]:
        """The command line of a run, for callers that do not wait."""
        cluster = ["--kubeconfig", str(self.kubeconfig)] if self.kubeconfig is not None else []
        return [str(self.program), *arguments, *cluster]

    def environment(self) -> dict[str, str]:
        """The environment of a run: no cluster and no cache but those it is given."""
        places = {f"HELM_{one}_HOME": str(self.home / one.lower()) for one in ("CACHE", "CONFIG", "DATA")}
        return {**os.environ, **places, "KUBECONFIG": os.devnull}

    def good(self, *arguments: str) -> str:
        """What a run prints; ControlPlaneError with its complaint if it failed."""
        ended = self.run(*arguments)
        if ended.code != 0:
            raise ControlPlaneError(f"helm {' '.join(arguments)} failed: {ended.complaint}")
        return ended.output

    def render(self, values: Mapping[str, Any], *, namespace: str, version: str) -> list[dict[str, Any]]:
        """The chart's objects for a cluster of this Kubernetes version, hooks included. ControlPlaneError: refused."""
        file = self.home / "values.yaml"
        file.write_text(yaml.safe_dump({"image": {"repository": "netgang"}, **values}))
        options = ("--namespace", namespace, "--kube-version", version, "--values", str(file))
        text = self.good("template", "netgang", str(CHART), *options)
        return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]


def hooks(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the chart's objects that Helm makes only while it installs or uninstalls."""
    return [one for one in objects if HOOK in one["metadata"].get("annotations", {})]
