"""`make release VERSION=0.1.0`, or `python -m release 0.1.0 --draft` before the version has a date."""

import argparse
import os
import sys
from pathlib import Path

from release.build import ROOT, build, build_image, check_clean, commit_time_s
from release.errors import ReleaseError
from release.image import missing_packages
from release.versions import check


def main() -> int:
    """Exit code 0: built; 1: refused, and why is on standard error."""
    parser = argparse.ArgumentParser(prog="python -m release", description="Build a release into dist/VERSION.")
    parser.add_argument("version", help="must be that of pyproject.toml, the chart and CHANGELOG.md")
    parser.add_argument("--draft", action="store_true", help="accept a version without a date and changed files")
    parser.add_argument("--out", type=Path, help="default: dist/VERSION")
    given = parser.parse_args()
    try:
        check(ROOT, given.version, draft=given.draft)
        if not given.draft:
            check_clean(ROOT)
        epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time_s(ROOT))
        target = (given.out or ROOT / "dist" / given.version).resolve()
        files = build(ROOT, given.version, target, epoch_s=epoch_s)
        built = build_image(ROOT, given.version, target, epoch_s=epoch_s)
    except ReleaseError as error:
        sys.stderr.write(f"no release: {error}\n")
        return 1
    for path in (*files, *([built] if built else [])):
        sys.stdout.write(f"{path.stat().st_size:>12,} {path.name}\n")
    if built is None:
        sys.stdout.write(f"image NOT built: no {' and no '.join(missing_packages())} (docs/developers/release.md)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
