"""How commands find a netgang: by address, by port-forward, by the Service's proxy; what each must not give away."""

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from cli.service_options import KUBECTL
from extender.api.problems import problem_body
from tests.cli.world import refused, run, served
from tests.fakes.api_proxy import TOKEN, ApiProxy
from tests.fakes.raw_http import CERTIFICATE, RawServer, ok

QUEUE = {"at_s": 10.0, "order": "weight", "counts": {"WAITING": 0}, "gangs": [], "shares": []}
PLACE = {"name": "team-a/solo", "uid": "u", "own": True, "node": None, "planned": None}
EXPLAINED = {"pod": {**PLACE, "prioritize": {"nodes": [], "of": 0}}}
ANSWERS = {
    "/v1/queue": served(QUEUE),
    "/v1/explain/team-a/solo": served(EXPLAINED),
    "/v1/jobs?limit=200": ok(problem_body(HTTPStatus.FORBIDDEN, "ann may not get /v1/jobs"), status=403),
    "/v1/what-if": ok(problem_body(HTTPStatus.UNAUTHORIZED, "show a token"), status=401),
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
    for name in ("KUBECONFIG", "NETGANG_URL", "NETGANG_TOKEN", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return site.kubeconfig(tmp_path, namespace="team-a")


def done(*arguments: object, **how: Any) -> str:
    result = run(*arguments, **how)
    assert result.exit_code == 0, result.output
    return result.stdout


THROUGH = ("port-forward", "service-proxy")


@pytest.mark.parametrize("through", THROUGH)
def test_both_ways_lead_there(through: str, access: Path, netgang: RawServer) -> None:
    found = json.loads(done("queue", "--json", "--kubeconfig", access, "--through", through))
    assert found == QUEUE
    assert not [head for head in netgang.requests if "authorization" in head.lower() or TOKEN in head]


@pytest.mark.parametrize("through", THROUGH)
def test_what_is_refused_is_said(through: str, access: Path, netgang: RawServer) -> None:
    said = refused("what-if", "--advance", "1s", "--kubeconfig", access, "--through", through, code=1)
    assert "status 401: show a token; give --token-file FILE or NETGANG_TOKEN" in said
    assert "ann may not get /v1/jobs" in refused("jobs", "--kubeconfig", access, "--through", through, code=1)


def test_port_forward_goes_to_the_leader_and_carries_a_token(site: ApiProxy, access: Path, netgang: RawServer) -> None:
    done("queue", "--kubeconfig", access, env={"NETGANG_TOKEN": "for-netgang"})
    assert site.asked[1:] == [f"GET /api/v1/namespaces/netgang-system/pods/netgang-a/portforward?ports={PORT}"]
    assert "authorization: Bearer for-netgang" in netgang.requests[-1]


def test_without_a_leader_any_pod_that_runs(site: ApiProxy, access: Path) -> None:
    """A single replica without leader election has no such label."""
    site.pods = [one for one in site.pods if one["metadata"]["name"] != "netgang-a"]
    done("queue", "--kubeconfig", access)
    assert "/pods/netgang-b/portforward" in site.asked[-1]


def test_a_token_is_not_given_to_the_service_proxy(site: ApiProxy, access: Path) -> None:
    """The API server would take it away, or (in another header) hand it to whoever answers: refused before asking."""
    said = refused("queue", "--kubeconfig", access, "--through", "service-proxy", env={"NETGANG_TOKEN": "x"})
    assert "carries no token" in said
    assert site.asked == []


TOKENS = {  # case: (arguments, part of what is said)
    "to another machine": (("--url", "http://netgang.example:8889"), "https:// addresses or this machine only"),
    "through an API server that encrypts nothing": (
        ("--kubeconfig", "{here}/open"),
        "http://10.0.0.1:8080: a token goes",
    ),
    "no such file": (("--token-file", "/no/such"), "--token-file /no/such: cannot be read"),
}


@pytest.mark.parametrize(("arguments", "said"), TOKENS.values(), ids=TOKENS)
def test_tokens_are_kept(arguments: tuple[str, ...], said: str, access: Path, tmp_path: Path) -> None:
    (tmp_path / "open").write_text(re.sub(r"http://[0-9.:]+", "http://10.0.0.1:8080", access.read_text()))
    given = [one.format(here=tmp_path) for one in arguments]
    assert said in refused("queue", *given, env={"NETGANG_TOKEN": "x"})


def test_certificates_are_checked_through_port_forward(access: Path, tmp_path: Path) -> None:
    with RawServer(ANSWERS, tls=True) as secure, ApiProxy({PORT: secure.port}) as site:
        kubeconfig = site.kubeconfig(tmp_path)
        wanted = ("queue", "--kubeconfig", kubeconfig, "--service", "netgang-system/https:netgang")
        assert "CERTIFICATE_VERIFY_FAILED" in refused(*wanted, code=1)
        assert "Hostname mismatch" in refused(*wanted, "--ca-file", CERTIFICATE, code=1)


REFUSALS = {  # case: (what the person may not do, arguments, part of what is said)
    "no right to forward": ("pods/portforward", (), 'answered 403: User "ann" cannot get resource "pods/portforward"'),
    "no right to see pods": ("pods", (), 'cannot get resource "pods"'),
    "no right to the proxy": ("services/proxy", ("--through", "service-proxy"), 'cannot get resource "services/proxy"'),
    "netgang does not listen there": ("", ("--service", "netgang-system/netgang:1"), "error forwarding port 1 to pod"),
    "no such Service": (
        "",
        ("--service", "netgang-system/netgang:1", "--through", "service-proxy"),
        "no service port 1",
    ),
    "no pod": ("", ("--service", "netgang-system/other"), "no pod in namespace netgang-system has label"),
}


@pytest.mark.parametrize(("denied", "more", "said"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_who_refused(denied: str, more: tuple[str, ...], said: str, site: ApiProxy, access: Path) -> None:
    site.denied.add(denied)
    assert said in refused("queue", "--kubeconfig", access, *more, code=1)


def test_bad_credentials(site: ApiProxy, tmp_path: Path, access: Path) -> None:
    """The API server's 401 is its own, and no hint at netgang's token."""
    said = refused("queue", "--kubeconfig", site.kubeconfig(tmp_path, token="old"), code=1)
    assert "answered 401: Unauthorized" in said
    assert "--token-file" not in said


WRONG = {  # case: (arguments, part of what is said)
    "two ways": (("--url", "http://127.0.0.1:1", "--context", "site"), "--url and --context: name one of them"),
    "no such way": (("--through", "magic"), "accepted: port-forward, service-proxy"),
    "no such context": (("--context", "other"), "no context 'other'; there are site"),
    "no service": (("--service", "netgang"), "write NAMESPACE/NAME"),
    "a port's name": (("--service", "a/b:debug"), "--through port-forward needs its number"),
    "no such file": (("--kubeconfig", "/no/such"), "kubeconfig /no/such: cannot be read"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_use(arguments: tuple[str, ...], said: str, access: Path) -> None:
    assert said in refused("queue", *arguments, env={"KUBECONFIG": str(access)})


def test_the_environment_names_an_address(netgang: RawServer, access: Path) -> None:
    assert "no gangs" in done("queue", env={"NETGANG_URL": netgang.url})
    assert "no gangs" in done("queue", "--kubeconfig", access, env={"NETGANG_URL": "http://127.0.0.1:9"})
    assert "does netgang run there?" in refused("queue", env={"NETGANG_URL": "http://127.0.0.1:9"}, code=1)


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
    assert "team-a/solo is a pod of no gang" in done("explain", "solo", program=KUBECTL, env=env)
    assert site.asked
    assert "team-a/solo" in done("explain", "solo", "-n", "team-a", "--url", netgang.url)
    assert "no NAMESPACE/NAME" in refused("explain", "solo", "--url", netgang.url)
    assert "name one namespace" in refused("explain", "a/solo", "-n", "b", "--url", netgang.url)
    before = len(site.asked)
    done("queue", "--url", netgang.url, program=KUBECTL, env=env)
    assert len(site.asked) == before


COMMANDS = {  # path: command
    "/v1/network/n1/n2": ("scores", "--from", "n1", "--to", "n2", "--url"),
    "/v1/queue": ("queue", "--url"),
    "/v1/network?limit=40": ("network", "show", "--url"),
    "/v1/jobs?limit=200": ("jobs", "--url"),
}


@pytest.mark.parametrize("path", COMMANDS)
@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"\xff", b"<html>", pytest.param(b"[" * 99_999, id="deep"), b'{"source":"n1","pairs":{}}'],
)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_something_else_answers(path: str, body: bytes, status: int) -> None:
    with RawServer({path: ok(body, status=status)}) as server:
        said = refused(*COMMANDS[path], server.url, code=1)
    assert f"{server.url}{path.partition('?')[0]}: " in said
    assert "not what netgang answers" in said or f"status {status}" in said
