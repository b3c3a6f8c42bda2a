"""What the permit machine remembers of one gang between two events.

Rule: a value. Mappings are never written after they are built, so an old state stays what it was and a recorded run
can be repeated. Everything the API server knows comes with each event's `Quorum`; only what it cannot know is here.
"""

import math
from collections.abc import Mapping

import msgspec

from scoring.ids import NodeName, PodUid
from scoring.permit.protocol import RequestId


class Held(msgspec.Struct, frozen=True):
    """A member at bind that waits for the rest of its gang."""

    node: NodeName
    request: RequestId
    deadline_s: float


class Posting(msgspec.Struct, frozen=True):
    """A member whose Binding is under way; `request` is `None` when no caller waits for it any more."""

    node: NodeName
    request: RequestId | None


class PermitState(msgspec.Struct, frozen=True):
    """One gang's binds. Start with `PermitState(partial_timeout_s=…)`, for a new gang as after a restart.

    It may be forgotten once the gang has no pods and neither `held` nor `posting` has entries.
    ValueError unless `partial_timeout_s` is finite and positive.
    """

    partial_timeout_s: float  # How long a gang never whole may stay partial before its members are evicted
    held: Mapping[PodUid, Held] = msgspec.field(default_factory=dict)  # member → its waiting call
    posting: Mapping[PodUid, Posting] = msgspec.field(default_factory=dict)  # member → its Binding under way
    bound: Mapping[PodUid, NodeName] = msgspec.field(default_factory=dict)
    """live member → its node, from the moment of confirmation: the cache may learn of it later"""
    evicting: frozenset[PodUid] = frozenset()  # Members that `Evict` named and that are still there: they count no more
    partial_until_s: float | None = None  # While partial and never whole: the moment of its eviction
    started: bool = False  # It was whole with bound members, and some are still there (docs/safety.md S8)
    leading: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.partial_timeout_s) and self.partial_timeout_s > 0.0):
            raise ValueError("partial_timeout_s must be finite and positive")

    @property
    def open_requests(self) -> tuple[RequestId, ...]:
        """Calls that still wait for their answer, ascending."""
        posted = (p.request for p in self.posting.values() if p.request is not None)
        return tuple(sorted([*(h.request for h in self.held.values()), *posted]))


def next_deadline_s(state: PermitState) -> float | None:
    """When `DeadlinePassed` is due, monotonic, perhaps in the past; `None`: nothing waits for time. Cost: O(held)."""
    due = [h.deadline_s for h in state.held.values()]
    if state.partial_until_s is not None and not state.posting:
        due.append(state.partial_until_s)
    return min(due, default=None)


def validate_state(state: PermitState) -> None:
    """Raise AssertionError if the state contradicts itself. For tests and debugging; cost O(members)."""
    held, posting, bound = state.held.keys(), state.posting.keys(), state.bound.keys()
    assert len(held | posting | bound) == len(held) + len(posting) + len(bound), "a member is in two stages at once"
    assert len(set(state.open_requests)) == len(state.open_requests), "two members share one request"
    assert state.leading or not held, "a call is held without leadership"
    if state.partial_until_s is not None:
        assert state.leading, "a gang is to be evicted without leadership"
        assert not state.started, "a started gang is to be evicted"
        assert not state.evicting, "a gang is to be evicted twice"
