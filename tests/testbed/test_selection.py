"""Who runs the e2e tests: on CI a computer without Go fails, and says what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_without_go_ci_fails(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PATH": str(tmp_path), "NETGANG_TESTBED_CACHE": str(tmp_path / "cache"), "CI": "true"}
    command = [sys.executable, "-m", "pytest", "-qx", "-n", "0", "-p", "no:cacheprovider", "tests/e2e/gangs"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "install Go" in done.stdout + done.stderr
