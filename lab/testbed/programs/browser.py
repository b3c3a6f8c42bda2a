"""A real Chromium for the tests of the page: found, or installed from Debian's packages.

Why installed and not unpacked beside the tree: a browser needs a hundred libraries of the system. Rule: only root's
`apt-get` is used, only when there is no Chromium, and what kept it from succeeding is said in one line.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lab.testbed.errors import FetchFailed
from lab.testbed.programs.archives import Ended, Runner, Shell, complaint
from lab.testbed.programs.build import Reporter

_HOW = "apt-get install chromium fonts-dejavu-core"


def ensure_browser(reporter: Reporter, *, runner: Runner | None = None, root: bool | None = None) -> str:
    """Path of Chromium, installed now if it is not there (a minute). Errors: FetchFailed with what to do about it."""
    runner = runner or Shell()
    if (there := runner.find("chromium")) is not None:
        return there
    if runner.find("apt-get") is None:
        raise FetchFailed("no chromium, and no apt-get to install it with: install Chromium by hand")
    if not (os.geteuid() == 0 if root is None else root):
        raise FetchFailed(f"no chromium, and only root may install it: {_HOW}")
    reporter.started("chromium")
    ended = Ended(0, "")
    with tempfile.TemporaryDirectory() as place:
        for command in ("apt-get -q update", f"{_HOW} -q -y --no-install-recommends"):
            ended = runner.run(command.split(), directory=Path(place))
    found = runner.find("chromium")
    if found is None:
        raise FetchFailed(f"chromium could not be installed ({complaint(ended)}): {_HOW}")
    return found
