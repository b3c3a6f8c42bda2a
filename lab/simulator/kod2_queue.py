"""Algorithm 1 of KOD2 as it was published (PAPERS K3): which waiting jobs one pass starts.

Why: results can be compared with the paper only if its own method can be run. Rule: nothing is mended here. The fit
test adds up what is idle in the whole cluster, whatever node it is on; while the heaviest waiting job weighs at least
as much as the heaviest running one, no other is looked at.

1. The heaviest waiting job weighs at least as much as the heaviest running one: place it if its minimum fits; else
   scale-in would be tried for it. Nothing else happens in this pass.
2. Otherwise go through the waiting jobs by descending weight and place each whose minimum fits (back-fill). Jobs that
   have waited longer than STARVELIMIT get a weight above all others.

What the paper leaves open, and our reading: with nothing running the first branch applies; a STARVING job's weight is
raised when its time has come (the paper does it at the end of the next pass of the second branch); a job that runs has
its own weight again. Scaling in and out is not decided here: a pass says for which job scale-in would be tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from scoring.ids import GangKey
from scoring.network.matrix import Ints

WeightKey: TypeAlias = tuple[Any, ...]  # Sort key of a weight: smaller is heavier


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job in WQ."""

    gang: GangKey
    weight: WeightKey
    minimum: Ints  # (resources,): what its minimum requests altogether
    created_s: float = 0.0
    starving: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass of Algorithm 1 does."""

    placed: tuple[GangKey, ...]  # Jobs that start, in this order
    tried: tuple[GangKey, ...]  # Jobs whose fit was tested, `placed` among them
    scale_in_for: GangKey | None = None  # The heaviest job, when it does not fit: running ones would be shrunk for it


def algorithm_1(waiting: Sequence[Waiter], heaviest_running: WeightKey | None, idle: Ints) -> Pass:
    """One pass over WQ; `idle` (resources,) is the cluster's, summed. Cost: O(n log n).

    >>> from scoring.ids import GangKey
    >>> cpu = lambda n: np.array([n])
    >>> light = Waiter(GangKey("t/light"), (-1.0,), cpu(1))
    >>> heavy = Waiter(GangKey("t/heavy"), (-9.0,), cpu(5))
    >>> one = algorithm_1([light, heavy], (-3.0,), cpu(4))
    >>> one.placed, one.scale_in_for  # the light one fits, but nobody looks at it
    ((), 't/heavy')
    >>> two = algorithm_1([light, heavy], (-10.0,), cpu(4))
    >>> two.placed, two.scale_in_for
    (('t/light',), None)
    """
    if not waiting:
        return Pass((), ())
    queue = sorted(waiting, key=lambda one: (not one.starving, one.weight, one.created_s, one.gang))
    first = queue[0]
    if heaviest_running is None or first.starving or not heaviest_running < first.weight:
        fits = bool((first.minimum <= idle).all())
        placed = (first.gang,) if fits else ()
        return Pass(placed, (first.gang,), scale_in_for=None if fits else first.gang)
    left = np.array(idle)
    started: list[GangKey] = []
    for one in queue:
        if (one.minimum <= left).all():
            left -= one.minimum
            started.append(one.gang)
    return Pass(tuple(started), tuple([one.gang for one in queue]))
