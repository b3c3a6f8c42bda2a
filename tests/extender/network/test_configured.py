"""Configured sources become adapters, each with its own name; secrets stay where they are."""

from pathlib import Path
from typing import Any

import pytest

from extender.bootstrap import live
from extender.bootstrap.feeds import source_of
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.source import PrometheusSource
from extender.network.sources.http import HttpServer
from extender.settings.settings import Settings

KINDS = {  # kind: (adapter, address that is asked)
    "opensearch": (OpenSearchSource, "https://a/opensearch"),
    "prometheus": (PrometheusSource, "https://a"),
}


def settings_of(kind: str, **fields: Any) -> Settings:
    more = {"presets": ["smokeping"]} if kind == "prometheus" else {}
    return Settings.load(overrides={"network.sources": [{"kind": kind, "url": "https://a", **more, **fields}]})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_is_asked_as_it_is_configured(kind: str) -> None:
    adapter, url = KINDS[kind]
    named = settings_of(kind, username="me", password_file="secret", ca_file=None)
    bearing = settings_of(kind, token_file="T", insecure=True)
    wanted = (
        HttpServer(url, username="me", password_file=Path("secret")),
        HttpServer(url, insecure=True, token_file=Path("T")),
    )
    for settings, server in zip((named, bearing), wanted, strict=True):
        one: Any = source_of(settings.network.sources[0], name="x")
        assert (type(one), one.name, one.client.server) == (adapter, "x", server)
        await one.aclose()


async def test_names_of_several(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]\n"
        "users: [{name: x, user: {token: t}}]\n"
    )
    archive = {"kind": "opensearch", "url": "https://a"}
    mesh = {"kind": "file", "path": str(tmp_path / "mesh.yaml")}
    sources = [mesh, archive, {"kind": "maddash", "url": "https://m"}, archive]
    async with live(Settings.load(overrides={"kubeconfig": kubeconfig, "network.sources": sources})) as service:
        status = service.views.network().status
    assert status
    assert [source.name for source in status.sources] == ["file", "opensearch", "maddash", "opensearch-2"]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_show_no_secret(kind: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    settings = settings_of(kind, token_file=tmp_path / "token")
    assert "hunter2" not in f"{settings!r}{settings.model_dump_json()}"
