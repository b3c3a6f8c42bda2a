"""What network a gang that runs has got: zones, nodes, score, and the worst of its links.

Why beside `scoring.explain.links`: that explains each metric and source; this is what an owner wants to know of a job
that runs, small enough for a queue of thousands, an annotation and a metric. It is computed from the nodes on which its
members are, with the data of now; the score is that of a plan, the mean points of its pairs of members.
"""

from dataclasses import dataclass

from scoring.explain.links import GangLinks, LinkVerdict, gang_links
from scoring.ids import NodeName, ZoneName
from scoring.model import Gang
from scoring.network.matrix import Metric
from scoring.plan import Run
from scoring.plan.result import Plan

NOTHING_PLANNED = Plan(version=0)


@dataclass(frozen=True, slots=True)
class WorstLink:
    """The link with the fewest points; each value is the one that counts, `None` where none is known."""

    source: NodeName
    target: NodeName
    points: float  # 0 to 100
    loss_ratio: float | None
    delay_ms: float | None  # One way
    throughput_bps: float | None
    oldest_s: float | None  # Age of the oldest value that was measured on it, in either direction


@dataclass(frozen=True, slots=True)
class RunningNetwork:
    """The network between the nodes of a gang's bound members."""

    zones: tuple[ZoneName, ...]
    nodes: tuple[NodeName, ...]  # By name, the first 64
    of_nodes: int  # More than `nodes`: the others are not looked at
    score: float | None  # Mean points (0 to 100) of the pairs of members that exchange data; `None`: there is none
    worst: WorstLink | None  # `None`: all members are on one node, or exchange no data


def running_network(run: Run, gang: Gang) -> RunningNetwork | None:
    """The network that the gang has; `None`: no member is on a known node. Cost: as `gang_links`."""
    score = run.view.score(run.view.demand(gang))
    links = gang_links(run, NOTHING_PLANNED, gang, score, worst_links=1, metrics=())  # sums are a third of the time
    return None if links is None else network_of(links)


def network_of(links: GangLinks) -> RunningNetwork:
    """The same of links that are known."""
    return RunningNetwork(
        zones=links.zones,
        nodes=links.names,
        of_nodes=links.of_nodes,
        score=None if links.points is None else round(links.points, 3),
        worst=_worst(links.worst[0]) if links.worst else None,
    )


def _worst(link: LinkVerdict) -> WorstLink:
    ages = [one.age_s for part in link.parts.values() for one in (part.there, part.back) if one is not None]
    counts = {metric: part.counts for metric, part in link.parts.items()}
    return WorstLink(
        source=link.source,
        target=link.target,
        points=round(link.points, 3),
        loss_ratio=counts[Metric.LOSS],
        delay_ms=counts[Metric.DELAY],
        throughput_bps=counts[Metric.THROUGHPUT],
        oldest_s=round(max(ages), 1) if ages else None,
    )
