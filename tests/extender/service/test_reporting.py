"""Counts kept by reflectors and sources appear in metrics, each growth once."""

from typing import Any

from extender.network.refresh import NetworkStatus, SourceStatus
from extender.service.reporting import Reporting
from extender.telemetry import Telemetry
from scoring.network import Metric


def status(*, failures: int, last_success_s: float | None) -> NetworkStatus:
    """One MaDDash source with this much luck."""
    source = SourceStatus("maddash", last_success_s, None, failures, 0, 0, (), {})
    return NetworkStatus(1, None, (source,), {Metric.LOSS: 30}, None, None)


def test_growth_is_counted_once() -> None:
    """Three relists, one failed watch, a failed and a good fetch, however often they are looked at."""
    telemetry = Telemetry()
    sync: dict[str, dict[str, Any]] = {"pods": {"relists": 2, "errors": 0}}
    network = status(failures=1, last_success_s=None)
    reporting = Reporting(telemetry, sync=lambda: sync, network=lambda: network)
    reporting.look()
    reporting.look()
    sync = {"pods": {"relists": 3, "errors": 1}}
    network = status(failures=0, last_success_s=1_700_000_000.0)
    reporting.look()
    text = telemetry.exposition().decode()
    assert 'netgang_relists_total{kind="pods"} 3.0' in text
    assert 'netgang_watch_errors_total{kind="pods"} 1.0' in text
    assert 'netgang_network_pairs{metric="loss"} 30.0' in text
    assert 'netgang_network_fetches_total{outcome="error",source="maddash"} 1.0' in text
    assert 'netgang_network_fetches_total{outcome="success",source="maddash"} 1.0' in text


def test_without_a_source_nothing_is_reported_of_the_network() -> None:
    """A service without measurements has no network metrics to show."""
    telemetry = Telemetry()
    Reporting(telemetry, sync=dict, network=lambda: None).look()
    assert "netgang_network_pairs{" not in telemetry.exposition().decode()
