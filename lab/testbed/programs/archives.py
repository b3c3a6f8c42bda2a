"""Fetch the real measurement archives that some tests run against: OpenSearch and Prometheus.

Why: netgang's queries are only proven by the servers that answer them, and a fresh machine must be able to have these
without root and without a container. Rule: an archive appears in the cache as `archives/NAME-VERSION` by one rename,
under a lock, so a directory that is there is complete; tests never fetch, they say why there is none. What kept a
fetch from succeeding is kept as one line beside it, for the report why a test was skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from lab.testbed.errors import ControlPlaneError, FetchFailed
from lab.testbed.programs.build import Reporter, Silent, ensure_program, locked, user_cache
from lab.testbed.programs.catalogue import PROGRAMS

ROOT = Path(__file__).parents[3]

OPENSEARCH = "2.18.0"
"""The version of OpenSearch that `POM` asks for."""
POM = ROOT / "tests" / "fixtures" / "opensearch" / "pom.xml"
LIMIT_S = 900.0
"""For one command; a cold Maven repository takes half a minute, a server that swallows packets without end."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_DEB = re.compile(r"prometheus_(?P<version>[^_]+)_[^_]+\.deb")
_COMPLAINT = re.compile(r"^(?:\[ERROR\]|E:)\s*(?P<words>\S.*)$", re.MULTILINE)
_WORDS = 300  # characters of a failed command's complaint


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and its standard output and error together."""

    code: int
    output: str


class Runner(Protocol):
    """Runs the package managers; tests have one that plays them."""

    def find(self, program: str) -> str | None:
        """Path of a program, `None` if there is none."""

    def run(self, command: Sequence[str], *, directory: Path) -> Ended:
        """Run to the end in `directory`."""


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs them on this computer."""

    def find(self, program: str) -> str | None:
        """Look in PATH."""
        return shutil.which(program)

    def run(self, command: Sequence[str], *, directory: Path) -> Ended:
        """Run without a terminal; what takes longer than `LIMIT_S` is ended and counts as failed."""
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ended(-1, f"E: no end after {LIMIT_S:g} s")
        return Ended(done.returncode, done.stdout)


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive: `fetch` fills a directory and says which version that is, or raises FetchFailed."""

    name: str
    version: str | None
    """Which one is wanted; `None`: whichever the distribution has."""
    proof: str
    """The file without which it cannot run."""
    fetch: Callable[[Runner, Path, Reporter], str]


def archive_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where archives are kept: XDG_CACHE_HOME or ~/.cache, netgang/archives."""
    return user_cache(environment) / "archives"


def find(name: str, *, root: Path | None = None) -> Path | None:
    """The directory of an archive; of several versions the one whose name is last. `None`: it was not fetched."""
    archive = _known(name)
    there = sorted((root or archive_directory()).glob(f"{name}-{archive.version or '*'}"))
    return there[-1] if there else None


def why_missing(name: str, *, root: Path | None = None) -> str | None:
    """One line on why an archive is not there and how to get it; `None`: it is there."""
    place = root or archive_directory()
    if find(name, root=place) is not None:
        return None
    try:
        kept = _note(place, name).read_text().strip()
    except FileNotFoundError:
        return f"no {name} in {place}: `make archives` fetches it"
    return f"no {name} in {place}: {kept}; then `make archives`"


def ensure(
    name: str, *, root: Path | None = None, runner: Runner | None = None, reporter: Reporter | None = None
) -> Path:
    """Directory of an archive, fetched now if it is not there. Half a minute when cold, microseconds when warm.

    Raises FetchFailed with one line that says what is missing and how to get it; nothing half done is left behind.
    """
    archive = _known(name)
    place = root or archive_directory()
    if (there := find(name, root=place)) is not None:
        return there
    with locked(place, name):
        if (there := find(name, root=place)) is not None:
            return there
        try:
            fetched = _fetch(archive, place, runner or Shell(), reporter or Silent())
        except FetchFailed as failed:
            _note(place, name).write_text(f"{failed}\n")
            raise
        _note(place, name).unlink(missing_ok=True)
        return fetched


def _known(name: str) -> Archive:
    if name not in ARCHIVES:
        raise ValueError(f"{name!r} is not an archive of the testbed; there are: {', '.join(ARCHIVES)}")
    return ARCHIVES[name]


