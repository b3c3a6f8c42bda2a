"""Which Helm is taken, and what a run of it may see."""

import stat
from pathlib import Path

import pytest

from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.helm import Helm, find_helm, hooks
from lab.testbed.programs.build import CACHE_VARIABLE, program_path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_named_one_then_path_then_the_cache(tmp_path: Path) -> None:
    cache = {CACHE_VARIABLE: str(tmp_path / "cache"), "PATH": str(tmp_path / "bin")}
    assert find_helm(cache) is None
    built = program(program_path("helm", cache=tmp_path / "cache"))
    assert find_helm(cache) == built
    on_path = program(tmp_path / "bin/helm")
    assert find_helm(cache) == on_path
    assert find_helm({**cache, "NETGANG_HELM": "/opt/helm"}) == Path("/opt/helm")


def test_a_run_sees_its_own_home_and_no_other_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/the/users/own")
    helm = program(
        tmp_path / "helm",
        "#!/bin/sh\necho $HELM_CACHE_HOME $KUBECONFIG $*\necho careful >&2\n",
    )
    ended = Helm(helm, tmp_path, Path("/its/kubeconfig")).run("list")
    assert ended.output == f"{tmp_path}/cache /dev/null list --kubeconfig /its/kubeconfig\n"
    assert (ended.code, ended.complaint) == (0, "careful")
    assert Helm(helm, tmp_path).run("lint").output.endswith("lint\n")


def test_what_fails_says_why(tmp_path: Path) -> None:
    helm = program(tmp_path / "helm", "#!/bin/sh\necho 'no such chart' >&2\nexit 1\n")
    with pytest.raises(ControlPlaneError, match="helm template x failed: no such chart"):
        Helm(helm, tmp_path).good("template", "x")


def test_hooks_are_told_apart() -> None:
    plain = {"metadata": {"name": "a"}}
    hook = {"metadata": {"name": "b", "annotations": {"helm.sh/hook": "pre-delete"}}}
    assert hooks([plain, hook]) == [hook]
