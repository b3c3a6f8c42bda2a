"""Which nodes are marked as degraded, how soon and how often: simulated links with seeded faults, virtual time.

Each metric is measured on every link every 30 s: so a mesh gives throughput, while the probe's bursts take far longer.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

from scoring import METRICS, EndpointId, Metric, NodeName, ZoneName
from scoring.network import node_links as rules
from scoring.network.matrix import NetworkMatrix
from scoring.network.measurement import Measurement
from scoring.network.node_links import AlarmState
from scoring.records import Subject, SubjectKind

pytestmark = pytest.mark.slow  # hours of 792 links
HOUR_S, EVERY_S = 3600.0, 30.0
ZONE_OF = {NodeName(f"{zone}{i:02}"): ZoneName(zone) for zone in "abcdef" for i in range(12)}
LINKS = [(a, b) for a, b in permutations(ZONE_OF, 2) if ZONE_OF[a] == ZONE_OF[b]]
Links: TypeAlias = Sequence[tuple[NodeName, NodeName]]
ENDS = {metric: {node: EndpointId(node) for node in ZONE_OF} for metric in METRICS}
BASE = {Metric.LOSS: 0.0, Metric.DELAY: 0.2, Metric.THROUGHPUT: 1e10}
WORSE = {Metric.LOSS: (0.003, 0.05), Metric.DELAY: (1.5, 8.0), Metric.THROUGHPUT: (0.02, 0.15)}  # Bounds of faults


class Fault(NamedTuple):
    """Of all links of a node, for a time: the loss or delay that is added, or the share of the throughput left."""

    metric: Metric
    worse: float
    from_s: float
    to_s: float


def measured(rng: np.random.Generator, bad: dict[NodeName, Fault], links: Links, lossy: Links) -> NetworkMatrix:
    """All links once, with noise: rates and delays vary, of a hundred links one lost packets and one was late."""
    rows: list[Measurement] = []
    for metric in METRICS:
        vary, odd = rng.uniform(0.8, 1.2, len(links)).tolist(), (rng.random(len(links)) < 0.01).tolist()
        for (a, b), factor, strange in zip(links, vary, odd, strict=True):
            value = BASE[metric] * factor * (10.0 if metric is Metric.DELAY and strange else 1.0)
            if metric is Metric.LOSS and (strange or (a, b) in lossy):
                value = 0.02
            for fault in (bad[end] for end in (a, b) if end in bad and bad[end].metric is metric):
                value = value * fault.worse if metric is Metric.THROUGHPUT else value + fault.worse
            rows.append(Measurement(EndpointId(a), EndpointId(b), metric, value, 0.0))
    return NetworkMatrix.from_measurements(rows, endpoint_of=ENDS, now_s=0.0)


def changes(
    faults: Sequence[tuple[NodeName, Fault]], *, for_s: float, seed: int = 1, links: Links = LINKS, lossy: Links = ()
) -> Iterator[tuple[float, NodeName, bool]]:
    """(when, node, whether it is degraded): each change of a node's mark; a zone is never named."""
    rng, states = np.random.default_rng(seed), dict[Subject, AlarmState]()
    for look_s in np.arange(0.0, for_s, EVERY_S).tolist():
        bad = {node: fault for node, fault in faults if fault.from_s <= look_s < fault.to_s}
        look = rules.degraded(measured(rng, bad, links, lossy), ZONE_OF, ages_s=dict.fromkeys(METRICS))
        for now_s in np.arange(look_s, look_s + EVERY_S, 5.0).tolist():
            states, announced = rules.step(states, look, now_s=now_s)
            for about in announced:
                assert about.kind is SubjectKind.NODE
                yield now_s, NodeName(about.name), states[about].announced_bad


@pytest.mark.parametrize("seed", range(2))
def test_fifty_faults_are_found_and_nothing_else(seed: int) -> None:
    """In an hour, some at the same time, beside single links that are bad throughout."""
    rng, faults = np.random.default_rng(seed), dict[NodeName, Fault]()
    lossy = [LINKS[at] for at in rng.choice(len(LINKS), 6, replace=False)]
    for node in rng.permutation(list(ZONE_OF))[:50].tolist():
        metric, from_s = METRICS[int(rng.integers(len(METRICS)))], rng.uniform(0.0, HOUR_S - 300.0)
        faults[node] = Fault(metric, rng.uniform(*WORSE[metric]), from_s, from_s + rng.uniform(300.0, 1200.0))
    marks = [(at_s, node) for at_s, node, on in changes([*faults.items()], for_s=HOUR_S, seed=seed, lossy=lossy) if on]
    right = [at_s - faults[node].from_s for at_s, node in marks if node in faults and at_s < faults[node].to_s]
    assert sum(after_s >= 0.0 for after_s in right) >= 0.95 * len(marks)
    assert sum(0.0 <= after_s <= 180.0 for after_s in right) >= 0.9 * len(faults)


def test_a_quiet_hour_marks_nothing() -> None:
    assert list(changes([], for_s=HOUR_S)) == []


def test_a_node_that_flaps_changes_once_an_hour_at_most() -> None:
    node, starts_s = NodeName("a00"), np.arange(0.0, 4 * HOUR_S, 600.0).tolist()
    faults = [(node, Fault(Metric.LOSS, 0.02, at_s, at_s + 300.0)) for at_s in starts_s]
    times = [at_s for at_s, _, _ in changes(faults, for_s=5 * HOUR_S, links=LINKS[:132])]  # of its zone
    assert (times[0] <= 180.0, len(times) >= 2, bool(min(np.diff(times)) >= HOUR_S)) == (True, True, True)
