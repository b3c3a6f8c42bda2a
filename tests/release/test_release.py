"""A release: the same commit gives the same bytes, every place names one version, Helm reads the chart."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from lab.testbed.parts.helm import CHART, Helm
from lab.testbed.programs.catalogue import KUBERNETES
from release import build, versions
from release.errors import ReleaseError
from release.process import run
from tests.liveness import LIVENESS_S

pytestmark = pytest.mark.slow  # seconds each: processes, simulations or many plans

ROOT = build.ROOT
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EPOCH_S = 1_700_000_000
NAMED = ("pyproject.toml", "report/pyproject.toml", "charts/netgang/Chart.yaml", "CHANGELOG.md")
TAGGED = ("manifests/second-scheduler.yaml", "manifests/native.yaml")


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two releases of one tree: of the files as they are, and of a copy with other times and another umask."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    copy = tmp_path_factory.mktemp("copy") / "elsewhere"
    skipped = shutil.ignore_patterns(".*", "dist", "site", "build", "bench", "tests", "docs", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=skipped, copy_function=shutil.copyfile)
    build.build(ROOT, VERSION, first / "dist", epoch_s=EPOCH_S)
    build.build(copy, VERSION, second / "dist", epoch_s=EPOCH_S)
    return first / "dist", second / "dist"


def test_the_same_tree_gives_the_same_bytes_and_checksums_of_all_files(twice: tuple[Path, Path]) -> None:
    first, second = (path.joinpath(build.SUMS).read_text() for path in twice)
    assert first == second
    said = dict(line.split("  ")[::-1] for line in first.splitlines())
    files = {path for path in twice[0].iterdir() if path.name != build.SUMS}
    assert said == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    wheels = {f"{name}-{VERSION}-py3-none-any.whl" for name in ("netgang", "netgang_report")}
    assert said.keys() == wheels | {f"netgang-{VERSION}.tgz", f"netgang-{VERSION}.cdx.json"}


def test_wheels_hold_their_packages_alone(twice: tuple[Path, Path]) -> None:
    ours = {"scoring", "extender", "client", "cli", "probe"}
    for wheel, packages in {"netgang": ours, "netgang_report": {"netgang_report"}}.items():
        with zipfile.ZipFile(twice[0] / f"{wheel}-{VERSION}-py3-none-any.whl") as archive:
            assert {name.split("/")[0] for name in archive.namelist()} == packages | {f"{wheel}-{VERSION}.dist-info"}
            metadata = archive.read(f"{wheel}-{VERSION}.dist-info/METADATA").decode()
        assert f"\nVersion: {VERSION}\n" in metadata
        assert ("\nRequires-Dist: " in metadata) == (wheel == "netgang")
    assert (twice[0] / f"netgang_report-{VERSION}-py3-none-any.whl").stat().st_size < 10_000


def test_the_wheel_for_training_runs_alone(twice: tuple[Path, Path]) -> None:
    """Straight from the wheel, in a Python that sees no other package."""
    wheel = twice[0] / f"netgang_report-{VERSION}-py3-none-any.whl"
    program = f"import sys; sys.path.insert(0, {str(wheel)!r}); import netgang_report; print(netgang_report.__file__)"
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S)
    assert done.stdout.startswith(str(wheel)), done.stderr


def test_helm_reads_the_chart_as_it_reads_the_folder(twice: tuple[Path, Path], helm: Helm) -> None:
    package = twice[0] / f"netgang-{VERSION}.tgz"
    with tarfile.open(package) as archive:
        assert {entry.mtime for entry in archive} == {EPOCH_S}
    options = ("--kube-version", KUBERNETES, "--set", "image.repository=netgang")
    assert helm.good("template", "x", str(package), *options) == helm.good("template", "x", str(CHART), *options)
    assert yaml.safe_load(helm.good("show", "chart", str(package)))["version"] == VERSION


def test_the_list_names_every_package_of_the_image(twice: tuple[Path, Path]) -> None:
    document = json.loads((twice[0] / f"netgang-{VERSION}.cdx.json").read_text())
    assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    listed = {f"{one['name']}=={one['version']}" for one in document["components"]}
    options = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "--no-annotate", "--no-header")
    wanted = run([str(ROOT / ".venv/bin/uv"), *options], ROOT)
    assert listed == {line.split(" ;")[0].strip() for line in wanted.splitlines()}
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])


def test_every_place_names_one_version() -> None:
    found = dict(versions.places(ROOT))
    assert set(found.values()) == {VERSION}
    assert {place.split(" ")[0] for place in found} == {*NAMED, *TAGGED}
    versions.check(ROOT, VERSION, draft=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (*NAMED, *TAGGED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    log = tmp_path / "CHANGELOG.md"
    log.write_text(re.sub(r"^## .*", f"## {VERSION} – 2026-01-31", log.read_text(), count=1, flags=re.MULTILINE))
    versions.check(tmp_path, VERSION, draft=False)
    return tmp_path


@pytest.mark.parametrize("name", [*NAMED, *TAGGED])
def test_a_place_that_was_forgotten_is_named(tree: Path, name: str) -> None:
    file = tree / name
    file.write_text(file.read_text().replace(VERSION, "9.9.9", 1))
    with pytest.raises(ReleaseError, match=re.escape(name)):
        versions.check(tree, VERSION if name != "pyproject.toml" else "9.9.9", draft=True)


def test_a_release_has_a_date(tree: Path) -> None:
    log = tree / "CHANGELOG.md"
    log.write_text(log.read_text().replace("2026-01-31", "unreleased", 1))
    versions.check(tree, VERSION, draft=True)
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md says 'unreleased'"):
        versions.check(tree, VERSION, draft=False)
    log.write_text("# Changelog\n")
    with pytest.raises(ReleaseError, match="no heading"):
        versions.check(tree, VERSION, draft=True)


def test_a_changed_tree_is_no_release(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "a").write_text("1")
    for words in (["init", "-q"], ["add", "a"], ["commit", "-qm", "a: first"]):
        run([*git, *words], tmp_path)
    build.check_clean(tmp_path)
    assert build.commit_time_s(tmp_path) > EPOCH_S
    (tmp_path / "a").write_text("2")
    with pytest.raises(ReleaseError, match="1 files differ from the commit, such as M a"):
        build.check_clean(tmp_path)
