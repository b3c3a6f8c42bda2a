"""Gauges that are given whole: what is not there now is not shown."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from extender.runtime.telemetry import CurrentCounts


def shown(registry: CollectorRegistry) -> Mapping[str, float]:
    return {sample.labels["state"]: sample.value for family in registry.collect() for sample in family.samples}


def test_the_last_counts_are_shown_and_nothing_else() -> None:
    registry = CollectorRegistry()
    counts = CurrentCounts(Gauge("gangs", "Gangs", ("state",), registry=registry))
    assert shown(registry) == {}
    given: list[dict[str, int]] = [{"waiting": 2, "admitted": 1}, {"waiting": 0}, {}, {"admitted": 3, "starting": 4}]
    for now in given:
        counts.replace(now)
        assert shown(registry) == now


def test_what_was_given_may_be_changed_afterwards() -> None:
    registry = CollectorRegistry()
    counts, given = CurrentCounts(Gauge("gangs", "Gangs", ("state",), registry=registry)), {"waiting": 2}
    counts.replace(given)
    given["admitted"] = given.pop("waiting")
    counts.replace(given)
    assert shown(registry) == {"admitted": 2}
