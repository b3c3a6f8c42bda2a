"""Configured sources become adapters: the settings' words arrive where they are used, and each has its own name."""

from pathlib import Path
from typing import Any

import pytest

from extender.bootstrap import live
from extender.network.esmond.source import EsmondSource
from extender.network.opensearch.query import OpenSearchOptions
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.presets import PRESETS
from extender.network.prometheus.source import Aliases, PrometheusOptions, PrometheusSource, Query
from extender.network.sources.configured import http_source
from extender.network.sources.http import Secret
from extender.settings.settings import Settings
from scoring.network.matrix import Metric


def made(**source: Any) -> Any:
    """The adapter of one configured source."""
    (one,) = Settings.load(overrides={"network.sources": [source]}).network.sources
    return http_source(one, name="x")  # type: ignore[arg-type]


async def test_an_archive() -> None:
    """Every choice of an OpenSearch source reaches its searches, and its secret is only a place."""
    one = made(
        kind="opensearch",
        url="https://a",
        username="me",
        password_file="secret",
        task="Lab",
        ip_version=6,
        delay="p_95",
        index_prefix="ps_",
        latency_window_s=60,
        throughput_window_s=600,
        timeout_s=5,
    )
    assert isinstance(one, OpenSearchSource)
    assert one.options == OpenSearchOptions("ps_", 60.0, 600.0, "p_95", "Lab", 6)
    server = one.client.server
    assert (server.url, server.username, server.timeout_s) == ("https://a/opensearch", "me", 5.0)
    assert (server.password, server.token) == (Secret(Path("secret")), None)
    await one.aclose()


async def test_prometheus() -> None:
    """Presets and queries of one's own become one list, with the aliases that the presets need."""
    loss = {"query": "lost", "unit": "percent", "source_label": "from", "window_s": 60, "time_query": "t"}
    one = made(
        kind="prometheus", url="http://p:9090", insecure=True, token_env="T", presets=["iperf3"], queries={"loss": loss}
    )
    assert isinstance(one, PrometheusSource)
    own = Query(Metric.LOSS, "lost", "percent", source_label="from", window_s=60, time_text="t")
    assert one.options == PrometheusOptions((own, *PRESETS["iperf3"]), Aliases())
    assert one.client.server.token == Secret(variable="T")
    await one.aclose()
    one = made(kind="prometheus", url="http://p", queries={"loss": loss}, aliases={"query": "q", "alias_label": "ip"})
    assert one.options.aliases == Aliases("q", "node", "ip")
    await one.aclose()


async def test_esmond() -> None:
    """An esmond archive has its windows and its bound."""
    one = made(kind="esmond", url="https://a", latency_window_s=60, throughput_window_s=600, max_series=7)
    assert isinstance(one, EsmondSource)
    assert (one.options.latency_window_s, one.options.throughput_window_s, one.options.max_series) == (60, 600, 7)
    await one.aclose()


async def test_names_of_several(tmp_path: Path) -> None:
    """The first of a kind has the kind's name, others a number: metrics and documents tell them apart."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
        "clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]\n"
        "users: [{name: x, user: {token: t}}]\n"
    )
    archive = {"kind": "opensearch", "url": "https://a"}
    mesh = {"kind": "file", "path": str(tmp_path / "mesh.yaml")}
    settings = Settings.load(
        overrides={
            "kubeconfig": kubeconfig,
            "network.sources": [mesh, archive, {"kind": "maddash", "url": "https://m"}, archive],
        }
    )
    async with live(settings) as service:
        status = service.views.network().status
    assert status
    assert [source.name for source in status.sources] == ["file", "opensearch", "maddash", "opensearch-2"]


@pytest.mark.parametrize("kind", ["opensearch", "prometheus", "esmond"])
def test_settings_show_no_secret(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed of settings has the name of a variable, never its content."""
    monkeypatch.setenv("ARCHIVE_TOKEN", "hunter2")
    extra = {"presets": ["smokeping"]} if kind == "prometheus" else {}
    source = {"kind": kind, "url": "https://a", "token_env": "ARCHIVE_TOKEN", **extra}
    settings = Settings.load(overrides={"network.sources": [source]})
    assert "hunter2" not in f"{settings!r}{settings.model_dump_json()}"
