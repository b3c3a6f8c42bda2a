"""What `make cluster` tells and leaves to the person in front of it."""

import socket
import subprocess
from pathlib import Path

import pytest

from extender.settings.settings import Settings
from lab.testbed.demo import MESH, SHELL_FILE, check_port, settings, what_to_try
from lab.testbed.errors import ControlPlaneError
from lab.testbed.parts.service import ROOT
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.shell import from_here, shell_file

URL = "http://127.0.0.1:8888"


def sourced(path: Path, asked: str) -> str:
    script = f"source {path} && {asked}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    return done.stdout.strip()


def test_one_line_makes_a_terminal_the_clusters(tmp_path: Path) -> None:
    own = tmp_path / "with a blank"
    own.mkdir()
    variables = {"KUBECONFIG": "/of this/cluster", "NETGANG_URL": URL}
    with shell_file(tmp_path / "deeper" / "cluster.env", directory=own, variables=variables) as path:
        assert sourced(path, 'echo "$KUBECONFIG|$NETGANG_URL"') == f"/of this/cluster|{URL}"
        assert sourced(path, 'echo "$KUBECACHEDIR"') == str(own / "kubectl-cache")
        assert sourced(path, "command -v netgang ls") == f"{own / 'bin' / 'netgang'}\n/bin/ls"
        assert (own / "bin" / "kubectl").is_symlink()


def test_the_file_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "build" / "cluster.env"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with shell_file(path, directory=tmp_path / "first", variables={}):
        assert path.exists()
    assert not path.parent.exists()
    with shell_file(path, directory=tmp_path / "second", variables={}):
        path.write_text("of a later cluster")
    assert path.read_text() == "of a later cluster"


def test_a_taken_port_is_said_before_anything_is_built() -> None:
    (port,) = free_ports(1)
    check_port(port)
    with (
        socket.create_server((LOOPBACK, port)),
        pytest.raises(ControlPlaneError, match=f"port {port} is taken") as said,
    ):
        check_port(port)
    assert "`make run`" in str(said.value)
    assert f"testbed up --port {port + 1}" in str(said.value)


@pytest.mark.parametrize("reports_port", [None, 8891])
def test_the_mesh_gives_way_to_agents_and_never_fades_without_them(reports_port: int | None) -> None:
    """Throughput, which agents do not measure, stays in either case."""
    found = Settings.model_validate(settings(MESH, reports_port=reports_port))
    soft, hard = found.network.soft_ttl(), found.network.hard_ttl()
    assert found.probe.enabled is (reports_port is not None)
    assert [(soft.of(one), hard.of(one)) for one in ("loss", "delay")] == [
        (60.0, 300.0) if found.probe.enabled else (None, None)
    ] * 2
    assert (soft.throughput, hard.throughput) == (None, None)


def test_paths_are_as_one_would_type_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    assert from_here(SHELL_FILE) == "build/cluster.env"
    monkeypatch.chdir(tmp_path)
    assert from_here(SHELL_FILE) == str(SHELL_FILE)


def test_without_netgang_only_the_cluster_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    logs = Path("/logs")
    assert "  kubectl apply -f examples/case1.yaml " in what_to_try(URL, logs=logs)
    assert f"{URL}/docs" in what_to_try(URL, logs=logs)
    assert not any(word in what_to_try(None, logs=logs) for word in ("apply", "explain", "http"))
