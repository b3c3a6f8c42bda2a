"""Fetch what some tests run against: the real OpenSearch and Prometheus, and a browser.

Why: netgang's queries are only proven by the servers that answer them, and a fresh machine must be able to have these
without a container. Rule: an archive appears in the cache as `archives/NAME-VERSION` by one rename, under a lock, so a
directory that is there is complete; tests never fetch. What cannot be had is said in one line.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from lab.testbed.errors import ControlPlaneError
from lab.testbed.programs.build import locked, say, user_cache

OPENSEARCH = "2.19.4"
"""The version of OpenSearch that `POM` asks for."""
POM = Path(__file__).parents[3] / "tests" / "fixtures" / "opensearch" / "pom.xml"
LIMIT_S = 900.0
"""For one command; a cold Maven repository takes half a minute, a server that swallows packets without end."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_COMPLAINT = re.compile(r"^(?:\[ERROR\]|E:)\s*(?P<words>\S.*)$", re.MULTILINE)
_BROWSER = "apt-get -q -y --no-install-recommends install chromium fonts-dejavu-core"


VERSIONS = {"opensearch": OPENSEARCH, "prometheus": "*"}
"""Archive → which version is wanted; `*`: whichever the distribution has"""
_PROOFS = {"opensearch": f"opensearch-{OPENSEARCH}.jar", "prometheus": "usr/bin/prometheus"}
"""Archive → the file without which it cannot run"""


def find(name: str) -> Path | None:
    """The directory of an archive; of several versions the one whose name is last. `None`: it was not fetched."""
    there = sorted(_directory().glob(f"{name}-{VERSIONS[name]}"))
    return there[-1] if there else None


def why_missing(name: str) -> str | None:
    """One line on how to get an archive that is not there; `None`: it is there."""
    return None if find(name) else f"no {name} in {_directory()}: `make archives` fetches it, or says why not"


def ensure(name: str) -> Path:
    """Directory of an archive, fetched now if it is not there: half a minute when cold; a failure leaves nothing."""
    place = _directory()
    with locked(place, name), tempfile.TemporaryDirectory(prefix="fetch-", dir=place) as scratch:
        if (there := find(name)) is not None:
            return there
        began_s, work = time.monotonic(), Path(scratch)
        say(f"fetch {name} …")
        target = place / f"{name}-{_FETCH[name](work)}"
        if not (work / "files" / _PROOFS[name]).exists():
            raise ControlPlaneError(f"what was fetched as {name} has no {_PROOFS[name]}")
        (work / "files").rename(target)
        say(f"fetched {name} in {time.monotonic() - began_s:.0f} s")
        return target


def ensure_browser() -> str:
    """Path of Chromium; root gets it installed now if it is not there (a minute). Errors: ControlPlaneError."""
    if shutil.which("chromium") is None:
        if os.geteuid() != 0:
            raise ControlPlaneError(f"no chromium, and only root may install it: {_BROWSER}")
        say("fetch chromium …")
        for command in ("apt-get -q update", _BROWSER):
            _run(*command.split(), directory=Path.cwd())
    return shutil.which("chromium") or "chromium"


def _opensearch(work: Path) -> str:
    """The node's jars from Maven Central, at the versions of `POM`; those of its security plugin beside them."""
    _run("mvn", "-B", "-q", "-f", str(POM), _COPY, f"-DoutputDirectory={work / 'files'}", directory=work)
    (plugin,) = (work / "files").glob("opensearch-security-*.zip")
    shutil.unpack_archive(plugin, work / "files" / "security")
    plugin.unlink()
    return OPENSEARCH


def _prometheus(work: Path) -> str:
    """Debian's package, unpacked."""
    try:
        _run("apt-get", "-q", "download", "prometheus", directory=work)
    except ControlPlaneError:  # the lists of packages are missing or old
        _run("apt-get", "-q", "update", directory=work)
        _run("apt-get", "-q", "download", "prometheus", directory=work)
    (package,) = work.glob("prometheus_*.deb")
    _run("dpkg", "-x", package.name, str(work / "files"), directory=work)
    return package.name.split("_")[1]


def _run(*command: str, directory: Path) -> None:
    """Run to the end without a terminal; ControlPlaneError with the first complaint, on one line."""
    nothing, to, both = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    try:
        done = subprocess.run(
            command, cwd=directory, stdin=nothing, stdout=to, stderr=both, text=True, errors="replace", timeout=LIMIT_S
        )
    except (subprocess.TimeoutExpired, OSError) as failed:
        raise ControlPlaneError(f"{command[0]}: {failed}") from failed
    if done.returncode != 0:
        said = _COMPLAINT.search(done.stdout)
        words = said["words"] if said else (done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ControlPlaneError(f"{command[0]}: {words.strip()[:300]}")


def _directory() -> Path:
    return user_cache() / "archives"


_FETCH = {"opensearch": _opensearch, "prometheus": _prometheus}
