"""The cache: what is built once, by whom, and what a failure leaves. A shell script stands for Go."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.testbed.errors import BuildFailed, GoMissing
from lab.testbed.programs import build
from lab.testbed.programs.catalogue import Version

SCRIPT = r"""#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
case "$1" in
  version) echo "go version ${GO_SAYS:-go1.26.8} linux/amd64" ;;
  mod) printf '{"Dir": "%s", "GoMod": "%s/go.mod"}' "$here/source" "$here/source" ;;
  list) printf 'a\nb\nc\n' ;;
  build)
    printf 'a\nb\n' >&2
    if [ -n "$GO_FAILS" ]; then echo "undefined: thing" >&2; exit 1; fi
    [ -d completed ] && cp -r completed "$here/seen"
    while [ "$1" != -o ]; do shift; done
    echo program > "$2" ;;
esac
"""


@dataclass
class Heard:
    lines: list[str] = field(default_factory=list)

    def started(self, label: str) -> None:
        self.lines.append(f"start {label}")

    def advanced(self, label: str, *, done: int, total: int) -> None:
        self.lines.append(f"{done}/{total}")

    def finished(self, label: str, *, seconds: float) -> None:
        self.lines.append(f"end {label}")


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a `go` that notes its calls; it is the first one in PATH."""
    place = tmp_path / "go"
    (place / "source" / "kustomize/stage").mkdir(parents=True)
    (place / "source" / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    (place / "go").write_text(SCRIPT)
    (place / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    return place


def calls(go: Path, verb: str) -> int:
    return sum(line.startswith(verb) for line in (go / "calls").read_text().splitlines())


def test_built_once_and_reported(go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    first = build.ensure_program("etcd", cache=tmp_path / "cache", reporter=heard)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    second = build.ensure_program("etcd", cache=tmp_path / "cache", reporter=heard)

    assert first == second == tmp_path / "cache" / "bin" / "etcd-3.6.16"
    assert first.read_text() == "program\n"
    assert heard.lines == ["start etcd 3.6.16", "1/3", "2/3", "end etcd 3.6.16"]
    assert calls(go, "build") == 1


def test_parallel_requests_build_once(go: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: build.ensure_program("etcd", cache=tmp_path / "cache"), range(4)))

    assert set(paths) == {tmp_path / "cache" / "bin" / "etcd-3.6.16"}
    assert calls(go, "build") == 1


def test_version_option_concerns_kubernetes_only(go: Path, tmp_path: Path) -> None:
    for version in (Version("1.36.3"), Version("1.35.4")):
        built = build.ensure_all(["etcd", "kubectl"], version=version, cache=tmp_path)
        assert {name: path.name for name, path in built.items()} == {
            "etcd": "etcd-3.6.16",
            "kubectl": f"kubectl-{version}",
        }
    assert calls(go, "build") == 3


def test_a_dependency_is_built_with_the_file_that_it_lacks(go: Path, tmp_path: Path) -> None:
    package = go / "source" / "pkg/apis/scheduling/v1beta1"
    package.mkdir(parents=True)
    (go / "source" / "go.sum").write_text("")
    (package / "types.go").write_text("package v1beta1\n")
    package.chmod(0o555)  # as Go leaves it
    build.ensure_program("vc-scheduler", cache=tmp_path / "cache")

    built = go / "seen" / package.relative_to(go / "source")
    assert "QueueAllocationGateKey" in (built / "completed.go").read_text()
    assert sorted(one.name for one in built.iterdir()) == ["completed.go", "types.go"]
    assert [one.name for one in package.iterdir()] == ["types.go"]


def test_failure_leaves_nothing_and_shows_why(go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(BuildFailed, match="undefined: thing"):
        build.ensure_program("etcd", cache=tmp_path / "cache")
    assert build.missing(["etcd"], cache=tmp_path / "cache") == ("etcd",)
    assert not list((tmp_path / "cache").glob("build-*"))

    monkeypatch.delenv("GO_FAILS")
    assert build.ensure_program("etcd", cache=tmp_path / "cache").exists()


def test_missing_go_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GoMissing, match="install Go"):
        build.ensure_program("etcd", cache=tmp_path / "cache")


def test_old_go_is_said(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_SAYS", "go1.20.3")
    with pytest.raises(GoMissing, match=r"1\.21 or newer"):
        build.find_go()


def test_assets_are_copied(go: Path, tmp_path: Path) -> None:
    source = go / "source" / "manifests" / "coscheduling"
    source.mkdir(parents=True)
    (source / "crd.yaml").write_text("kind: CustomResourceDefinition\n")
    place = build.ensure_asset("podgroup-crd", cache=tmp_path / "cache")

    assert [path.name for path in place.iterdir()] == ["podgroup.yaml"]
    assert place.name == "podgroup-crd-0.28.9"


CACHES = {  # case: (where, environment)
    "chosen": ("/a", {"NETGANG_TESTBED_CACHE": "/a", "XDG_CACHE_HOME": "/b"}),
    "of the user's caches": ("/b/netgang/testbed", {"XDG_CACHE_HOME": "/b"}),
    "empty means unset": (
        str(Path.home() / ".cache/netgang/testbed"),
        {"NETGANG_TESTBED_CACHE": "", "XDG_CACHE_HOME": ""},
    ),
}


@pytest.mark.parametrize(("want", "environment"), CACHES.values(), ids=CACHES)
def test_cache_directory(want: str, environment: dict[str, str]) -> None:
    """The cache is where the user wants it, else where caches are, and never in the tree."""
    assert str(build.cache_directory(environment)) == want


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="kube-scheduler"):
        build.program_path("kube-schedular")
    with pytest.raises(ValueError, match="kwok-stages"):
        build.ensure_asset("stages")
