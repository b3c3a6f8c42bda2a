"""manifests/components/tls and debug-auth, and the commands of docs/how-to/tls.md: they fit each other."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.api.problems import PROBES
from extender.kube.calls import CALLS, REVIEWS, rules
from extender.runtime.clock import SystemClock
from extender.runtime.telemetry import Telemetry
from extender.server.app import create_app
from extender.server.tls.files import load
from extender.settings.ports import DebugAuth, TlsSettings
from lab.testbed.processes.schedulers import load_configuration
from tests.authority import openssl
from tests.contract.manifests.rendered_manifests import (
    MANIFESTS,
    ROOT,
    Object,
    container_of,
    mounted_settings,
    of_kind,
    pod_spec,
    rendered,
    rights_of,
    with_components,
)
from tests.fakes.verbs import FakeVerbs, FakeViews
from tests.newcomer.document import fenced


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> tuple[Object, ...]:
    directory = tmp_path_factory.mktemp("kustomizations").resolve()
    return rendered(with_components(directory, "overlays/second-scheduler", ("tls", "debug-auth")))


def _secret(objects: Sequence[Object], deployment: str) -> tuple[str, str]:
    """Name of the Secret with certificates, and the directory where it is mounted, whole."""
    volumes = pod_spec(of_kind(objects, "Deployment")[deployment])["volumes"]
    (name,) = [volume["secret"]["secretName"] for volume in volumes if volume["name"] == "tls"]
    (mount,) = [one for one in container_of(objects, deployment)["volumeMounts"] if one["name"] == "tls"]
    assert mount.keys() == {"name", "mountPath", "readOnly"}, "with subPath a renewed file would never appear"
    return name, mount["mountPath"]


def test_netgang_demands_certificates(
    second: tuple[Object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = mounted_settings(second, tmp_path, monkeypatch)
    name, directory = _secret(second, "netgang")
    assert name == "netgang-tls"
    assert settings.tls == TlsSettings(
        cert_file=Path(directory, "tls.crt"),
        key_file=Path(directory, "tls.key"),
        client_ca_file=Path(directory, "ca.crt"),
        client_names=("netgang-scheduler",),
    )
    assert settings.debug_auth is DebugAuth.TOKEN


def test_probes_need_no_certificate(
    second: tuple[Object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = mounted_settings(second, tmp_path, monkeypatch)
    container = container_of(second, "netgang")
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["port"], asked["path"] in PROBES, asked.get("scheme", "HTTP")) == (8890, True, "HTTP")
        assert asked.get("host", "0.0.0.0") == settings.host
    assert (settings.health_port, settings.health_host) == (8890, None)
    assert {port["containerPort"] for port in container["ports"]} == {8888, 8890}


def test_the_network_policy_opens_the_health_port_and_no_other(second: tuple[Object, ...]) -> None:
    verbs, health = of_kind(second, "NetworkPolicy")["netgang"]["spec"]["ingress"]
    assert [port["port"] for port in verbs["ports"]] == [8888]
    assert verbs["from"]
    assert health == {"ports": [{"protocol": "TCP", "port": 8890}]}


def _extenders(configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(configuration["extenders"])


def test_the_second_scheduler_s_configuration_differs_by_tls_alone() -> None:
    """A change of scheduler-config/second-scheduler.yaml must not be forgotten here."""
    plain = load_configuration(ROOT / "scheduler-config/second-scheduler.yaml")
    tls = load_configuration(MANIFESTS / "components/tls/second-scheduler.yaml")
    for entry in _extenders(tls):
        assert (entry.pop("enableHTTPS"), entry.pop("tlsConfig", None) is not None) == (True, True)
        entry["urlPrefix"] = entry["urlPrefix"].replace("https://", "http://")
    assert tls == plain


def test_both_sides_are_checked(second: tuple[Object, ...]) -> None:
    """kube-scheduler shows a certificate and checks netgang's: without caFile it would check nothing."""
    name, directory = _secret(second, "netgang-scheduler")
    assert name == "netgang-scheduler-tls"
    (mounted,) = [
        one["data"]["scheduler.yaml"]
        for one in of_kind(second, "ConfigMap").values()
        if "scheduler.yaml" in one.get("data", {})
    ]
    assert yaml.safe_load(mounted) == load_configuration(MANIFESTS / "components/tls/second-scheduler.yaml")
    for entry in _extenders(yaml.safe_load(mounted)):
        assert entry["tlsConfig"] == {
            "certFile": f"{directory}/tls.crt",
            "keyFile": f"{directory}/tls.key",
            "caFile": f"{directory}/ca.crt",
            "serverName": "netgang.netgang-system.svc",
        }


