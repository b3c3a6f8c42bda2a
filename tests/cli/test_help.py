"""Every command says what it is for, with an example and its exit codes; and it can be completed, by kubectl too."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from cli import kubectl as cli_kubectl
from cli.main import app
from lab.testbed.programs.build import program_path
from tests.fakes.api_proxy import ApiProxy
from tests.fakes.raw_http import RawServer, ok
from tests.liveness import LIVENESS_S

PRINTS_NOTHING = {"serve", "demo", "probe", "simulate"}  # run until they are stopped; the simulator has its own options


def _commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for each, one in below.items():
        yield from _commands(one, f"{name} {each}".strip())


COMMANDS = dict(_commands(get_command(app)))


def test_the_commands_are_those_that_are_promised() -> None:
    """A new one is entered here and in docs/how-to/cli.md."""
    assert set(COMMANDS) == {
        *("serve", "demo", "explain", "what-if", "plan", "queue", "jobs", "scores", "network show"),
        *("simulate", "check-config", "doctor", "uninstall", "probe"),
    }
    text = (Path(__file__).parents[2] / "docs/how-to/cli.md").read_text()
    assert [name for name in COMMANDS if f"netgang {name}" not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_the_exit_codes(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "Example: " in result.stdout
    assert "Exit code: 0 " in result.stdout
    assert all(one.help for one in COMMANDS[name].params)


@pytest.mark.parametrize("group", ["", "network"])
def test_help_of_a_group_has_an_example_and_its_commands(group: str) -> None:
    """As paragraphs, which a narrow terminal breaks anywhere: a line break of the source is none there."""
    said = CliRunner().invoke(app, [*group.split(), "--help"], env={"COLUMNS": "200"}).stdout
    assert "Example: netgang " in said
    inside = [name.removeprefix(group).split()[0] for name in COMMANDS if name.startswith(group)]
    assert [name for name in inside if name not in said] == []
    assert not any("\n" in paragraph for one in COMMANDS.values() for paragraph in (one.help or "").split("\n\n"))


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - PRINTS_NOTHING))
def test_whatever_prints_prints_json_too(name: str) -> None:
    assert any("--json" in one.opts for one in COMMANDS[name].params)


ASKING = ("queue", "explain", "what-if", "jobs", "scores", "network show")


@pytest.mark.parametrize("name", ASKING)
def test_commands_that_ask_a_service_find_it_the_same_way(name: str) -> None:
    found = {option for one in COMMANDS[name].params for option in one.opts}
    ways = ("--kubeconfig", "--context", "--service", "--through")
    assert {"--url", "--server", "--token-file", "--ca-file", *ways} <= found


COMPLETED = {  # case: (words, beginnings of lines)
    "a command": (("expl",), ["explain\t", ":4"]),
    "an option": (("queue", "--wa"), ["--watch\t", ":4"]),
    "a value": (("queue", "--state", "star"), ["starving", ":4"]),
    "a file perhaps": (("plan", ""), [":0"]),
    "a group": (("network", "s"), ["show\t", ":4"]),
    "quotes are only text": (("explain", "a'b"), [":0"]),
}


@pytest.mark.parametrize(("words", "wanted"), COMPLETED.values(), ids=COMPLETED)
def test_completion_as_kubectl_reads_it(
    words: tuple[str, ...], wanted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each, then whether files may be offered too."""
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-netgang", *words])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    cli_kubectl.complete()
    found = capsys.readouterr().out.splitlines()
    assert len(found) == len(wanted)
    assert all(line.startswith(begun) for line, begun in zip(found, wanted, strict=True)), found


def test_kubectl_runs_it(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or str(program_path("kubectl"))
    if not Path(kubectl).exists():
        pytest.skip("no kubectl: install it, or run `make cluster` once; the plugin is NOT checked")
    program = tmp_path / "kubectl-netgang"
    program.write_text(f"#!{sys.executable}\nfrom cli.kubectl import main\n\nmain()\n")
    program.chmod(0o755)
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "gangs": [], "shares": []}
    with RawServer({"/v1/queue": ok(json.dumps(queue).encode())}) as server, ApiProxy({8889: server.port}) as site:
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(site.kubeconfig(tmp_path))}
        command = [kubectl, "netgang", "queue", "--json"]
        done = subprocess.run(command, env=env, cwd=Path(__file__).parents[2], capture_output=True, timeout=LIVENESS_S)
        assert json.loads(done.stdout) == queue, done.stderr
        assert any("/portforward" in one for one in site.asked)


def test_the_installed_programs_are_these() -> None:
    import tomllib

    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-netgang"] == "cli.kubectl:main"
    assert scripts["kubectl_complete-netgang"] == "cli.kubectl:complete"
    assert isinstance(app, typer.Typer)
