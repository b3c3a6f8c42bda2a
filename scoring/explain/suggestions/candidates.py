"""The gangs that would make room for a gang by ending or shrinking, by counting: the fewest pods first.

Rule: counting looks at each kind of member for itself, in the room that no gang ahead gets and that is not reserved; it
proposes, and a trial plan decides (`scoring.explain.unblock`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.ids import GangKey, ZoneName
from scoring.model import Gang
from scoring.model.policy import ZonePolicy
from scoring.network.matrix import Ints
from scoring.plan import Plan, Run, take_admissions, take_commitments
from scoring.plan.demand import ByClass, GangDemand
from scoring.plan.steps import Steps
from scoring.scaling.shrink.would_fit import Ledger
from scoring.what_if.changes import Change, JobEnds, JobShrinks
from scoring.what_if.jobs import workers_of

MOST_LOOKED_AT: Final = 400  # Gangs whose end is counted through, those with the fewest pods first
MOST_ALONE: Final = 16  # Jobs that suffice alone, after which no larger ones are looked at
MOST_SHRUNK: Final = 64  # Workers of one job that are counted away one by one
_GANGS_A_STEP: Final = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that would make room, and how many members would still have none."""

    missing: int
    pods: int  # Pods that would go
    change: Change


class Room:
    """The room that one waiting gang may count on, beside those ahead of it."""

    def __init__(self, run: Run, plan: Plan, ask: GangDemand) -> None:
        """`run`: one whose room is that beside those ahead, except for what is held; see `room_in_steps`."""
        key = ask.gang.key
        self.run = run
        self.ask = ask
        self.wanted: ByClass = ask.need or tuple((mc, pods[:1]) for mc, pods in ask.more[:1])
        """What one would like to place: the missing minimum, or one more of those beyond it"""
        ahead = [reserved for reserved in plan.reservations.values() if reserved.gang != key]
        held = [run.table.index[node] for reserved in ahead for node in reserved.nodes if node in run.table.index]
        run.capacity.take_nodes(held)
        self.held = np.zeros(len(run.table.nodes), np.bool_)
        self.held[held] = True
        zones = run.view.candidate_zones(ask)
        together = ask.options.zone_policy is ZonePolicy.PREFERRED and len(zones) > 1
        # Sets of zones in which the gang would be placed together: mostly single ones.
        self.groups = [*((zone,) for zone in zones), *([zones] if together else [])]

    def rows(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes that are not held for others."""
        rows = self.run.view.rows(zones)
        return rows[~self.held[rows]]


def room_in_steps(run: Run, plan: Plan, ask: GangDemand) -> Steps[Room]:
    """The room for `ask` beside all ahead of it, taken in a fresh `run`. Cost: O(members ahead), in steps."""
    mine = plan.waiting[ask.gang.key].rank
    take_commitments(run, besides=ask.gang.key)
    ahead = [one for one in plan.admitted.values() if one.rank < mine]
    for begin in range(0, len(ahead), _GANGS_A_STEP):
        take_admissions(run, ahead[begin : begin + _GANGS_A_STEP])
        yield
    return Room(run, plan, ask)


def candidates_in_steps(room: Room, gangs: Iterable[Gang]) -> Steps[list[Candidate]]:
    """Jobs whose shrinking or end would make room, those that suffice alone first. Cost: O(pods), in steps."""
    ledger = Ledger(room.run, room.ask, room.wanted, room.held)
    lacking = ledger.tally().least_lacking()
    running = [
        (gang, [pod for pod in gang.members if pod.node is not None and not pod.terminal])
        for gang in gangs
        if gang.key != room.ask.gang.key
    ]
    listed = sorted(((len(pods), gang.key, gang, pods) for gang, pods in running if pods), key=lambda one: one[:2])
    found: list[Candidate] = []
    alone = 0
    for number, (size, key, gang, pods) in enumerate(listed[:MOST_LOOKED_AT]):
        missing = ledger.tally(pods).least_lacking()
        if missing < lacking:
            found.append(Candidate(missing, size, JobEnds(key)))
            if missing == 0:
                alone += 1
                found.extend(_shrunk(ledger, gang, key))
        if alone == MOST_ALONE:
            break
        if number % _GANGS_A_STEP == _GANGS_A_STEP - 1:
            yield
    return sorted(found, key=lambda one: (one.missing, one.pods, repr(one.change)))


def _shrunk(ledger: Ledger, gang: Gang, key: GangKey) -> list[Candidate]:
    """The least number of workers beyond the gang's minimum that would have to go; empty: not even all of them."""
    workers = workers_of(gang.members)
    live = sum(not pod.terminal and not pod.deleting for pod in gang.members)
    spare = min(live - gang.min_member, len(workers) - 1, MOST_SHRUNK)
    for by in range(1, spare + 1):
        gone = [pod for pod in workers[-by:] if pod.node is not None]
        if not ledger.tally(gone).least_lacking():
            return [Candidate(0, by, JobShrinks(key, by))]
    return []
