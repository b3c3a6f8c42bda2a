"""The browser for the page's tests: taken where there is one, installed where that is allowed, else said why not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.testbed.errors import FetchFailed
from lab.testbed.programs.archives import Ended
from lab.testbed.programs.browser import ensure_browser
from lab.testbed.programs.build import Silent


@dataclass
class Machine:
    programs: set[str]
    works: bool = True
    ran: list[str] = field(default_factory=list)

    def find(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def run(self, command: Sequence[str], *, directory: Path) -> Ended:
        self.ran.append(" ".join(command))
        if not self.works:
            return Ended(100, "E: Unable to locate package chromium\n")
        if "install" in command:
            self.programs.add("chromium")
        return Ended(0, "")


def test_one_that_is_there_is_taken_else_it_is_installed_once() -> None:
    machine = Machine({"apt-get"})
    for _ in range(2):
        assert ensure_browser(Silent(), runner=machine, root=True) == "/usr/bin/chromium"
        assert [len(machine.ran), "update" in machine.ran[0], "install chromium" in machine.ran[1]] == [2, True, True]


REFUSALS = {  # case: (programs, whether apt works, root, what is said)
    "no apt-get": (set(), True, True, "by hand"),
    "not root": ({"apt-get"}, True, False, "only root"),
    "no such package": ({"apt-get"}, False, True, "Unable to locate package chromium"),
}


@pytest.mark.parametrize(("programs", "works", "root", "said"), REFUSALS.values(), ids=REFUSALS)
def test_what_keeps_it_away_is_said(programs: set[str], works: bool, root: bool, said: str) -> None:
    with pytest.raises(FetchFailed, match=said):
        ensure_browser(Silent(), runner=Machine(set(programs), works), root=root)
