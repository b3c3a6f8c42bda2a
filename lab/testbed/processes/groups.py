"""Control groups of pods: what their processes use, and a limit on it; cgroup v2, or v1's cpu, cpuacct and memory.

Rule: groups of ours are below `netgang-PID`, by the process that made them; a group goes when its processes have.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

from lab.testbed.errors import ControlPlaneError

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
_SHARE = 40
"""All pods together weigh as much as so many processes outside, not as a single one"""


class Usage(msgspec.Struct, frozen=True):
    """Of a pod: CPU since it began, and its memory now."""

    cpu_s: float
    own_bytes: int
    """Anonymous pages"""
    working_set_bytes: int
    """With the cached files that it was first to read and uses, as the Metrics API has it"""
    resident_bytes: int
    """With all pages of files that it has mapped, shared ones counted in full for each process"""


class Group:
    """One pod's group. Errors of making it: ControlPlaneError."""

    def __init__(self, name: str, *, cpus: float | None = None) -> None:
        self._is_v2 = (_ROOT / "cgroup.controllers").exists()
        roots = [_ROOT] if self._is_v2 else [_ROOT / one for one in ("cpu", "cpuacct", "memory")]
        self.places = [root / f"netgang-{os.getpid()}" / name for root in roots]
        try:
            for place in {place.parent.resolve() / name: place for place in self.places}.values():  # some are links
                place.parent.mkdir(exist_ok=True)
                if self._is_v2:
                    for above in (_ROOT, place.parent):
                        (above / "cgroup.subtree_control").write_text("+cpu +memory")
                place.mkdir()
            weight = ("cpu.weight", 100) if self._is_v2 else ("cpu.shares", 1024)
            (self.places[0].parent / weight[0]).write_text(str(_SHARE * weight[1]))
            if cpus is not None:
                self._limit(round(cpus * _PERIOD_US))
        except OSError as error:
            self.remove()
            raise ControlPlaneError(f"no control group can be made below {_ROOT} (cgroup v1 or v2): {error}") from error

    def _limit(self, quota_us: int) -> None:
        if self._is_v2:
            (self.places[0] / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        else:
            (self.places[0] / "cpu.cfs_quota_us").write_text(str(quota_us))

    def usage(self) -> Usage:
        """Read it."""
        memory = _numbers(self.places[-1] / "memory.stat")
        if self._is_v2:
            cpu_s = _numbers(self.places[0] / "cpu.stat")["usage_usec"] / 1e6
            own, used = memory["anon"], int((self.places[0] / "memory.current").read_text())
        else:
            cpu_s = int((self.places[1] / "cpuacct.usage").read_text()) / 1e9
            own, used = memory["total_rss"], int((self.places[2] / "memory.usage_in_bytes").read_text())
        inactive = memory["inactive_file" if self._is_v2 else "total_inactive_file"]
        resident = sum(map(_resident_bytes, _processes(self.places[0])))
        return Usage(cpu_s, own, max(used - inactive, 0), resident)

    def remove(self) -> bool:
        """Kill what is left in it and take it away, the one above with the last of them; False: not yet, ask again."""
        for place in self.places:
            for pid in _processes(place):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            for folder in (place, place.parent):
                with suppress(OSError):  # the killed are not gone yet, or there are other pods
                    folder.rmdir()
        return not any(map(Path.exists, self.places))


def _processes(place: Path) -> list[str]:
    file = place / "cgroup.procs"
    return file.read_text().split() if file.exists() else []


def _resident_bytes(pid: str) -> int:
    with suppress(OSError):  # it is gone
        return int(Path("/proc", pid, "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _numbers(file: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in file.read_text().splitlines())}
