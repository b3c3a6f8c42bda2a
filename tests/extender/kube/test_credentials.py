"""Where the API server is and with what token, from kubeconfigs, pods and plugins; and tokens that rotate."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.errors import ConfigError
from extender.kube.credentials import Tls, load
from tests.fakes.clock import FakeClock

CERTIFICATE = Path(__file__).parent / "authority.pem"
KubeconfigWriter = Callable[..., Path]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> KubeconfigWriter:
    def put(user: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None, **fields: object) -> Path:
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

    return put


EXEC = {"apiVersion": "client.authentication.k8s.io/v1"}


def plugin(program: str) -> dict[str, Any]:
    return {**EXEC, "command": sys.executable, "args": ["-c", program]}


def answer(status: str) -> str:
    return f"import json; print(json.dumps({{**{EXEC}, 'kind': 'ExecCredential', 'status': {status}}}))"


def counting(runs: Path, more: str = "") -> dict[str, Any]:
    """A plugin whose tokens are t1, t2, …"""
    count = f"open({str(runs)!r}, 'a').write('x'); count = len(open({str(runs)!r}).read())"
    return plugin(count + "\n" + answer(f"{{'token': f't{{count}}'{more}}}"))


@pytest.mark.parametrize(("header", "user"), [("Bearer abc", {"token": "abc"}), ("", {})], ids=["a token", "nothing"])
async def test_what_is_sent(
    header: str, user: dict[str, str], kubeconfig: KubeconfigWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server = load(kubeconfig(user), clock=FakeClock())
    assert (server.url, server.tls, server.proxy) == ("http://127.0.0.1:8001", Tls(), None)
    assert await server.authorization.header() == header
    assert not await server.authorization.renewed(header)  # there is nothing else to try


async def test_which_kubeconfig_and_context(kubeconfig: KubeconfigWriter) -> None:
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("here", "there")]
    users = [{"name": name, "user": {"token": name}} for name in ("here", "there")]
    path = kubeconfig(contexts=contexts, users=users)
    here = load(None, clock=FakeClock(), environment={"KUBECONFIG": str(path)})
    there = load(path, context="there", clock=FakeClock())
    assert (await here.authorization.header(), await there.authorization.header()) == ("Bearer here", "Bearer there")


async def test_a_token_file_is_read_again(kubeconfig: KubeconfigWriter, tmp_path: Path) -> None:
    """A rotated file is noticed within a minute, and wins over a token beside it; missing, the old token stays."""
    clock, file = FakeClock(), tmp_path / "token"
    file.write_text("old\n")
    server = load(kubeconfig({"tokenFile": "token", "token": "fixed"}), clock=clock)
    found = []
    for text, pause_s in (("new", 0.0), ("new", 61.0), (None, 61.0), ("newest", 11.0)):
        file.unlink() if text is None else file.write_text(text)
        clock.advance(pause_s)
        found.append(await server.authorization.header())
    assert found == ["Bearer old", "Bearer new", "Bearer new", "Bearer newest"]


async def test_a_plugin_runs_again_before_its_token_expires(kubeconfig: KubeconfigWriter, tmp_path: Path) -> None:
    clock = FakeClock()
    ends = datetime.fromtimestamp(clock.now_s() + 900.0, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    server = load(kubeconfig({"exec": counting(tmp_path / "runs", f", 'expirationTimestamp': '{ends}'")}), clock=clock)
    clock.advance(800.0)
    assert await server.authorization.header() == "Bearer t1"
    clock.advance(41.0)
    assert await server.authorization.header() == "Bearer t2"


async def test_a_refused_token_is_renewed_once_for_all(kubeconfig: KubeconfigWriter, tmp_path: Path) -> None:
    server = load(kubeconfig({"exec": counting(tmp_path / "runs")}), clock=FakeClock())
    refused = await server.authorization.header()
    renewed = await asyncio.gather(*(server.authorization.renewed(refused) for _ in range(5)))
    assert (renewed, await server.authorization.header()) == ([True] * 5, "Bearer t2")
    assert (tmp_path / "runs").read_text() == "xx"


@pytest.mark.parametrize("checked", [True, False])
def test_https_checks_the_servers_certificate(checked: bool, kubeconfig: KubeconfigWriter) -> None:
    authority = {"certificate-authority": str(CERTIFICATE)} if checked else {"insecure-skip-tls-verify": True}
    cluster = {"server": "https://10.0.0.1:6443/", "proxy-url": "http://127.0.0.1:3128"}
    server = load(kubeconfig(cluster=cluster | authority), clock=FakeClock())
    assert (server.url, server.proxy) == ("https://10.0.0.1:6443", "http://127.0.0.1:3128")
    assert server.tls == Tls(CERTIFICATE if checked else None, verified=checked)


def test_a_server_s_other_name_takes_the_place_of_the_host(kubeconfig: KubeconfigWriter) -> None:
    cluster = {"server": "https://10.0.0.1:6443/", "tls-server-name": "kubernetes"}
    server = load(kubeconfig(cluster=cluster), clock=FakeClock())
    assert (server.url, server.tls.found_at) == ("https://kubernetes:6443", ("kubernetes", "10.0.0.1", 6443))


async def test_in_a_pod(tmp_path: Path) -> None:
    address = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE.read_bytes())
    clock, load_here = FakeClock(), partial(load, None, environment=address, service_account=tmp_path)
    with pytest.raises(ConfigError, match="token: cannot be read"):  # automountServiceAccountToken: false
        load_here(clock=clock)
    (tmp_path / "token").write_text("old")
    server = load_here(clock=clock)
    assert (server.url, server.tls) == ("https://[fd00::1]:443", Tls(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("new")
    clock.advance(61.0)
    assert await server.authorization.header() == "Bearer new"


DATA = "certificate-authority-data"
BAD: dict[str, tuple[str, dict[str, Any]]] = {  # case: (what the message names, arguments for the kubeconfig)
    "token file is missing": ("nowhere: cannot be read", {"user": {"tokenFile": "nowhere"}}),
    "no such context": ("contexts has no entry named x", {"current-context": "x"}),
    "no context": ("current-context is empty", {"current-context": ""}),
    "no such user": ("users has no entry named u", {"users": []}),
    "users is not a list": ("users has no entry named u", {"users": {"u": 1}}),
    "no such cluster": ("kubeconfig: ", {"clusters": []}),
    "clusters is not a list": ("not as kubectl writes them", {"clusters": 7}),
    "server is not a URL": ("server must be", {"cluster": {"server": "ftp://x"}}),
    "authority is missing": ("kubeconfig: ", {"cluster": {"server": "https://x", "certificate-authority": "nowhere"}}),
    "authority is not base64": ("kubeconfig: ", {"cluster": {"server": "https://x", DATA: "é"}}),
    "authority is none": ("certificate or key cannot be used", {"cluster": {"server": "https://x", DATA: "bm8="}}),
    "auth-provider": ("auth-provider is not supported", {"user": {"auth-provider": {"name": "gcp"}}}),
    "exec is no mapping": ("exec must be a mapping", {"user": {"exec": "aws"}}),
    "exec without command": (r"exec \(no command\)", {"user": {"exec": EXEC}}),
    "plugin is missing": (r"exec \(/nowhere/plugin\)", {"user": {"exec": EXEC | {"command": "/nowhere/plugin"}}}),
    "plugin fails": ("exec.*returned 3", {"user": {"exec": plugin("import sys; sys.exit(3)")}}),
    "plugin talks nonsense": ("exec.*failed to decode", {"user": {"exec": plugin("print('hello')")}}),
    "plugin gives no token": ("exec.*gave no token", {"user": {"exec": plugin(answer("{'clientKeyData': 'x'}"))}}),
    "plugin gives no date": (
        "exec.*not RFC 3339",
        {"user": {"exec": plugin(answer("{'token': 't', 'expirationTimestamp': 'tomorrow'}"))}},
    ),
}


@pytest.mark.parametrize(("want", "fields"), BAD.values(), ids=BAD)
def test_what_cannot_be_used_is_named(want: str, fields: dict[str, Any], kubeconfig: KubeconfigWriter) -> None:
    with pytest.raises(ConfigError, match=f"(?s){want}"):
        load(kubeconfig(**fields), clock=FakeClock())


FILES = {  # case: (what the message names, content)
    "missing": ("cannot be read", None),
    "not YAML": ("not YAML", "a: [b"),
    "not text": ("not YAML", "\x00"),
    "not a mapping": ("must be a mapping", "- a"),
    "empty": ("must be a mapping", ""),
}


@pytest.mark.parametrize(("want", "content"), FILES.values(), ids=FILES)
def test_a_kubeconfig_that_cannot_be_read_is_named(want: str, content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    if content is not None:
        path.write_text(content)
    else:
        with pytest.raises(ConfigError, match="name a kubeconfig file"):
            load(None, clock=FakeClock(), environment={"KUBECONFIG": str(path)})
    with pytest.raises(ConfigError, match=f"{path}.*{want}"):
        load(path, clock=FakeClock())
