"""What all values say in a few numbers: medians between zones, the worst links, how many pairs have a value.

Why so few: a time series for each pair of 1,000 nodes would be a million. Rule: at most `MOST_ZONE_PAIRS` pairs of
zones and `WORST` links; of more zones only the pairs inside each zone, in the order of their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from scoring.ids import NodeName, ZoneName
from scoring.network.measurement import Floats, Ints, Metric
from scoring.network.node_links import NodeLinks
from scoring.network.suspects import group_medians

WORST: Final = 10
MOST_ZONE_PAIRS: Final = 400


class LinkQuality(NamedTuple):
    """Loss and delay of one direction; `None`: not known."""

    loss_ratio: float | None = None
    delay_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians by (from zone, to zone), and the worst directions as (from, to)."""

    zones: Mapping[tuple[ZoneName, ZoneName], LinkQuality]
    worst: Mapping[tuple[NodeName, NodeName], LinkQuality]  # Worst first


class PairsSeen(NamedTuple):
    """Directed pairs of different nodes."""

    measured: int
    estimated: int  # Not measured, but between zones between which something is
    of: int
    oldest_age_s: float | None  # Of the measured ones


def summarise(links: NodeLinks) -> Summary:
    """Sum links up; the worst are those of most loss, then of most delay. Cost: O(m log m).

    >>> from scoring.network.measurement import Measurement, MeasurementTable
    >>> from scoring.network.node_links import links_of_table
    >>> rows = [Measurement(a, b, Metric.LOSS, loss, 0.0) for a, b, loss in (("a", "b", 0.5), ("b", "a", 0.0))]
    >>> summarise(links_of_table(MeasurementTable.of(rows), {"a": "x", "b": "y"}, now_s=0.0)).worst
    {('a', 'b'): LinkQuality(loss_ratio=0.5, delay_ms=None), ('b', 'a'): LinkQuality(loss_ratio=0.0, delay_ms=None)}
    """
    size, zones = len(links.names), links.zones
    by_zone: dict[tuple[ZoneName, ZoneName], LinkQuality] = {}
    found = [_medians(links, metric) for metric in (Metric.LOSS, Metric.DELAY)]
    pairs = sorted(found[0].keys() | found[1].keys())
    if len(pairs) > MOST_ZONE_PAIRS:
        pairs = [pair for pair in pairs if pair // len(zones) == pair % len(zones)][:MOST_ZONE_PAIRS]
    for pair in pairs:
        one, other = divmod(pair, len(zones))
        by_zone[zones[one], zones[other]] = LinkQuality(found[0].get(pair), found[1].get(pair))
    loss, delay = (_column(links, metric) for metric in (Metric.LOSS, Metric.DELAY))
    all_keys = np.union1d(loss[0], delay[0])
    losses, delays = (_at(all_keys, *column) for column in (loss, delay))
    order = np.lexsort((all_keys, -np.nan_to_num(delays), -np.nan_to_num(losses)))[:WORST]
    worst = {
        (links.names[key // size], links.names[key % size]): LinkQuality(
            *(None if np.isnan(value) else value for value in values)
        )
        for key, *values in zip(all_keys[order].tolist(), losses[order].tolist(), delays[order].tolist(), strict=True)
    }
    return Summary(by_zone, worst)


def pairs_seen(links: NodeLinks, metric: Metric, *, estimates: bool) -> PairsSeen:
    """How many pairs have a value of a metric, or an estimate if there are `estimates`. Cost: O(m)."""
    rows, size = links.rows[metric], len(links.zones)
    nodes = np.bincount(links.zone, minlength=size)
    between = np.unique(links.zone[rows.source] * size + links.zone[rows.target])
    one, other = between // size if size else between, between % size if size else between
    known = np.array([bool(zone) for zone in links.zones], np.bool_)
    total = int((nodes[one] * (nodes[other] - (one == other)))[known[one] & known[other]].sum())
    measured, of = len(rows.value), len(links.names) * (len(links.names) - 1)
    oldest_s = float(rows.age_s.max()) if measured else None
    return PairsSeen(measured, max(total - measured, 0) if estimates else 0, of, oldest_s)


def _column(links: NodeLinks, metric: Metric) -> tuple[Ints, Floats]:
    """Keys (from · nodes + to) of one metric, ascending, and its values."""
    rows = links.rows[metric]
    keys = rows.source * len(links.names) + rows.target
    order = np.argsort(keys, kind="stable")
    return keys[order], rows.value[order]


def _at(wanted: Ints, keys: Ints, values: Floats) -> Floats:
    """The values of these keys, NaN where there is none."""
    found = np.full(len(wanted), np.nan)
    found[np.searchsorted(wanted, keys)] = values
    return found


def _medians(links: NodeLinks, metric: Metric) -> dict[int, float]:
    """Lower median of a metric by from-zone · zones + to-zone."""
    rows, size = links.rows[metric], len(links.zones)
    pairs, medians = group_medians(links.zone[rows.source] * size + links.zone[rows.target], rows.value)
    return dict(zip(pairs.tolist(), medians.tolist(), strict=True))
