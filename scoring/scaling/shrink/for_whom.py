"""Which gangs running jobs may be shrunk for: gangs that wait for room, in the queue's order.

Why apart: the published rule serves the heaviest gang alone, and while that one cannot be helped no other is; with
`Condition.ANY` those behind it are tried as well. Rule: of gangs that ask for the same only the first is tried, because
what is too little for it is too little for the others, and no more than `MOST_KINDS` different ones.
"""

from collections.abc import Iterable
from typing import Final

from scoring.ids import GangKey
from scoring.model import Gang
from scoring.plan import Plan, Run
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from scoring.plan.steps import Steps
from scoring.plan.zone_order import kind_of
from scoring.scaling.shrink.eligible import JOBS_A_STEP, weight_key
from scoring.scaling.shrink.trial import WANTS_ROOM

MOST_KINDS: Final = 16
"""Different gangs for which room is looked for in one pass: each costs a look at all elastic jobs."""


def waiting_for_room(plan: Plan) -> tuple[GangKey, ...]:
    """Gangs that could start if there were room, in the queue's order."""
    waiting = sorted((one for one in plan.waiting.values() if one.reason in WANTS_ROOM), key=lambda w: (w.rank, w.gang))
    return tuple(one.gang for one in waiting)


def different(run: Run, gangs: Iterable[Gang]) -> Steps[tuple[Gang, ...]]:
    """The first gang of each kind, at most `MOST_KINDS`, in this order; `run` distinguishes kinds. Cost: O(gangs)."""
    found: dict[tuple[int, int], Gang] = {}
    for number, gang in enumerate(gangs, start=1):
        found.setdefault((id(kind_of(run, run.view.demand(gang))), gang.priority), gang)
        if len(found) == MOST_KINDS:
            break
        if number % JOBS_A_STEP == 0:
            yield
    return tuple(found.values())


def is_heaviest(run: Run, turns: QueueOrder, ask: GangDemand) -> bool:
    """The published condition: the gang weighs at least as much as the heaviest that runs."""
    own = weight_key(run, turns, ask.gang)
    running = (gang for gang in run.snapshot.gangs.values() if gang.own and gang.key != ask.gang.key and gang.placed)
    return all(own <= weight_key(run, turns, gang) for gang in running)
