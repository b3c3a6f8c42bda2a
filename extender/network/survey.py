"""What is said about links, one record per direction: for people, not for the planner.

Why: `netgang network show` needs what the planner does not, namely pairs that are checked and have no value, and which
grid a value is from. Rule: units as everywhere (ratio, ms, bit/s, seconds); `None` is not known, never 0. The values of
a MaDDash server are those that the planner would get, chosen by the same code.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from extender.network.maddash.grid import GridReading
from extender.network.maddash.grid_choice import Places
from extender.network.maddash.messages import Kind
from extender.network.maddash.source import MaddashSource
from extender.network.maddash.values import METRIC_OF, Chosen
from extender.network.sources.http import HttpServer
from extender.schemas.network import LinksSeen, ProbeAgents
from scoring.network.matrix import METRICS, Metric

_ROUND_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link. `None`: not known."""

    source: str
    target: str
    loss_ratio: float | None = None
    delay_ms: float | None = None
    throughput_bps: float | None = None
    age_s: float | None = None  # Seconds since the oldest of the values was checked
    grid: str | None = None  # Grids of the values: loss, delay, throughput; of a link without values: that check it


@dataclass(frozen=True, slots=True)
class Survey:
    """Links sorted by source and target, and what there is to say about them."""

    links: tuple[Link, ...]
    labels: Mapping[str, str]  # end → the label it is known by, where that is another text
    problems: tuple[str, ...]
    note: str = ""  # What part of the whole is shown, where it is a part
    seen: LinksSeen | None = None  # What a running netgang says of all links …
    probe: ProbeAgents | None = None  # … and of its probe


async def survey_maddash(
    server: HttpServer, *, now_s: float, on_read: Callable[[int, int], None] = lambda done, due: None
) -> Survey:
    """Read all grids once; `on_read(done, due)` after each. Errors: ConfigError, NetworkSourceError."""
    source = MaddashSource(server, round_s=_ROUND_S, on_read=on_read)
    try:
        batch = await source.fetch(now_s=now_s)
    finally:
        await source.aclose()
    labels = {str(end.id): end.aliases[0] for end in batch.endpoints if end.aliases} if batch is not None else {}
    links = maddash_links(source.readings, source.chosen, source.places, now_s=now_s)
    return Survey(links, labels, batch.problems if batch is not None else ())


def maddash_links(readings: Iterable[GridReading], chosen: Chosen, places: Places, *, now_s: float) -> tuple[Link, ...]:
    """One record for each direction that any check of the three metrics measures. Cost: O(checks · log checks)."""
    grids: dict[tuple[str, str], dict[str, None]] = {}  # direction → grids that check it
    for reading in readings:
        keys = tuple(chain(reading.values, reading.empty))
        counts = {check: _counts(reading, check, places) for check in {key.check for key in keys}}
        for key in keys:
            if counts[key.check]:
                grids.setdefault((key.source, key.target), {})[reading.name] = None
    values: dict[tuple[str, str], dict[Metric, tuple[float, float, str]]] = {}
    for one, grid in zip(chosen.measurements, chosen.grid_of_row, strict=True):
        of_link = values.setdefault((one.source, one.target), {})
        of_link[one.metric] = (one.value, one.measured_at_s, chosen.grids[grid])
    links = []
    for source, target in sorted(grids.keys() | values.keys()):
        known = values.get((source, target), {})
        loss, delay, throughput = (known[metric][0] if metric in known else None for metric in METRICS)
        age_s = round(max(now_s - at_s for _, at_s, _ in known.values()), 3) if known else None
        named = dict.fromkeys(known[metric][2] for metric in METRICS if metric in known) or grids[source, target]
        links.append(Link(source, target, loss, delay, throughput, age_s, ", ".join(named)))
    return tuple(links)


_WORDS: Final = (  # parts of a check's name → what it is about, where no message says
    (("throughput", "bandwidth", "iperf"), Kind.THROUGHPUT),
    (("loss",), Kind.LOSS),
    (("rtt", "round"), Kind.ROUND_TRIP),
    (("delay", "latency", "owd"), Kind.ONE_WAY_DELAY),
)


def _counts(reading: GridReading, check: str, places: Places) -> bool:
    name = check.casefold()
    kinds = reading.shows.get(check) or [kind for words, kind in _WORDS if any(word in name for word in words)]
    return any((METRIC_OF[kind], reading.name, check) in places for kind in kinds)
