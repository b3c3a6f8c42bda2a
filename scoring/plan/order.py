"""The queue's order: the sort key by which gangs are planned.

Gangs that run in part come first, because only they use room without doing work. The rest is the queue's
order (`scoring.plan.turns` says which are STARVING, `scoring.plan.standings` what each weighs):

- A gang for which others left, or leave, goes first within its priority: room must not be freed in vain.
- `order: weight`: priority, STARVING before WAITING, heavier before lighter, older before younger, name.
- `order: fifo` (PAPERS G5): priority, older before younger, name. A starving gang is among the oldest anyway.
- `surplus: last`: further members of gangs that have their minimum come after the minimums of their priority, so that
  no gang waits for the sake of workers that a job can do without. Those of a gang that starts come with its minimum:
  now they cost it nothing, later each change would.
- `starving_beats_priority`: STARVING gangs come before all others, whatever their priority (PAPERS K3).
"""

from typing import Any, TypeAlias

from scoring.feasibility.quorum import quorum_of
from scoring.model.policy import Algorithm, Order, QueuePolicy, Repair, Surplus
from scoring.plan.ask import Ask

Turn: TypeAlias = tuple[int, float]
"""-1: others leave for it; 0: STARVING; 1: STARVING, its hold ran out; 2: WAITING. Then since when it starves."""
OrderKey: TypeAlias = tuple[Any, ...]
WAITS: Turn = (2, 0.0)
CLAIMS: Turn = (-1, 0.0)


def order_key(ask: Ask, turn: Turn, tail: tuple[object, ...], policy: QueuePolicy) -> OrderKey:
    """Sort key of a gang, smaller is planned first; `tail`: its weight, creation and name, as the order has them."""
    first, priority = not _is_completed_first(ask), -ask.gang.priority
    if policy.algorithm is Algorithm.LITERAL:
        return (first, turn[0] == 2, *tail)  # the paper knows no priorities
    late = policy.surplus is Surplus.LAST and not ask.need
    if policy.starving_beats_priority:
        return (first, *turn, priority, late, *tail)
    if policy.order is Order.FIFO:
        return (first, priority, late, turn[0] >= 0, *tail)
    return (first, priority, late, *turn, *tail)


def _is_completed_first(ask: Ask) -> bool:
    """Whether the gang runs in part; one that had started and asks for `repair: none` waits for its turn instead."""
    if not ask.partial:
        return False
    return ask.options.repair is not Repair.NONE or not quorum_of(ask.gang, lost_nodes=ask.lost).started
