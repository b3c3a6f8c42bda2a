"""The real archives: how they are fetched, once, and what is said where they cannot be. Package managers are played."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.testbed.__main__ import app
from lab.testbed.errors import FetchFailed
from lab.testbed.programs import archives
from lab.testbed.programs.archives import OPENSEARCH, Ended
from tests.testbed.test_build import Heard, go

__all__ = ["go"]  # a fixture

DEB = "prometheus_2.42.0+ds-5+deb12u1_amd64.deb"
UNPACKED = "prometheus-2.42.0+ds-5+deb12u1"


@dataclass
class Machine:
    """A computer with some package managers, of which each fails as often as it is told to."""

    programs: Sequence[str] = ("mvn", "javac", "apt-get", "dpkg")
    failing: dict[str, Sequence[str]] = field(default_factory=dict)  # verb → what it says each time it fails first
    ran: list[list[str]] = field(default_factory=list)
    empty: bool = False  # whether packages have nothing in them

    def find(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def run(self, command: Sequence[str], *, directory: Path) -> Ended:
        self.ran.append(list(command))
        verb = next(verb for verb in ("mvn", "update", "download", "dpkg") if verb in command)
        complaints = list(self.failing.get(verb, ()))
        if complaints:
            self.failing[verb] = complaints[1:]
            return Ended(1, complaints[0])
        if verb == "mvn":
            place = next(Path(one.partition("=")[2]) for one in command if one.startswith("-DoutputDirectory="))
            self._write(place / f"opensearch-{OPENSEARCH}.jar")
        elif verb == "download":
            (directory / DEB).write_text("package")
        elif verb == "dpkg":
            self._write(Path(command[-1]) / "usr" / "bin" / "prometheus")
        return Ended(0, "")

    def _write(self, path: Path) -> None:
        path.parent.mkdir(parents=True)
        if not self.empty:
            path.write_text("program")

    def count(self, verb: str) -> int:
        return sum(verb in command for command in self.ran)


FETCHED: dict[str, tuple[str, str]] = {  # archive → (directory, file in it)
    "opensearch": (f"opensearch-{OPENSEARCH}", f"opensearch-{OPENSEARCH}.jar"),
    "prometheus": (UNPACKED, "usr/bin/prometheus"),
}


@pytest.mark.parametrize("name", FETCHED)
def test_fetched_once_and_reported(name: str, tmp_path: Path) -> None:
    machine, heard = Machine(), Heard()
    directory, file = FETCHED[name]
    assert archives.why_missing(name, root=tmp_path) == f"no {name} in {tmp_path}: `make archives` fetches it"
    first = archives.ensure(name, root=tmp_path, runner=machine, reporter=heard)
    commands = len(machine.ran)
    second = archives.ensure(name, root=tmp_path, runner=machine, reporter=heard)

    assert first == second == archives.find(name, root=tmp_path) == tmp_path / directory
    assert (first / file).read_text() == "program"
    assert len(machine.ran) == commands
    assert [line.split()[:2] for line in heard.lines] == [["start", name], ["end", name]]
    assert archives.why_missing(name, root=tmp_path) is None
    assert not list(tmp_path.glob("fetch-*"))


def test_the_whole_command_of_maven_is_fixed(tmp_path: Path) -> None:
    machine = Machine()
    archives.ensure("opensearch", root=tmp_path, runner=machine)
    [command] = machine.ran
    assert "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies" in command
    assert command[command.index("-f") + 1] == str(archives.POM)
    pom = archives.POM.read_text()
    assert pom.count("<version>") == 1 + pom.count("<dependency>") == 4  # the project's own, and each dependency's
    assert f"<artifactId>opensearch</artifactId><version>{OPENSEARCH}</version>" in pom


def test_parallel_requests_fetch_once(tmp_path: Path) -> None:
    machine = Machine()
    with ThreadPoolExecutor(4) as pool:
        places = set(pool.map(lambda _: archives.ensure("opensearch", root=tmp_path, runner=machine), range(4)))
    assert places == {tmp_path / f"opensearch-{OPENSEARCH}"}
    assert machine.count("mvn") == 1


def test_another_version_is_another_directory(tmp_path: Path) -> None:
    for name in ("opensearch-1.0.0", "prometheus-2.31", UNPACKED):
        (tmp_path / name).mkdir()
    assert archives.find("opensearch", root=tmp_path) is None
    assert archives.find("prometheus", root=tmp_path) == tmp_path / UNPACKED
    archives.ensure("opensearch", root=tmp_path, runner=Machine())
    assert (tmp_path / "opensearch-1.0.0").exists()


def test_missing_or_old_package_lists_are_made_anew(tmp_path: Path) -> None:
    machine = Machine(failing={"download": ["E: Unable to locate package prometheus"]})
    assert archives.ensure("prometheus", root=tmp_path, runner=machine).name == UNPACKED
    [update] = [command for command in machine.ran if "update" in command]
    assert any(option.startswith(f"Dir::State::Lists={tmp_path}") for option in update)
    assert machine.count("download") == 2


REFUSED: dict[str, tuple[str, Machine, str]] = {  # case: (archive, machine, the whole message)
    "no maven": (
        "opensearch",
        Machine(programs=["javac"]),
        r"OpenSearch needs mvn: apt-get install maven default-jdk-headless, or .*",
    ),
    "neither maven nor java": (
        "opensearch",
        Machine(programs=[]),
        r"OpenSearch needs mvn and javac: apt-get install .*",
    ),
    "no network for maven": (
        "opensearch",
        Machine(failing={"mvn": ["[ERROR] Could not transfer: Unknown host\n[ERROR] more\n"]}),
        r"Maven could not fetch OpenSearch \(Could not transfer: Unknown host\): let it reach .*",
    ),
    "an empty package": (
        "opensearch",
        Machine(empty=True),
        r"what was fetched as opensearch .* has no opensearch-.*\.jar: is .*cache broken\?",
    ),
    "neither apt-get nor Go": (
        "prometheus",
        Machine(programs=[]),
        r"Prometheus neither as a Debian package \(no apt-get and no dpkg\) nor from its Go module \(.*install Go.*\)",
    ),
    "no network for apt-get, and no Go": (
        "prometheus",
        Machine(failing={"download": ["Err:1\nE: Failed to fetch"] * 2, "update": ["W: away"]}),
        r"Prometheus neither as a Debian package \(apt-get: Failed to fetch\) nor .* \(.*install Go.*\)",
    ),
    "a broken package, and no Go": (
        "prometheus",
        Machine(failing={"dpkg": ["dpkg-deb: error: unexpected end of file"]}),
        r"Prometheus neither as a Debian package \(dpkg: dpkg-deb: error: unexpected end of file\) nor .*",
    ),
}


@pytest.mark.parametrize(("name", "machine", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_missing_is_said_in_one_line(
    name: str, machine: Machine, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("NETGANG_TESTBED_CACHE", str(tmp_path / "testbed"))
    root = tmp_path / "archives"
    with pytest.raises(FetchFailed, match=f"^{message}$") as refused:
        archives.ensure(name, root=root, runner=machine)
    assert "\n" not in str(refused.value)
    assert not [path for path in root.iterdir() if path.name.startswith((name, "fetch-"))]
    assert archives.why_missing(name, root=root) == f"no {name} in {root}: {refused.value}; then `make archives`"


def test_a_later_fetch_makes_good(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed):
        archives.ensure("opensearch", root=tmp_path, runner=Machine(programs=[]))
    place = archives.ensure("opensearch", root=tmp_path, runner=Machine())
    place.rename(tmp_path / "elsewhere")
    assert (
        archives.why_missing("opensearch", root=tmp_path) == f"no opensearch in {tmp_path}: `make archives` fetches it"
    )


def test_prometheus_is_built_where_there_is_no_package(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETGANG_TESTBED_CACHE", str(tmp_path / "testbed"))
    machine = Machine(programs=["dpkg"])
    place = archives.ensure("prometheus", root=tmp_path / "archives", runner=machine)
    assert place == tmp_path / "archives" / "prometheus-go0.42.0"
    assert (place / "usr" / "bin" / "prometheus").read_text() == "program\n"
    assert machine.ran == []


def test_an_unknown_name_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are: opensearch, prometheus"):
        archives.ensure("influxdb", root=tmp_path)


def test_commands_run_without_a_terminal(tmp_path: Path) -> None:
    shell = archives.Shell()
    assert shell.find("sh") is not None
    assert shell.find("no-such-program") is None
    assert shell.run(["sh", "-c", "cat; echo out; echo err >&2; exit 3"], directory=tmp_path) == Ended(3, "out\nerr\n")


def test_a_command_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that swallows packets costs the limit, not the day."""
    monkeypatch.setattr(archives, "LIMIT_S", 0.2)
    ended = archives.Shell().run(["sleep", "60"], directory=tmp_path)
    assert ended.code != 0
    assert "no end after 0.2 s" in ended.output


COMMANDS: dict[str, tuple[list[str], int]] = {  # case: (arguments, exit code)
    "by itself it fails": (["archives"], 1),
    "before tests it does not": (["archives", "--optional"], 0),
}


@pytest.mark.parametrize(("arguments", "code"), COMMANDS.values(), ids=COMMANDS)
def test_the_command_says_what_is_missing(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NETGANG_TESTBED_CACHE", raising=False)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code
    lines = [line for line in done.output.splitlines() if line.startswith("no ")]
    assert [line.split()[1].rstrip(",") for line in lines] == ["opensearch", "prometheus", "chromium"]
    assert "apt-get install maven" in lines[0]


def test_the_command_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = tmp_path / "programs" / "chromium"
    browser.parent.mkdir()
    browser.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(browser.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places = [tmp_path / "netgang" / "archives" / directory for directory, _ in FETCHED.values()]
    for place in places:
        place.mkdir(parents=True)
    done = CliRunner().invoke(app, ["archives"])
    assert done.exit_code == 0
    there = dict(zip((*FETCHED, "chromium"), (*places, browser), strict=True))
    assert done.output.splitlines() == [f"{name}: {place}" for name, place in there.items()]
