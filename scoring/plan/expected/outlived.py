"""Lengths of gangs that run longer than their length says.

Rule: such a gang ends when a run that is as much longer again ends: its quantiles are then those of a distribution
without a scale, P(longer than x) = (ran / x)².
"""

from dataclasses import replace
from typing import Final

from scoring.ids import GangKey
from scoring.lengths import Length
from scoring.model import Gang, Snapshot
from scoring.queue.states import running_since_s

_OUTLIVED: Final = (1.05, 1.41, 2.24, 3.16, 7.07)
"""Quantiles of a gang that has outlived its length, in lengths of what it has run: (1 - level)^-1/2"""


def with_outlived(snapshot: Snapshot, now_s: float) -> Snapshot:
    """The snapshot with other lengths for gangs that have outlived theirs. Cost: O(gangs), O(members) for those."""
    others: dict[GangKey, Gang] = {}
    for key, gang in snapshot.gangs.items():
        if gang.length is None or len(gang.placed) < gang.min_member:
            continue
        since_s = running_since_s(gang)
        if since_s is not None and now_s - since_s >= gang.length.quantiles_s[-1]:
            others[key] = replace(gang, length=outlived(gang.length, now_s - since_s))
    return replace(snapshot, gangs={**snapshot.gangs, **others}) if others else snapshot


def outlived(length: Length, ran_s: float) -> Length:
    """What is to be expected of a gang that runs on after `ran_s`, which is longer than its length says.

    >>> from scoring.lengths import LengthSource, exact
    >>> outlived(exact(60.0, LengthSource.DECLARED), 100.0).quantiles_s
    (105.0, 141.0, 224.0, 316.0, 707.0)
    """
    first, second, third, fourth, fifth = (round(ran_s * factor, 3) for factor in _OUTLIVED)
    return Length(length.source, (first, second, third, fourth, fifth))
