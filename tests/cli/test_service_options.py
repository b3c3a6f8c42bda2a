"""How commands find a netgang: by address, or by the Service's proxy of the API server."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.service_options import KUBECTL
from tests.cli.world import problem, refused, run
from tests.fakes.api_proxy import TOKEN, ApiProxy, kubeconfig
from tests.fakes.raw_http import RawServer, ok

QUEUE = {"at_s": 10.0, "order": "weight", "counts": {"WAITING": 0}, "gangs": []}
SOLO = "no gang, job or pod team-a/solo is known"
ANSWERS = {
    "/v1/queue": ok(json.dumps(QUEUE).encode()),
    "/v1/explain/team-a/solo": ok(problem(HTTPStatus.NOT_FOUND, SOLO).content, status=404),
    "/v1/jobs?limit=1000": ok(problem(HTTPStatus.FORBIDDEN, "ann may not get /v1/jobs").content, status=403),
}
PORT = 8889


@pytest.fixture
def netgang() -> Iterator[RawServer]:
    with RawServer(ANSWERS) as server:
        yield server


@pytest.fixture
def site(netgang: RawServer) -> Iterator[ApiProxy]:
    with ApiProxy({PORT: netgang.port}) as server:
        yield server


@pytest.fixture
def access(site: ApiProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "NETGANG_URL", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return kubeconfig(tmp_path, site.url, namespace="team-a")


def done(*arguments: object, **how: Any) -> str:
    result = run(*arguments, **how)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_proxy_leads_there(access: Path, netgang: RawServer, site: ApiProxy, tmp_path: Path) -> None:
    """The person's credentials go no further than the API server."""
    assert json.loads(done("queue", "--json", "--kubeconfig", access)) == QUEUE
    by_tls = "GET /api/v1/namespaces/netgang-system/services/https:netgang:8889/proxy/v1/queue"
    assert site.asked == [by_tls]
    site.tls = False
    assert json.loads(done("queue", "--json", "--kubeconfig", access)) == QUEUE
    assert site.asked == [by_tls, by_tls, by_tls.replace("https:", "")]
    refused("queue", "--kubeconfig", access, "--service", "netgang-system/https:netgang", code=1)
    assert site.asked[3:] == [by_tls], "who asks for TLS is not answered without"
    assert not [head for head in netgang.requests if "authorization" in head.lower() or TOKEN in head]
    assert "ann may not get /v1/jobs" in refused("jobs", "--kubeconfig", access, code=1)
    old = kubeconfig(tmp_path, site.url, token="old")
    assert "answered 401: Unauthorized; your credentials are not valid" in refused("queue", "--kubeconfig", old, code=1)
    assert "ClusterRole cluster-admin" in refused("uninstall", "--kubeconfig", old, code=2)
    gone = kubeconfig(tmp_path, "http://127.0.0.1:9")
    assert "does the cluster's API server answer there?" in refused("doctor", "--kubeconfig", gone, code=2)


REFUSALS = {  # case: (what the person may not do, arguments, exit code, part of what is said)
    "no right to the proxy": ("services/proxy", ("--context", "site"), 1, "--role=netgang-service-proxy"),
    "no such port": ("", ("--service", "netgang-system/https:netgang:1"), 1, "no service port 1 found"),
    "two ways": ("", ("--url", "http://127.0.0.1:1", "--context", "site"), 2, "--url and --context: name one of them"),
    "no such context": ("", ("--context", "other"), 2, "no context 'other'; there are site"),
    "no service": ("", ("--service", "netgang"), 2, "write NAMESPACE/NAME"),
}


@pytest.mark.parametrize(("denied", "arguments", "code", "said"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_who_refused(
    denied: str, arguments: tuple[str, ...], code: int, said: str, site: ApiProxy, access: Path
) -> None:
    site.denied.add(denied)
    assert said in refused("queue", *arguments, env={"KUBECONFIG": str(access)}, code=code)


def test_the_environment_names_an_address(netgang: RawServer, access: Path) -> None:
    assert "no gangs" in done("queue", env={"NETGANG_URL": netgang.url})
    assert "no gangs" in done("queue", "--kubeconfig", access, env={"NETGANG_URL": "http://127.0.0.1:9"})
    assert "does netgang run there?" in refused("queue", env={"NETGANG_URL": "http://127.0.0.1:9"}, code=1)


def test_what_is_wrong_with_an_address_is_said() -> None:
    with RawServer({}, tls=True) as guarded:
        assert "the certificate has ended, or is of" in refused("queue", "--url", guarded.url, code=1)


def test_kubeconfigs_are_found_as_kubectl_does(access: Path, site: ApiProxy, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("{}")
    done("queue", "--context", "site", env={"KUBECONFIG": f"{tmp_path}/none:{empty}:{access}"})
    assert "does not exist" in refused("queue", program=KUBECTL)
    (tmp_path / "home/.kube").mkdir(parents=True)
    access.rename(tmp_path / "home/.kube/config")
    done("queue", program=KUBECTL)


def test_kubectls_plugin_asks_the_cluster_and_its_namespace(access: Path, netgang: RawServer, site: ApiProxy) -> None:
    env = {"KUBECONFIG": str(access)}
    assert refused("explain", "solo", program=KUBECTL, env=env) == f"error: {SOLO}\n"
    assert site.asked
    assert SOLO in refused("explain", "team-a/solo", "-n", "team-a", "--url", netgang.url)
    assert "no NAMESPACE/NAME" in refused("explain", "solo", "--url", netgang.url)
    before = len(site.asked)
    done("queue", "--url", netgang.url, program=KUBECTL, env=env)
    assert len(site.asked) == before


COMMANDS = {  # path: command
    "/v1/network/n1/n2": ("network", "n1", "n2"),
    "/v1/queue": ("queue",),
    "/v1/explain/a/c": ("explain", "a/c"),
    "/v1/network?limit=100": ("network",),
    "/v1/jobs?limit=1000": ("jobs",),
}
STRANGE = [(200, b""), (200, b"{}"), (200, b"<html>"), (200, b"[" * 99_999), (404, b"<html>"), (500, b"\xff")]


@pytest.mark.parametrize("path", COMMANDS)
@pytest.mark.parametrize(("status", "body"), STRANGE, ids=range(len(STRANGE)))
def test_something_else_answers(path: str, body: bytes, status: int) -> None:
    said = refused(*COMMANDS[path], told={path: httpx.Response(status, content=body)}, code=1)
    assert f"{path.partition('?')[0]}: " in said
    assert "not what netgang answers" in said or f"status {status}" in said
