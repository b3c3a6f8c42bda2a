"""How the programs are called that build a release."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.errors import ReleaseError


def run(command: Sequence[str], directory: Path | None = None, more: Mapping[str, str] | None = None) -> str:
    """What a command prints; `more`: environment variables. ReleaseError with the end of its complaint if it fails."""
    environment = {**os.environ, **(more or {})}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        complaint = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise ReleaseError(f"{' '.join(command)} failed: {complaint}")
    return done.stdout
