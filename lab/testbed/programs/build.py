"""Build the control plane's programs once and keep them outside the tree.

Why: a cold build takes minutes, a test run must not repeat it, and parallel test workers must not race for it.
Rule: a finished program appears in the cache under `bin/NAME-VERSION` by one rename, so a file that is there is
complete. A build holds a file lock for that module and version; all others wait, then find the file.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.catalogue import ASSETS, COPY, PROGRAMS, Asset, Program, Version, go_mod, linker_flags
from lab.testbed.programs.definitions import BESIDE_CONTROLLERS, DEFINITIONS

CACHE_VARIABLE = "NETGANG_TESTBED_CACHE"
_FILES = {**ASSETS, **DEFINITIONS, **BESIDE_CONTROLLERS}
_OUTPUT_LINES = 30  # of a failed command, enough to see the first compiler error
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)")
_OLDEST_GO = (1, 21)  # from here on Go fetches the newer toolchain that a module asks for


def say(words: str) -> None:
    """Tell people what takes minutes."""
    print(words, file=sys.stderr, flush=True)  # noqa: T201


def cache_directory() -> Path:
    """Where built programs are kept: NETGANG_TESTBED_CACHE, else XDG_CACHE_HOME or ~/.cache, netgang/testbed."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return user_cache() / "testbed"


def user_cache() -> Path:
    """Where this project keeps what it may fetch or build again: XDG_CACHE_HOME or ~/.cache, netgang."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netgang"


def program_path(name: str, version: Version | None = None) -> Path:
    """The file that `name` is, or will be, built to; ValueError for a program that is not in the table."""
    program = _known(name)
    return (cache_directory()) / "bin" / f"{name}-{version or program.default_version}"


def missing(names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` (programs at their default versions) that still have to be built."""
    return tuple(name for name in names if not program_path(name).exists())


def find_go() -> Path:
    """The `go` command; ControlPlaneError when there is none or it is older than 1.21."""
    found = shutil.which("go")
    if found is None:
        raise ControlPlaneError(
            "the testbed builds its programs with Go: install Go from https://go.dev/dl and put it in PATH"
        )
    answer = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
    version = _GO_VERSION.search(answer)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST_GO:
        raise ControlPlaneError(f"the testbed needs Go 1.21 or newer, {found} says {answer.strip() or 'nothing'!r}")
    return Path(found)


def ensure_program(name: str, version: Version | None = None) -> Path:
    """Path of the program, built now if it is not in the cache. Minutes when cold, microseconds when warm.

    Raises ControlPlaneError; an interrupted build leaves nothing that looks finished.
    """
    program = _known(name)
    chosen = version or program.default_version
    root = cache_directory()
    target = program_path(name, chosen)
    if target.exists():
        return target
    go = find_go()
    with locked(root, f"{program.module}-{chosen}"):
        if not target.exists():
            _build(go, program, chosen, target)
    return target


def ensure_asset(name: str) -> Path:
    """Directory with the files of a module's source tree, copied there once; raises as `ensure_program`."""
    if name not in _FILES:
        raise ValueError(f"{name!r} is not an asset of the testbed; there are: {', '.join(_FILES)}")
    asset = _FILES[name]
    root = cache_directory()
    target = root / "assets" / f"{name}-{asset.default_version}"
    if target.exists():
        return target
    go = find_go()
    with locked(root, f"{asset.module}-{asset.default_version}"):
        if not target.exists():
            _copy(go, asset, target)
    return target


def ensure_all(names: Sequence[str], *, version: Version | None = None) -> dict[str, Path]:
    """Build `names` one after the other (Go uses all cores for each) and return name → path.

    `version` replaces the default version of Kubernetes' own programs only.
    """
    return {name: ensure_program(name, version if _known(name).stamp is not None else None) for name in names}


def _known(name: str) -> Program:
    if name not in PROGRAMS:
        raise ValueError(f"{name!r} is not a program of the testbed; there are: {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


@contextmanager
def locked(root: Path, key: str) -> Iterator[None]:
    """Hold the lock of `key`, such as a module at a version; it is given back even if this process is killed."""
    locks = root / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / key.replace("/", "_")).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _go_environment() -> dict[str, str]:
    # -mod=mod lets Go complete our go.mod; a workspace file of the user's must not take part
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false", "GOWORK": "off"}


def _download(go: Path, module: str, version: Version, *, directory: Path) -> dict[str, str]:
    """What `go mod download -json` says: `Dir` is the source tree, `GoMod` its go.mod."""
    command = [str(go), "mod", "download", "-json", f"{module}@v{version}"]
    done = subprocess.run(command, cwd=directory, env=_go_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def _build(go: Path, program: Program, version: Version, target: Path) -> None:
    label = f"{program.name} {version}"
    began_s = time.monotonic()
    say(f"build {label} …")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent.parent) as place:
        work = Path(place)
        module = _download(go, program.module, version, directory=work)
        upstream = Path(module["GoMod"]).read_text()
        (work / "go.mod").write_text(go_mod(program, version, upstream=upstream))
        if program.pins_kubernetes:  # its checksums cover what it pins, which the checksum database need not know
            shutil.copy(Path(module["Dir"]) / "go.sum", work / "go.sum")
        if (lacking := program.completed) is not None:  # a copy, for Go keeps modules read-only, and what it lacks
            source = Path(_download(go, lacking.module, lacking.version, directory=work)["Dir"])
            file = shutil.copytree(source, work / COPY, copy_function=shutil.copyfile) / lacking.file
            file.parent.chmod(0o755)
            file.write_text(lacking.source)
        out = work / "program"
        flags = ["-trimpath", "-ldflags", linker_flags(program, version), "-o", str(out)]
        _run(go, ["build", *flags, program.package], work)
        out.rename(target)
    say(f"built {label} in {time.monotonic() - began_s:.0f} s")


def _copy(go: Path, asset: Asset, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="assets-", dir=target.parent.parent) as place:
        work = Path(place)
        source = Path(_download(go, asset.module, asset.default_version, directory=work)["Dir"])
        copies = work / "files"
        copies.mkdir()
        for path, name in asset.files.items():
            (copies / name).write_bytes((source / path).read_bytes())
        copies.rename(target)


def _run(go: Path, arguments: Sequence[str], directory: Path) -> None:
    command = [str(go), *arguments]
    done = subprocess.run(command, cwd=directory, env=_go_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-_OUTPUT_LINES:])
        raise ControlPlaneError(f"{' '.join(command)} failed:\n{tail}")
