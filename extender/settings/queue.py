"""Settings of the queue: order, waiting times, quotas of namespaces (docs/explanation/queue.md).

Rule: as for all settings, what is not understood is refused at start, in words that say what is accepted.
"""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from extender.settings.types import NotNegative, Number, Positive, Section, names
from scoring.model.policy import Order, QueuePolicy

Share: TypeAlias = Annotated[Number, Field(gt=0.0, le=1.0)]


class QueueSettings(Section):
    """The order of the queue (docs/explanation/queue.md)."""

    order: Order = Order.WEIGHT
    """`weight`: heavier gangs first; `fifo`: older ones first. Both within one priority."""
    weight_namespaces: Annotated[tuple[str, ...], BeforeValidator(names)] = ()
    """Namespaces whose pods may set their gang's ω′ by annotation `netgang.io/weight`; `*`: all."""
    starve_limit_s: Positive = 600.0
    """How long a gang that could start waits before it is STARVING, and goes first within its priority."""
    reserve_after_s: NotNegative = 604_800.0
    """How long a STARVING gang has waited before room is reserved for it, at most on a quarter of the nodes, unless its
    minimum alone needs more. Reserved nodes are idle while it gathers; after two hours it is another gang's turn."""
    backfill: bool = True
    """Promise the first gang that cannot start its start, where jobs declare how long they run, so that no other gang
    delays it (docs/explanation/queue.md#back-fill-by-end-times)."""
    share_cap: Share | None = None
    """Share of each resource of the cluster that the gangs of one namespace may have; `null`: no limit."""

    def policy(self) -> QueuePolicy:
        """The same as the planner takes it."""
        return QueuePolicy(**dict(self) | {"weight_namespaces": frozenset(self.weight_namespaces)})
