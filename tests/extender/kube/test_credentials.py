"""Where the API server is and with what token, from kubeconfigs, pods and plugins; and tokens that rotate."""

import asyncio
import ssl
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.errors import ConfigError
from extender.kube.credentials import Authorization, Token, load
from tests.fakes.clock import FakeClock

CERTIFICATE = Path(__file__).parent / "authority.pem"
KubeconfigWriter = Callable[..., Path]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> KubeconfigWriter:
    """Writes a kubeconfig with one context; fields of user and cluster are given."""

    def write(
        user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None, **fields: object
    ) -> Path:
        document: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001", **(cluster or {})}}],
            "users": [{"name": "u", "user": dict(user or {})}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document | fields))
        return path

    return write


def plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    """An exec section whose plugin is this Python program."""
    program = tmp_path / "plugin.py"
    program.write_text(body)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(program)]}


def answer(status: str) -> str:
    """Program of a plugin that answers with this status and counts its runs."""
    return f"""
import json, pathlib
runs = pathlib.Path(__file__).with_suffix(".runs")
count = int(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text(str(count))
status = {status}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


async def test_a_token_in_the_kubeconfig(kubeconfig: KubeconfigWriter) -> None:
    """Server and token of the current context are used."""
    server = load(kubeconfig({"token": "abc"}), clock=FakeClock())
    assert (
        server.url,
        server.tls,
        await server.authorization.header(),
    ) == ("http://127.0.0.1:8001", None, "Bearer abc")


@pytest.mark.parametrize(("user", "header"), [({"username": "u", "password": "p"}, "Basic dTpw"), ({}, "")])
async def test_without_a_token(user: Mapping[str, str], header: str, kubeconfig: KubeconfigWriter) -> None:
    """Basic authentication, as some small clusters still have it; without credentials no header is sent."""
    assert await load(kubeconfig(user), clock=FakeClock()).authorization.header() == header


async def test_another_context_can_be_named(kubeconfig: KubeconfigWriter) -> None:
    """The named context wins over current-context."""
    path = kubeconfig(
        contexts=[
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "v"}},
        ],
        users=[{"name": "u", "user": {"token": "a"}}, {"name": "v", "user": {"token": "b"}}],
    )
    server = load(path, context="there", clock=FakeClock())
    assert await server.authorization.header() == "Bearer b"


async def test_a_token_file_is_read_again(kubeconfig: KubeconfigWriter, tmp_path: Path) -> None:
    """A rotated token file is noticed within a minute, and the file wins over a token beside it."""
    clock = FakeClock()
    (tmp_path / "token").write_text("old\n")
    server = load(kubeconfig({"tokenFile": "token", "token": "fixed"}), clock=clock)
    (tmp_path / "token").write_text("new\n")
    assert await server.authorization.header() == "Bearer old"
    clock.advance(61.0)
    assert await server.authorization.header() == "Bearer new"


async def test_a_token_file_that_vanishes_does_not_take_the_token_away(
    kubeconfig: KubeconfigWriter, tmp_path: Path
) -> None:
    """The old token stays in use while its file cannot be read, and the file is tried again."""
    clock = FakeClock()
    (tmp_path / "token").write_text("old")
    server = load(kubeconfig({"tokenFile": "token"}), clock=clock)
    (tmp_path / "token").unlink()
    clock.advance(61.0)
    assert await server.authorization.header() == "Bearer old"
    (tmp_path / "token").write_text("new")
    clock.advance(11.0)
    assert await server.authorization.header() == "Bearer new"


async def test_a_plugin_runs_again_before_its_token_expires(kubeconfig: KubeconfigWriter, tmp_path: Path) -> None:
    """A token of an exec plugin is used until shortly before its end, then the plugin runs again."""
    clock = FakeClock()
    ends = datetime.fromtimestamp(clock.now_s() + 900.0, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    exec_ = plugin(tmp_path, answer(f'{{"token": f"t{{count}}", "expirationTimestamp": "{ends}"}}'))
    server = load(kubeconfig({"exec": exec_}), clock=clock)
    clock.advance(800.0)
    assert await server.authorization.header() == "Bearer t1"
    clock.advance(41.0)
    assert await server.authorization.header() == "Bearer t2"


async def test_a_refused_token_is_renewed_once_for_all(kubeconfig: KubeconfigWriter, tmp_path: Path) -> None:
    """Many calls that meet 401 at the same time run the plugin once."""
    server = load(
        kubeconfig({"exec": plugin(tmp_path, answer('{"token": f"t{count}"}'))}),
        clock=FakeClock(),
    )
    refused = await server.authorization.header()
    renewed = await asyncio.gather(*(server.authorization.after_refusal(refused) for _ in range(5)))
    assert renewed == [True] * 5
    assert await server.authorization.header() == "Bearer t2"
    assert (tmp_path / "plugin.runs").read_text() == "2"


async def test_a_fixed_token_that_is_refused_has_no_successor() -> None:
    """There is nothing else to try for a token that cannot be renewed."""
    fixed = Authorization(lambda: Token("Bearer abc"), clock=FakeClock())
    assert not await fixed.after_refusal("Bearer abc")


def test_https_checks_the_servers_certificate(kubeconfig: KubeconfigWriter) -> None:
    """The named authority is used and the name checked; tls-server-name overrides the name."""
    cluster = {
        "server": "https://10.0.0.1:6443/",
        "certificate-authority": str(CERTIFICATE),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://127.0.0.1:3128",
    }
    server = load(kubeconfig(cluster=cluster), clock=FakeClock())
    assert server.tls is not None
    assert (
        server.url,
        server.tls_name,
        server.proxy,
    ) == ("https://10.0.0.1:6443", "kubernetes", "http://127.0.0.1:3128")
    assert (
        server.tls.check_hostname,
        server.tls.verify_mode,
        len(server.tls.get_ca_certs()),
    ) == (True, ssl.CERT_REQUIRED, 1)


def test_the_check_can_be_switched_off_in_the_kubeconfig(kubeconfig: KubeconfigWriter) -> None:
    """insecure-skip-tls-verify is obeyed, as kubectl does."""
    cluster = {"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": True}
    server = load(kubeconfig(cluster=cluster), clock=FakeClock())
    assert server.tls is not None
    assert server.tls.verify_mode == ssl.CERT_NONE


def test_a_proxy_of_the_environment_is_not_taken(kubeconfig: KubeconfigWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token goes through a proxy only if the kubeconfig says so."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert load(kubeconfig(), clock=FakeClock()).proxy is None


async def test_in_a_pod(tmp_path: Path) -> None:
    """The service account's files and the environment's address are used, and the token is read again."""
    (tmp_path / "token").write_text("old")
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE.read_bytes())
    clock = FakeClock()
    address = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    server = load(None, clock=clock, environment=address, service_account=tmp_path)
    assert server.tls is not None
    assert (server.url, len(server.tls.get_ca_certs())) == ("https://[fd00::1]:443", 1)
    (tmp_path / "token").write_text("new")
    clock.advance(61.0)
    assert await server.authorization.header() == "Bearer new"


async def test_outside_a_pod_the_usual_kubeconfig_is_used(kubeconfig: KubeconfigWriter) -> None:
    """$KUBECONFIG names it."""
    server = load(None, clock=FakeClock(), environment={"KUBECONFIG": str(kubeconfig({"token": "abc"}))})
    assert await server.authorization.header() == "Bearer abc"


BAD = {  # case: (what the message names, user, cluster, other fields)
    "token file is missing": ("nowhere: cannot be read", {"tokenFile": "nowhere"}, {}, {}),
    "no such context": ("contexts has no entry named x", {}, {}, {"current-context": "x"}),
    "no context": ("current-context is empty", {}, {}, {"current-context": ""}),
    "no such user": ("users has no entry named u", {}, {}, {"users": []}),
    "users is not a list": ("users has no entry named u", {}, {}, {"users": {"u": 1}}),
    "no such cluster": ("kubeconfig: ", {}, {}, {"clusters": []}),
    "server is not a URL": ("server must be", {}, {"server": "ftp://x"}, {}),
    "authority is missing": ("kubeconfig: ", {}, {"server": "https://x", "certificate-authority": "nowhere"}, {}),
    "authority is not base64": ("kubeconfig: ", {}, {"server": "https://x", "certificate-authority-data": "é"}, {}),
    "authority is no certificate": (
        "certificate or key cannot be used",
        {},
        {"server": "https://x", "certificate-authority-data": "bm8="},
        {},
    ),
    "auth-provider": ("auth-provider is not supported", {"auth-provider": {"name": "gcp"}}, {}, {}),
    "exec is no mapping": ("exec must be a mapping", {"exec": "aws"}, {}, {}),
    "exec without command": (
        r"exec \(no command\)",
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}},
        {},
        {},
    ),
    "plugin is missing": (
        r"exec \(/nowhere/plugin\)",
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/plugin"}},
        {},
        {},
    ),
}


@pytest.mark.parametrize(("want", "user", "cluster", "fields"), BAD.values(), ids=BAD)
def test_what_cannot_be_used_is_named(
    want: str,
    user: Mapping[str, Any],
    cluster: Mapping[str, Any],
    fields: Mapping[str, Any],
    kubeconfig: KubeconfigWriter,
) -> None:
    """A ConfigError says which file and which field, before anything is started."""
    with pytest.raises(ConfigError, match=want):
        load(kubeconfig(user, cluster, **fields), clock=FakeClock())


PLUGINS = {  # case: (what the message names, program)
    "fails": ("returned 3", "import sys; sys.exit(3)"),
    "talks nonsense": ("failed to decode", "print('hello')"),
    "gives no token": ("gave no token", answer('{"clientCertificateData": "x"}')),
    "gives no date": ("not RFC 3339", answer('{"token": "t", "expirationTimestamp": "tomorrow"}')),
}


@pytest.mark.parametrize(("want", "program"), PLUGINS.values(), ids=PLUGINS)
def test_a_plugin_that_does_not_work_is_named(
    want: str, program: str, kubeconfig: KubeconfigWriter, tmp_path: Path
) -> None:
    """A plugin's failure is not swallowed: without a token we would be nobody."""
    with pytest.raises(ConfigError, match=f"(?s)users.*exec.*{want}"):
        load(kubeconfig({"exec": plugin(tmp_path, program)}), clock=FakeClock())


FILES = {  # case: (what the message names, content)
    "missing": ("cannot be read", None),
    "not YAML": ("not YAML", "a: [b"),
    "not text": ("not YAML", "\x00"),
    "not a mapping": ("must be a mapping", "- a"),
    "empty": ("must be a mapping", ""),
}


@pytest.mark.parametrize(("want", "content"), FILES.values(), ids=FILES)
def test_a_kubeconfig_that_cannot_be_read_is_named(want: str, content: str | None, tmp_path: Path) -> None:
    """The path stands in the message."""
    path = tmp_path / "broken"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=f"{path}.*{want}"):
        load(path, clock=FakeClock())


def test_no_credentials_anywhere(tmp_path: Path) -> None:
    """Neither in a pod nor with a kubeconfig: the message says what to do."""
    with pytest.raises(ConfigError, match="name a kubeconfig file"):
        load(None, clock=FakeClock(), environment={"KUBECONFIG": str(tmp_path / "none")})


def test_a_pod_without_a_token(tmp_path: Path) -> None:
    """automountServiceAccountToken: false is found out at the start."""
    with pytest.raises(ConfigError, match="in-cluster credentials"):
        load(
            None,
            clock=FakeClock(),
            environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            service_account=tmp_path,
        )
