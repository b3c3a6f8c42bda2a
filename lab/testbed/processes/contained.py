"""Become a pod's process: in its node's network and its control group, with volumes where the pod wants them.

Why: what a chart mounts, and what it forbids, is only shown by a process that lives with it.
Rule: `python contained.py FILE` replaces itself by the program that the file (JSON) names. Its file system is a copy on
write of this machine's, in a mount namespace of its own: nothing outside changes, and all of it ends with the last
process in it. It imports nothing of this project, as leash.py. `begin` does so in a process that has the program's
modules: twelve imports of numpy keep two cores busy for seconds.
"""

import ctypes
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

NETWORKS = Path("/run/netns")
_NEW_MOUNTS, _NEW_NETWORK = 0x00020000, 0x40000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 32, 4096, 16384, 1 << 19
_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def in_network(network: str, act: Callable[[], object]) -> None:
    """Call this in a thread that is in a network namespace; sockets that it makes stay there. Errors: its own."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            _enter(network)
            act()
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def main(file: str) -> None:
    """Do what the file says, and exec. Errors: OSError, of what cannot be had here."""
    how: dict[str, Any] = json.loads(Path(file).read_text())
    _enter_all(how, how["parent"])
    os.execvpe(how["command"][0], how["command"], how["env"])  # noqa: S606 - of the test bed


def begin(file: str, log: str) -> None:
    """The same in a forked process, of `python -m MODULE ARGUMENT…`. Errors: ImportError, of what was not loaded."""
    server, how = os.getppid(), json.loads(Path(file).read_text())
    os.setsid()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the server lives while others have an end of its pipe
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), written, written)):
        os.dup2(descriptor, stream)
    if missing := {*how["loaded"]} - {*sys.modules}:
        raise ImportError(f"the server of forks has not loaded {', '.join(missing)}")
    _enter_all(how, server)
    os.environ.clear()
    os.environ.update(how["env"])
    sys.argv = how["command"][2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _enter_all(how: dict[str, Any], parent: int) -> None:
    for group in how["groups"]:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    _enter(how["network"])
    _ask("unshare", _NEW_MOUNTS)
    _mount("", "/", flags=_RECURSIVE | _SLAVE)
    sources = [(f"/proc/self/fd/{os.open(source, os.O_PATH)}", *rest) for source, *rest in how["volumes"]]
    _new_root(Path(how["place"]), how["programs"])
    for source, target, read_only in sources:
        _mount(source, target, flags=_BIND)
        if read_only:
            _mount("", target, flags=_REMOUNT | _BIND | _READ_ONLY)
    if how["read_only"]:
        _mount("", "/", flags=_REMOUNT | _BIND | _READ_ONLY)
    os.chdir(how["directory"])
    if how["user"] is not None:
        os.setgroups([how["fs_group"]] if how["fs_group"] is not None else [])
        os.setgid(how["group"])
        os.setuid(how["user"])  # takes all capabilities away, and the parent-death signal
    _LIBC.prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _enter(network: str) -> None:
    with (NETWORKS / network).open() as place:
        _ask("setns", place.fileno(), _NEW_NETWORK)


def _new_root(place: Path, programs: list[str]) -> None:
    """Make a copy on write of the machine's files the root, with this network's /sys; programs are for all users."""
    _mount("tmpfs", place, "tmpfs", options="mode=755")
    upper, work, root = (place / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir()
    _mount("overlay", root, "overlay", options=f"lowerdir=/,upperdir={upper},workdir={work}")
    for program in programs:
        inside = root / program[1:]
        inside.mkdir(parents=True, exist_ok=True)
        for folder in (inside, *inside.parents[: len(Path(program).parents)]):
            folder.chmod(folder.stat().st_mode | 0o555)
    apart = [one for one in programs if Path(one).stat().st_dev != Path("/").stat().st_dev]
    for source in ("/dev", "/proc", *apart):  # mounts of the machine are not in the copy
        _mount(source, root / source[1:], flags=_BIND | _RECURSIVE)
    _mount("sysfs", root / "sys", "sysfs")
    os.chroot(root)


def _mount(source: str, target: str | Path, kind: str = "none", *, flags: int = 0, options: str = "") -> None:
    """Mount it, on a place that is made if there is none."""
    place = Path(target)
    if not place.exists():
        place.unlink(missing_ok=True)  # a link into a mount that the copy does not have
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if Path(source).is_dir() else place.touch()
    _ask("mount", source.encode(), str(target).encode(), kind.encode(), flags, options.encode())


def _ask(name: str, *arguments: Any) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1])
