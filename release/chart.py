"""The chart as `helm package` names it, with times and an order that do not change."""

import gzip
import io
import tarfile
from pathlib import Path

from release.errors import ReleaseError


def package(chart: Path, target: Path, *, epoch_s: int) -> None:
    """Write the archive of a chart's folder. Why not `helm package`: it writes the files' own times.

    ReleaseError if there is a symbolic link, which nothing would resolve where the archive is read.
    """
    files = sorted(path for path in chart.rglob("*") if not path.is_dir() or path.is_symlink())
    if links := [str(path.relative_to(chart)) for path in files if path.is_symlink()]:
        raise ReleaseError(f"the chart has symbolic links: {', '.join(links)}")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in files:
            data = path.read_bytes()
            entry = tarfile.TarInfo(f"{chart.name}/{path.relative_to(chart).as_posix()}")
            entry.size, entry.mode, entry.mtime = len(data), 0o644, epoch_s
            archive.addfile(entry, io.BytesIO(data))
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch_s))
