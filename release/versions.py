"""One version: pyproject.toml has it, and every other place that names it must agree."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from release.errors import ReleaseError

_HEADING = re.compile(r"^## (?P<version>\S+) – (?P<date>.+)$", re.MULTILINE)
_TAG = re.compile(r'(?: image: netgang:|app.kubernetes.io/version: "|helm.sh/chart: netgang-)([^\s"}]+)')


def places(root: Path) -> Iterator[tuple[str, str]]:
    """(place, version that it names), pyproject.toml first."""
    for name in ("pyproject.toml", "report/pyproject.toml"):
        yield name, tomllib.loads((root / name).read_text())["project"]["version"]
    chart = yaml.safe_load((root / "charts/netgang/Chart.yaml").read_text())
    for key in ("version", "appVersion"):
        yield f"charts/netgang/Chart.yaml ({key})", str(chart[key])
    for mode in ("second-scheduler", "native"):
        for tag in _TAG.findall((root / f"manifests/{mode}.yaml").read_text()):
            yield f"manifests/{mode}.yaml (netgang)", tag
    version, _ = changelog(root)
    yield "CHANGELOG.md (newest heading)", version


def changelog(root: Path) -> tuple[str, str]:
    """(version, date) of the newest heading. ReleaseError if there is none of the form `## 1.2.3 – 2026-01-31`."""
    newest = _HEADING.search((root / "CHANGELOG.md").read_text())
    if newest is None:
        raise ReleaseError("CHANGELOG.md has no heading such as `## 1.2.3 – 2026-01-31`")
    return newest["version"], newest["date"]


def check(root: Path, version: str, *, draft: bool) -> None:
    """Refuse a version that is not that of every place, and, but for a draft, one whose date is not known."""
    if wrong := [f"{place} has {said}" for place, said in places(root) if said != version]:
        raise ReleaseError(f"this is not version {version}: {'; '.join(wrong)}")
    _, date = changelog(root)
    if not draft and not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise ReleaseError(f"CHANGELOG.md says '{date}': write the date of the release")