def test_only_debug_auth_may_ask_whose_a_token_is(second: tuple[Object, ...]) -> None:
    roles = of_kind(second, "ClusterRole")
    assert set(rights_of(roles["netgang-reviews"]["rules"])) == rules(REVIEWS)
    assert not set(rights_of(roles["netgang"]["rules"])) & (rules(REVIEWS) - rules(CALLS))
    binding = of_kind(second, "ClusterRoleBinding")["netgang-reviews"]
    assert [(one["kind"], one["name"], one["namespace"]) for one in binding["subjects"]] == [
        ("ServiceAccount", "netgang", "netgang-system")
    ]


def _served() -> Iterator[tuple[str, str]]:
    app = create_app(FakeVerbs(), FakeViews(), Telemetry())
    for verb in app.dispatch.by_path:
        yield "post", verb
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/plan",
        "/v1/explain/a/b",
        "/v1/network",
        "/docs",
        "/openapi.json",
    ):
        yield "get", path


def test_a_viewer_may_read_every_address(second: tuple[Object, ...]) -> None:
    viewer = of_kind(second, "ClusterRole")["netgang-viewer"]["rules"]
    granted = [(verb, url) for rule in viewer for verb in rule["verbs"] for url in rule["nonResourceURLs"]]
    missing = [
        (verb, path) for verb, path in _served() if not any(v == verb and fnmatchcase(path, u) for v, u in granted)
    ]
    assert missing == []
    bound = {one["roleRef"]["name"] for one in of_kind(second, "ClusterRoleBinding").values()}
    assert "netgang-viewer" not in bound


def _commands(word: str) -> str:
    (found,) = [block for block in fenced((ROOT / "docs/how-to/tls.md").read_text(), "sh") if word in block]
    return found


@pytest.fixture
def made(tmp_path: Path) -> Path:
    openssl("version")  # skips without the command
    done = subprocess.run(["bash", "-e"], input=_commands("openssl req"), cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_the_documented_commands_make_what_both_sides_need(made: Path, second: tuple[Object, ...]) -> None:
    authority = ("-CAfile", str(made / "ca.crt"))
    (name,) = {entry["tlsConfig"]["serverName"] for entry in _extenders(
        load_configuration(MANIFESTS / "components/tls/second-scheduler.yaml"))}  # fmt: skip
    server = ("-purpose", "sslserver", "-verify_hostname", name, str(made / "netgang.crt"))
    assert openssl("verify", *authority, *server).endswith(": OK\n")
    assert openssl("verify", *authority, "-purpose", "sslclient", str(made / "scheduler.crt")).endswith(": OK\n")
    subject = openssl("x509", "-in", str(made / "scheduler.crt"), "-noout", "-subject", "-nameopt", "RFC2253")
    assert subject.strip() == "subject=CN=netgang-scheduler"
    settings = TlsSettings(
        cert_file=made / "netgang.crt", key_file=made / "netgang.key", client_ca_file=made / "ca.crt"
    )
    load(settings, lambda _outcome, _more: None, now_s=SystemClock().now_s)
    assert {path.stat().st_mode & 0o077 for path in made.glob("*.key")} == {0}


def test_the_documented_secrets_are_those_that_are_mounted(made: Path, second: tuple[Object, ...]) -> None:
    commands = _commands("create secret").replace("\\\n", " ").strip().splitlines()
    found = {}
    for command in commands:
        (name,) = re.findall(r"secret generic (\S+)", command)
        found[name] = dict(re.findall(r"--from-file=(\S+)=(\S+)", command))
    assert found.keys() == {_secret(second, one)[0] for one in ("netgang", "netgang-scheduler")}
    for files in found.values():
        assert files.keys() == {"tls.crt", "tls.key", "ca.crt"}
        assert all((made / file).exists() for file in files.values())
        assert "ca.key" not in files.values()
