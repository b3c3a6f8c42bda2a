"""promtool, which comes with Prometheus (`make archives`, or on PATH)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.testbed.programs import archives
from tests.liveness import LIVENESS_S


def promtool(*arguments: str, directory: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    fetched = archives.find("prometheus")
    program = str(fetched / "usr/bin/promtool") if fetched else shutil.which("promtool")
    if program is None:
        pytest.skip(f"no promtool: {archives.why_missing('prometheus')}; rules and queries are NOT checked")
    return subprocess.run(
        [program, *arguments],
        cwd=directory,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
