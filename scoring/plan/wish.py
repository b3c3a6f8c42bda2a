"""What is to be placed together, as the search sees it: classes, counts, and the siblings they want to be near."""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from scoring.ids import NodeName
from scoring.model import MemberClass, Role
from scoring.model.policy import Policy, ScorePolicy
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask


class When(Enum):
    """Of which moment the room is asked."""

    NOW = "with all that this run has given away"
    AT_START = "before this run gave anything away"
    EMPTY = "as if no pod ran and no node had refused anything: what could ever fit"


@dataclass(frozen=True, slots=True)
class Wish:
    """Members to place together: classes with their counts, and the siblings they want to be near."""

    classes: tuple[tuple[MemberClass, int], ...]
    siblings: tuple[tuple[Role, NodeName], ...]
    all_reduce: bool
    key: tuple[object, ...]
    """Stands for all of the above in memo keys."""

    @property
    def size(self) -> int:
        """Number of members."""
        return sum(count for _, count in self.classes)


def ports_of(wish: Wish) -> tuple[tuple[str, int], ...]:
    """The (protocol, port) that members of the demand want on their nodes, sorted."""
    wanted = {(p.protocol, p.port) for member_class, _ in wish.classes for p in member_class.constraints.host_ports}
    return tuple(sorted(wanted))


def with_ports(wish: Wish, free: Ints) -> Ints:
    """Each wanted port as one more resource, of which every node has one.

    Nodes where it is taken are masked. Conservative only for one port on two addresses of a node.
    """
    ports = ports_of(wish)
    return np.hstack([free, np.ones((len(free), len(ports)), np.int64)]) if ports else free


def with_ratios(policy: Policy, ask: Ask) -> ScorePolicy:
    """The score policy for one gang: the operator's, with the gang's own ratios if it has any."""
    return replace(policy.score, ratios=ask.options.ratios) if ask.options.ratios else policy.score