def _note(root: Path, name: str) -> Path:
    return root / f".{name}-missing"


def _fetch(archive: Archive, root: Path, runner: Runner, reporter: Reporter) -> Path:
    label = f"{archive.name} {archive.version}" if archive.version else archive.name
    began_s = time.monotonic()
    reporter.started(label)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=root) as place:
        work = Path(place)
        version = archive.fetch(runner, work, reporter)
        if not (work / "files" / archive.proof).exists():
            raise FetchFailed(
                f"what was fetched as {label} has no {archive.proof}: is the package manager's cache broken?"
            )
        target = root / f"{archive.name}-{version}"
        (work / "files").rename(target)
    reporter.finished(label, seconds=time.monotonic() - began_s)
    return target


def _opensearch(runner: Runner, work: Path, reporter: Reporter) -> str:
    """The node's jars from Maven Central, at the versions of `POM`."""
    absent = [program for program in ("mvn", "javac") if runner.find(program) is None]
    if absent:
        how = "apt-get install maven default-jdk-headless"
        raise FetchFailed(f"OpenSearch needs {' and '.join(absent)}: {how}, or Maven and a JDK 17 otherwise")
    command = ["mvn", "-B", "-q", "-f", str(POM), _COPY, f"-DoutputDirectory={work / 'files'}"]
    ended = runner.run(command, directory=work)
    if ended.code != 0:
        raise FetchFailed(
            f"Maven could not fetch OpenSearch ({complaint(ended)}): let it reach Maven Central or a mirror"
        )
    return OPENSEARCH


def _prometheus(runner: Runner, work: Path, reporter: Reporter) -> str:
    """Debian's package, unpacked; where there is none to be had, built from its Go module."""
    absent = [program for program in ("apt-get", "dpkg") if runner.find(program) is None]
    if absent:
        package = f"no {' and no '.join(absent)}"
    else:
        try:
            return _package(runner, work)
        except FetchFailed as failed:
            package = str(failed)
    program = PROGRAMS["prometheus"]
    try:
        built = ensure_program(program.name, reporter=reporter)
    except ControlPlaneError as failed:
        first = str(failed).splitlines()[0]
        raise FetchFailed(
            f"Prometheus neither as a Debian package ({package}) nor from its Go module ({first})"
        ) from failed
    shutil.rmtree(work / "files", ignore_errors=True)
    (work / "files" / "usr" / "bin").mkdir(parents=True)
    shutil.copy2(built, work / "files" / "usr" / "bin" / "prometheus")
    return f"go{program.default_version}"


def _package(runner: Runner, work: Path) -> str:
    """Download and unpack the package by this computer's lists; if these are missing or old, by our own."""
    lists, cache = work / "lists", work / "cache"
    own = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "APT::Sandbox::User=root"]
    for directory in (lists / "partial", cache / "archives" / "partial"):
        directory.mkdir(parents=True)
    ended = Ended(-1, "")
    for options in ([], own):
        if options:
            runner.run(["apt-get", *options, "-q", "update"], directory=work)  # if it fails, so does the next line
        ended = runner.run(["apt-get", *options, "-q", "download", "prometheus"], directory=work)
        found = [match for path in sorted(work.iterdir()) if (match := _DEB.fullmatch(path.name))]
        if ended.code == 0 and found:
            break
    else:
        raise FetchFailed(f"apt-get: {complaint(ended)}")
    ended = runner.run(["dpkg", "-x", found[0].string, str(work / "files")], directory=work)
    if ended.code != 0:
        raise FetchFailed(f"dpkg: {complaint(ended)}")
    return found[0]["version"]


def complaint(ended: Ended) -> str:
    """The first complaint among the output of a failed command, on one line."""
    said = _COMPLAINT.search(ended.output)
    words = said["words"] if said else (ended.output.strip().splitlines() or [f"exit code {ended.code}"])[-1]
    return words.strip()[:_WORDS]


# name of the archive → how it is fetched
ARCHIVES: Mapping[str, Archive] = MappingProxyType(
    {
        archive.name: archive
        for archive in (
            Archive("opensearch", OPENSEARCH, f"opensearch-{OPENSEARCH}.jar", _opensearch),
            Archive("prometheus", None, "usr/bin/prometheus", _prometheus),
        )
    }
)
