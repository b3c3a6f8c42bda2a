"""The steps of a release, in order; each leaves its file in one folder."""

import hashlib
import shutil
from pathlib import Path

from release import chart, image, sbom
from release.errors import ReleaseError
from release.process import run

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"
_CONSTRAINTS = ROOT / "release/build-constraints.txt"


def commit_time_s(root: Path) -> int:
    """Unix seconds of the last commit. ReleaseError: this is no git repository."""
    return int(run(["git", "log", "-1", "--format=%ct"], root))


def check_clean(root: Path) -> None:
    """Refuse a tree that differs from its commit: nobody could build the same again."""
    if changed := run(["git", "status", "--porcelain"], root).splitlines():
        raise ReleaseError(f"{len(changed)} files differ from the commit, such as {changed[0].strip()}")


def build(root: Path, version: str, target: Path, *, epoch_s: int) -> list[Path]:
    """Write wheels, chart, SBOM and checksums into `target`, which is emptied first; the files. Takes a minute."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for project in (root, root / "report"):
        steady = ["--build-constraints", str(_CONSTRAINTS), "--require-hashes", "--no-create-gitignore"]
        options = ["--wheel", "--quiet", "--out-dir", str(target), *steady]
        run([_uv(), "build", *options, str(project)], root, {"SOURCE_DATE_EPOCH": str(epoch_s)})
    chart.package(root / "charts/netgang", target / f"netgang-{version}.tgz", epoch_s=epoch_s)
    export = ["export", "--frozen", "--no-dev", "--format", "cyclonedx1.5", "--preview-features", "sbom-export"]
    listed = sbom.steady(run([_uv(), *export], root), epoch_s=epoch_s)
    (target / f"netgang-{version}.cdx.json").write_text(listed)
    write_sums(target)
    return sorted(target.iterdir())


def build_image(root: Path, version: str, target: Path, *, epoch_s: int) -> Path | None:
    """Build the image on a new base and add its archive to the checksums; `None`: what builds it is not here."""
    if image.missing_packages():
        return None
    archive = target / f"netgang-{version}-image.tar"
    builder = image.ImageBuilder(root, version)
    builder.build(epoch_s=epoch_s, fresh_base=True)
    builder.write(archive)
    builder.remove()
    write_sums(target)
    return archive


def write_sums(target: Path) -> None:
    """Checksums as `sha256sum --check` reads them."""
    files = sorted(path for path in target.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (target / SUMS).write_text("".join(lines))


def _uv() -> str:
    """The project's own uv, of one version; the one on PATH where there is no .venv."""
    own = ROOT / ".venv/bin/uv"
    return str(own) if own.exists() else "uv"
