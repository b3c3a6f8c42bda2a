"""Who runs the e2e tests: without Go they are left out loudly, and on CI that is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]  # each starts a pytest of its own, beside whatever else runs


def run(tmp_path: Path, *arguments: str, ci: str = "") -> tuple[int, str]:
    """Exit code and output of the e2e tests of the testbed on a computer without Go and with an empty cache."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PATH": str(tmp_path),
        "NETGANG_TESTBED_CACHE": str(tmp_path / "cache"),
        "CI": ci,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments]
    where = "tests/e2e/gangs/test_new_gangs.py"
    done = subprocess.run(
        [*command, where], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("ci", "want"), [("", 0), ("true", 1)])
def test_without_go_what_was_left_out_is_said_and_fails_on_ci(tmp_path: Path, ci: str, want: int) -> None:
    code, text = run(tmp_path, *(["-x"] if ci else []), ci=ci)
    assert code == want
    assert "install Go" in text
    assert ci or ("NOT TESTED on a real control plane" in text and "passed" not in text)
