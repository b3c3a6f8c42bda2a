"""What the permit machine hears, says and remembers: closed sets of events and instructions, and its state.

Rule: an event carries what happened and when (`now_s`, monotonic seconds); what is true of the gang at that moment
comes beside it as a `Quorum`, made from a cache that has seen the event: one that is missed, the next makes good.
The state is a value: no mapping in it is written again, and only what the API server cannot know is in it.
"""

import math
from collections.abc import Mapping
from typing import NewType, TypeAlias

import msgspec

from scoring.ids import NodeName, PodUid
from scoring.model import Reason

RequestId = NewType("RequestId", int)  # One held HTTP call of kube-scheduler; never used twice


class BindRequested(msgspec.Struct, frozen=True):
    """Kube-scheduler asks to bind `uid` to `node` and waits; our filter offered that node to it (docs/safety.md S2).

    It must be answered before `deadline_s`. `unusable`: members at bind, this one included, whose node has no more
    room for them or does not suit them any more, checked against the cache just now.
    """

    uid: PodUid
    node: NodeName
    request: RequestId
    now_s: float
    deadline_s: float
    unusable: frozenset[PodUid] = frozenset()


class GangChanged(msgspec.Struct, frozen=True):
    """Members or the minimum changed, or a bound member was seen: a held gang may now be whole, or never be.

    Why it exists: only a request or this event commits, because only they carry the room check that a commit needs.
    The service sends it after any change of a gang that holds requests; without it a gang whose quorum shrank would
    be held until its deadline. `unusable` as in `BindRequested`.
    """

    now_s: float
    unusable: frozenset[PodUid] = frozenset()


class MemberBound(msgspec.Struct, frozen=True):
    """The API server confirmed the Binding, or a watch shows the pod on `node`, whatever put it there."""

    uid: PodUid
    node: NodeName
    now_s: float


class BindFailed(msgspec.Struct, frozen=True):
    """The Binding of `uid` was refused, or its outcome is unknown.

    `terminal`: this pod can never be bound (404, 422), so no call waits for it. A 409 is looked up first: the pod is on
    a node, which is `MemberBound`, or it is gone. An unknown outcome is not terminal; if the Binding took effect after
    all, the watch says so. `error` is for the decision log and decides nothing.
    """

    uid: PodUid
    error: str
    terminal: bool
    now_s: float


class ClientGone(msgspec.Struct, frozen=True):
    """The caller of `request` closed its connection: it wants no answer, and its pod must not be bound for it."""

    request: RequestId
    now_s: float


class PodDeleted(msgspec.Struct, frozen=True):
    """The pod is gone from the API server, or is being deleted before it had a node."""

    uid: PodUid
    now_s: float


class NodeLost(msgspec.Struct, frozen=True):
    """The node is gone or was not ready for too long (docs/safety.md S12)."""

    node: NodeName
    now_s: float


class DeadlinePassed(msgspec.Struct, frozen=True):
    """The moment that `next_deadline_s` asked for has come."""

    now_s: float


class EvictionRefused(msgspec.Struct, frozen=True):
    """These members stay after all: an evicted member stops counting at once, so the machine must hear of it."""

    uids: tuple[PodUid, ...]
    now_s: float


class LeadershipLost(msgspec.Struct, frozen=True):
    """Another replica may act from now on: nothing more is posted. This state never leads again; a new one will."""

    now_s: float


Event: TypeAlias = (
    BindRequested | GangChanged | MemberBound | BindFailed | ClientGone | PodDeleted | NodeLost | DeadlinePassed
    | EvictionRefused | LeadershipLost
)  # fmt: skip


class Hold(msgspec.Struct, frozen=True):
    """Keep the call open; it will be answered by `deadline_s` or, if it is posted before, by its outcome."""

    request: RequestId
    deadline_s: float


class PostBinding(msgspec.Struct, frozen=True):
    """Post the Binding, with the pod's uid; report exactly one `MemberBound` or `BindFailed` for it.

    Its lease deadline is checked before (docs/safety.md S11); if it ran out, that is a non-terminal failure.
    """

    uid: PodUid
    node: NodeName


class Answer(msgspec.Struct, frozen=True):
    """Answer the call: success, or the reason why not."""

    request: RequestId
    error: Reason | None


class Release(msgspec.Struct, frozen=True):
    """These members are no longer at bind and were not bound by us: the planner may give their room away."""

    uids: tuple[PodUid, ...]


class Nudge(msgspec.Struct, frozen=True):
    """The first member of the gang is held: wake those of these siblings that kube-scheduler has parked."""

    uids: tuple[PodUid, ...]


class Evict(msgspec.Struct, frozen=True):
    """The gang stayed partial: evict its bound members on fresh state (docs/safety.md S10, S11); see above."""

    uids: tuple[PodUid, ...]


Instruction: TypeAlias = Hold | PostBinding | Answer | Release | Nudge | Evict


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
    held: Mapping[PodUid, Held] = {}  # member → its waiting call
    posting: Mapping[PodUid, Posting] = {}  # member → its Binding under way
    bound: Mapping[PodUid, NodeName] = {}
    """live member → its node, from the moment of confirmation: the cache may learn of it later"""
    evicting: frozenset[PodUid] = frozenset()  # Members that `Evict` named and that are still there: they count no more
    partial_until_s: float | None = None  # While partial and never whole: the moment of its eviction
    started: bool = False  # It was whole with bound members, and some are still there (docs/safety.md S8)
    leading: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.partial_timeout_s) and self.partial_timeout_s > 0.0):
            raise ValueError("partial_timeout_s must be finite and positive")


def next_deadline_s(state: PermitState) -> float | None:
    """When `DeadlinePassed` is due, monotonic, perhaps in the past; `None`: nothing waits for time. Cost: O(held)."""
    due = [h.deadline_s for h in state.held.values()]
    if state.partial_until_s is not None and not state.posting:
        due.append(state.partial_until_s)
    return min(due, default=None)
