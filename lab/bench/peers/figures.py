"""From what was seen to figures: rates, waits, gangs, what processes used; and medians over the rounds.

Why apart: figures can then be tested without a control plane. Rule: a half that left pods unbound has no rate; a gang
counts when its last member is bound; ratios compare halves that were measured one right after the other, as far as the
round allows, so that what disturbs the machine disturbs both; what is said of several rounds is their median, with the
lowest and the highest beside a ratio.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.bench.peers.meters import Used
from lab.bench.peers.workloads import gang_of

Figures = dict[str, Any]
"""What is written to JSON and shown: name with unit → value."""
_SHARES = (0.5, 0.9, 0.99)
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Half:
    """One way, measured once. Times in seconds."""

    pods: int
    waits_s: tuple[float, ...] = ()
    """From creation to binding of each bound pod; in a backlog from the first binding on."""
    span_s: float = 0.0
    """First to last binding."""
    gangs_s: tuple[float, ...] = ()
    """The same as the waits of each whole gang's last member."""
    spreads_s: tuple[float, ...] = ()
    """First to last binding within each whole gang."""
    partial_gangs: int = 0
    """Gangs that ended with some but not all of their members bound."""
    filter_calls: int | None = None
    """How often the extender was asked; `None`: there is none."""
    rooms_s: tuple[float, ...] = ()
    """From freed room to the gang that took it."""
    moved_in: int = 0
    """Pods that took freed room; their waits are those of the rooms."""
    cpu_s: float | None = None
    """Netgang's CPU from the start of the load to its end; `None`: it did not run."""
    cpu_before_s: float | None = None
    """Netgang's CPU before that: start of the interpreter, reading the cluster, the first plan."""
    processes: Mapping[str, Used] = field(default_factory=dict)
    round: int = 0
    """In which round it was measured."""
    place: int = 0
    """As which one of that round."""

    @property
    def bound(self) -> int:
        """Pods that were bound."""
        return len(self.waits_s) + self.moved_in

    @property
    def rate(self) -> float:
        """Pods per second; 0.0 if some were never bound.

        >>> Half(pods=3, waits_s=(0.0, 1.0, 2.0), span_s=2.0).rate, Half(pods=3, waits_s=(0.0,), span_s=2.0).rate
        (1.5, 0.0)
        """
        return self.pods / self.span_s if self.bound == self.pods and self.span_s > 0.0 else 0.0

    @property
    def cpu_ms_per_pod(self) -> float | None:
        """Netgang's CPU per pod in milliseconds."""
        return None if self.cpu_s is None else self.cpu_s / self.pods * 1e3


def half(
    seen_s: Mapping[str, float],
    bound_s: Mapping[str, float],
    *,
    expected: Mapping[str, int],
    pods: int,
    live: bool,
    counted: Iterable[str] | None = None,
) -> Half:
    """What the times of pods say. `expected` maps a gang to its size, `counted` names the pods whose waits count.

    `live`: waits count from when a pod was first seen, otherwise from the first binding.

    >>> seen = {"g-worker-0": 0.0, "g-worker-1": 0.0, "h-worker-0": 0.0}
    >>> one = half(seen, {"g-worker-0": 3.0, "g-worker-1": 5.0}, expected={"g": 2, "h": 1}, pods=3, live=True)
    >>> one.waits_s, one.gangs_s, one.spreads_s, one.partial_gangs, one.rate
    ((3.0, 5.0), (5.0,), (2.0,), 0, 0.0)
    """
    first_s = min(bound_s.values(), default=0.0)
    begin_s = {name: seen_s[name] if live else first_s for name in bound_s}
    members: dict[str, list[str]] = {}
    for name in bound_s:
        if gang_of(name) in expected:
            members.setdefault(gang_of(name), []).append(name)
    whole = [names for gang, names in members.items() if len(names) >= expected[gang]]
    names = bound_s.keys() if counted is None else bound_s.keys() & set(counted)
    ends_s = [bound_s[name] for name in names]
    return Half(
        pods=pods,
        waits_s=tuple(sorted(max(bound_s[name] - begin_s[name], 0.0) for name in names)),
        span_s=max(ends_s) - min(ends_s) if ends_s else 0.0,
        gangs_s=tuple(sorted(max(max(bound_s[one] - begin_s[one] for one in gang), 0.0) for gang in whole)),
        spreads_s=tuple(
            sorted(max(bound_s[one] for one in gang) - min(bound_s[one] for one in gang) for gang in whole)
        ),
        partial_gangs=sum(len(names) < expected[gang] for gang, names in members.items()),
    )


