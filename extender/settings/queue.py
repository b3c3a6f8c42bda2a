"""Settings of the queue: order, waiting times, quotas of namespaces (docs/explanation/queue.md).

Rule: as for all settings, what is not understood is refused at start, in words that say what is accepted.
"""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from extender.settings.types import NotNegative, Number, Positive, Section, names
from scoring.model.policy import (
    Order,
    QueuePolicy,
    Reading,
    StarvingOrder,
    Surplus,
)

Share: TypeAlias = Annotated[Number, Field(gt=0.0, le=1.0)]


class QueueSettings(Section):
    """The order of the queue (docs/explanation/queue.md)."""

    order: Order = Order.WEIGHT
    """`weight`: heavier gangs first; `fifo`: older ones first. Both within one priority."""
    reading: Reading = Reading.PER_WORKER
    """Whose CPU and memory make a gang light: one worker's (`per_worker`), or all of its minimum's (`whole_job`)."""
    weight_namespaces: Annotated[tuple[str, ...], BeforeValidator(names)] = ()
    """Namespaces whose pods may set their gang's ω′ by annotation `netgang.io/weight`; `*`: all."""
    starve_limit_s: Positive = 600.0
    """How long a gang that could start waits before it is STARVING, and goes first within its priority."""
    starving_order: StarvingOrder = StarvingOrder.AGE
    """Which STARVING gang is first: the one that starves longest (`age`), or the heaviest (`weight`). By weight a light
    gang can wait without end behind heavy ones that keep coming."""
    surplus: Surplus = Surplus.IN_TURN
    """When members beyond the minimum of a gang that has started get room: in the order of their gangs (`in-turn`), or
    after the minimums of all gangs of their priority that wait (`last`)."""
    starving_beats_priority: bool = False
    """A STARVING gang goes before all others, not only before those of its own priority."""
    reserve_after_s: NotNegative = 604_800.0
    """How long a STARVING gang has waited before room is reserved for it. Reserved nodes are idle while it gathers."""
    starving_share: Annotated[Number, Field(ge=0.0, le=1.0)] = 0.25
    """Most of the cluster's nodes that are reserved for STARVING gangs; 0: none are. A gang whose minimum alone needs
    more gets a reservation all the same if no other gang has one: it might never start otherwise."""
    starving_hold_s: Positive = 7200.0
    """How long a zone is reserved for a STARVING gang before it goes behind the others for as long."""
    backfill: bool = True
    """Promise the first gang that cannot start its start, where jobs declare how long they run, so that no other gang
    delays it (docs/explanation/queue.md#back-fill-by-end-times)."""
    share_cap: Share | None = None
    """Share of each resource of the cluster that the gangs of one namespace may have; `null`: no limit."""

    def policy(self) -> QueuePolicy:
        """The same as the planner takes it."""
        plain = {
            "weight_namespaces": frozenset(self.weight_namespaces),
        }
        return QueuePolicy(**{**dict(self), **plain})
