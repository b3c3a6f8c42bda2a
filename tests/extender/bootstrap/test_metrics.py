"""Counts that others keep become metrics, each once."""

from typing import Any

import msgspec
from msgspec.structs import replace

from extender.bootstrap.service import Reporting
from extender.network.mapping import map_nodes
from extender.ports import EndpointInfo
from extender.runtime.telemetry import Telemetry
from extender.schemas import Source, SourcesStatus, Watch
from extender.settings.network import NetworkSettings
from scoring.ids import EndpointId
from scoring.network.matrix import Metric, PairCounts
from tests import builders

ZEROS: dict[str, Any] = dict.fromkeys(Watch.__struct_fields__, 0)
NEWS = Watch(**ZEROS | {"contact_age_s": None})  # it has just started


class Desk:
    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.sync = {"pods": NEWS}
        self.network: SourcesStatus | None = None
        self.reporting = Reporting(self.telemetry, sync=lambda: self.sync, network=lambda: self.network)

    def counted(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(f"netgang_{name}", labels) or 0.0


def network(*sources: Source) -> SourcesStatus:
    values: dict[str, Any] = dict.fromkeys(SourcesStatus.__struct_fields__)
    known = {"sources": sources, "pairs": {Metric.DELAY: PairCounts(2, 0, 0)}}
    return SourcesStatus(**(values | known))


def test_what_came_since_the_last_look_is_added() -> None:
    desk = Desk()
    desk.sync["pods"] = msgspec.structs.replace(NEWS, errors=1)
    desk.reporting.look()
    desk.sync["pods"] = msgspec.structs.replace(NEWS, errors=3)
    desk.reporting.look()
    desk.reporting.look()
    assert desk.counted("watch_errors_total", kind="pods") == 3.0


def test_fetches_of_network_data_are_counted_by_outcome() -> None:
    desk = Desk()
    for success_s, failures in ((10.0, 0), (10.0, 1), (99.0, 0)):
        desk.network = network(Source(name="file", last_success_s=success_s, failures=failures))
        desk.reporting.look()
    assert desk.counted("network_fetches_total", source="file", outcome="success") == 2.0
    assert desk.counted("network_fetches_total", source="file", outcome="error") == 1.0
    assert desk.counted("network_pairs", metric="delay", state="fresh") == 2.0


def test_nodes_are_what_they_are_now() -> None:
    desk = Desk()
    nodes = [builders.node(name) for name in ("a", "b", "c")]
    mapping = map_nodes(nodes, [EndpointInfo(EndpointId(end), ("c",)) for end in ("a", "x", "y")], NetworkSettings())
    desk.network = replace(network(), mapping=mapping.document())
    desk.reporting.look()
    desk.reporting.look()
    for state in ("mapped", "unmapped", "ambiguous"):
        assert desk.counted("network_nodes", metric="loss", state=state) == 1.0