def summary(halves: Sequence[Half]) -> Figures:
    """The figures of one way over its rounds. ValueError if there are none.

    >>> two = [Half(pods=2, waits_s=(0.0, 1.0), span_s=1.0, cpu_s=0.002)] * 2
    >>> found = summary(two)
    >>> found["pods_per_s"], found["bind_p50_s"], found["cpu_ms_per_pod"], found["unfinished"]
    (2.0, 0.0, 1.0, 0)
    """
    if not halves:
        raise ValueError("no rounds")
    found: Figures = {
        "pairs": len(halves),
        "pods": halves[0].pods,
        "unfinished": max(max(one.pods - one.bound, 0) for one in halves),
        "partial_gangs": max(one.partial_gangs for one in halves),
        "pods_per_s": _median([one.rate for one in halves], 1),
        "pods_per_s_min": round(min(one.rate for one in halves), 1),
        "pods_per_s_max": round(max(one.rate for one in halves), 1),
    }
    for name, values in (
        ("bind", [one.waits_s for one in halves]),
        ("gang", [one.gangs_s for one in halves]),
        ("gang_spread", [one.spreads_s for one in halves]),
        ("room", [one.rooms_s for one in halves]),
    ):
        found |= _tails(name, values)
    optional: dict[str, tuple[list[float | None], int]] = {
        "filter_calls": ([one.filter_calls for one in halves], 0),
        "cpu_ms_per_pod": ([one.cpu_ms_per_pod for one in halves], 3),
        "cpu_before_s": ([one.cpu_before_s for one in halves], 2),
    }
    for name, (known, digits) in optional.items():
        given = [value for value in known if value is not None]
        if given:
            found[name] = _median(given, digits)
    found["processes"] = _processes([one.processes for one in halves])
    return found


def ratios(ours: Sequence[Half], theirs: Sequence[Half]) -> tuple[float, float, float] | None:
    """Median, lowest and highest ratio of rates, each of ours to the nearest of theirs in the same round.

    `None` if there are no two of one round, or one of the reference's is unfinished.

    >>> def one(span_s, round): return Half(pods=1, waits_s=(0.0,), span_s=span_s, round=round)
    >>> ratios([one(2.0, 0), one(2.0, 1), one(1.0, 2)], [one(1.0, 0), one(1.0, 1), one(1.0, 2)])
    (0.5, 0.5, 1.0)
    """
    pairs = [(one, beside) for one in ours if (beside := _nearest(one, theirs)) is not None]
    if not pairs or any(reference.rate <= 0.0 for _, reference in pairs):
        return None
    found = [one.rate / reference.rate for one, reference in pairs]
    return round(statistics.median(found), 3), round(min(found), 3), round(max(found), 3)


def percentile(values: Sequence[float], ratio: float) -> float:
    """The smallest value that at least this share of the values does not exceed. ValueError if there are none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.99)
    (2.0, 4.0)
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = -(-len(ordered) * round(ratio * 1000) // 1000)  # rounded up, in whole thousandths
    return ordered[max(int(rank), 1) - 1]


def _nearest(one: Half, others: Sequence[Half]) -> Half | None:
    """Of those in the same round the one that was measured closest to `one`; of two, the earlier."""
    same = [other for other in others if other.round == one.round]
    return min(same, key=lambda other: (abs(other.place - one.place), other.place), default=None)


def _tails(name: str, rounds: Sequence[Sequence[float]]) -> Figures:
    """Medians over the rounds of p50, p90 and p99; nothing if no round has values."""
    filled = [values for values in rounds if values]
    if not filled:
        return {}
    return {
        f"{name}_p{round(share * 100)}_s": _median([percentile(values, share) for values in filled], 3)
        for share in _SHARES
    }


def _processes(rounds: Sequence[Mapping[str, Used]]) -> dict[str, Figures]:
    """Median CPU and memory of each process that ran in a round."""
    names = dict.fromkeys(name for one in rounds for name in one)
    return {
        name: {
            "cpu_s": _median([one[name].cpu_s for one in rounds if name in one], 2),
            "rss_mib": _median([one[name].rss_bytes / _MIB for one in rounds if name in one], 0),
        }
        for name in names
    }


def _median(values: Sequence[float], digits: int) -> float:
    return round(statistics.median(values), digits)
