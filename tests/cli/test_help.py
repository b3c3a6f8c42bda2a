"""Every command says what it is for, with an example and its exit codes; kubectl runs it, too."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cli.main import app
from lab.testbed.programs.build import program_path
from tests.fakes.api_proxy import ApiProxy, kubeconfig
from tests.fakes.raw_http import RawServer, ok
from tests.liveness import LIVENESS_S

PRINTS_NOTHING = {"serve", "demo", "simulate"}  # run until they are stopped; the simulator has its own options


COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def test_the_commands_are_those_that_are_promised() -> None:
    """A new one is entered here and in docs/how-to/cli.md."""
    assert set(COMMANDS) == {
        *("queue", "explain", "jobs", "network", "plan", "what-if"),
        *("demo", "serve", "simulate", "doctor", "uninstall"),
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


def test_help_has_an_example_and_the_commands() -> None:
    """As paragraphs, which a narrow terminal breaks anywhere: a line break of the source is none there."""
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert "Example: netgang " in said
    assert [name for name in COMMANDS if name not in said] == []
    assert not any("\n" in paragraph for one in COMMANDS.values() for paragraph in (one.help or "").split("\n\n"))


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - PRINTS_NOTHING))
def test_commands_share_their_options(name: str) -> None:
    """Whatever prints prints JSON, too; those that ask a service find it the same way."""
    options = {option for one in COMMANDS[name].params for option in one.opts}
    assert "--json" in options
    if name in ("queue", "explain", "what-if", "jobs", "network"):
        assert {"--url", "--kubeconfig", "--context", "--service"} <= options


def test_kubectl_runs_it(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or str(program_path("kubectl"))
    if not Path(kubectl).exists():
        pytest.skip("no kubectl: install it, or run `make cluster` once; the plugin is NOT checked")
    program = tmp_path / "kubectl-netgang"
    program.write_text(f"#!{sys.executable}\nfrom cli.main import kubectl\n\nkubectl()\n")
    program.chmod(0o755)
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "gangs": [], "shares": []}
    with RawServer({"/v1/queue": ok(json.dumps(queue).encode())}) as server, ApiProxy({8889: server.port}) as site:
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig(tmp_path, site.url))}
        command = [kubectl, "netgang", "queue", "--json"]
        done = subprocess.run(command, env=env, cwd=Path(__file__).parents[2], capture_output=True, timeout=LIVENESS_S)
        assert json.loads(done.stdout) == queue, done.stderr
        assert any("/services/netgang:8889/proxy/v1/queue" in one for one in site.asked)


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("--nonsense", 2)])
def test_a_command_ends_before_the_interpreter_does(argument: str, code: int) -> None:
    """pyreqwest's thread would abort the process in 3 of 100 short commands."""
    last = "last = type('Last', (), {'__del__': lambda self: print('interpreter ended')})()"
    command = [sys.executable, "-c", f"from cli.main import main; {last}; main()", argument]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=LIVENESS_S)
    assert (b"interpreter ended" in done.stdout, done.returncode) == (False, code)


def test_the_installed_programs_are_these() -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert (scripts["kubectl-netgang"], scripts["netgang-probe"]) == ("cli.main:kubectl", "probe.__main__:main")
