"""Settings of the queue: order, waiting times, quotas of namespaces (docs/explanation/queue.md).

Rule: as for all settings, what is not understood is refused at start, in words that say what is accepted.
"""

from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from extender.settings.types import Number, Positive, Section, names
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
    backfill: bool = True
    """Promise the first gang that cannot start its start, where jobs declare how long they run, so that no other gang
    delays it (docs/explanation/queue.md#back-fill-by-end-times)."""
    share_cap: Share | None = None
    """Share of each resource of the cluster that the gangs of one namespace may have; `null`: no limit."""

    def policy(self, base: QueuePolicy = QueuePolicy()) -> QueuePolicy:
        """The same as the planner takes it; from `base` what no setting says."""
        chosen: dict[str, Any] = {**dict(self), "weight_namespaces": frozenset(self.weight_namespaces)}
        return replace(base, **chosen)
