"""A pod's conditions, and what PodScheduled says of a pod that kube-scheduler did not place: its message.

An in-tree filter may refuse every node before /filter is asked, and then this message is the only trace. After "nodes
are available:" (FitError, 1.36) come numbers of nodes and what each kind lacks, or, when a PreFilter plugin refused the
pod itself (a claim is missing or not bound), that plugin's words alone: no other node helps then. Bounded, and shown.
"""

from datetime import datetime
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

from extender.convert.decode import Json, decode, seconds
from scoring.ids import PodUid
from scoring.queue.admitted_condition import CONDITION, AdmittedCondition

OUR_WORDS: Final = "netgang:"  # Every reason for which we refuse begins so
MOST_CHARACTERS: Final = 300
_REASON_CHARS: Final = 64
_COUNTED: Final = "nodes are available: "
_LACKS: Final = " Insufficient "
_PREEMPTION: Final = " preemption: "
_NODEWISE: Final = "node(s) "


class Condition(Json):
    """One of `status.conditions`."""

    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class Refusal(NamedTuple):
    """Why kube-scheduler did not place a pod."""

    text: str  # Its own words; empty: it did not try, or we refused the pod
    obstacle: str  # The part that holds whatever the node; empty: other nodes might do


SAYS_NOTHING: Final = Refusal("", "")
_conditions = msgspec.json.Decoder(list[Condition])


def condition(raw: bytes | msgspec.Raw, kind: str) -> Condition | None:
    """The condition of this type in `status.conditions`; they are decoded only if its name is there."""
    text = bytes(raw)
    if kind.encode() not in text:
        return None
    return next((one for one in decode(_conditions, text, what="status.conditions") if one.type == kind), None)


def told_by(conditions: bytes | msgspec.Raw) -> str:
    """What our condition on the pod says, as `AdmittedCondition.key`; empty: it has none, or not of our making.

    >>> told_by(b'[{"type": "netgang.io/Admitted", "status": "False", "reason": "NoRoom"}]')
    'False/NoRoom'
    """
    found = condition(conditions, CONDITION)
    if found is None or len(found.reason or "") > _REASON_CHARS or found.status not in ("True", "False"):
        return ""
    return intern(AdmittedCondition(found.status, found.reason or "").key)


def condition_patch(uid: PodUid, wanted: AdmittedCondition, *, at: str) -> bytes:
    """The strategic merge patch that writes our condition alone; `at`: since when its status is so; empty: as before.

    >>> condition_patch(PodUid("u1"), AdmittedCondition("True", "Admitted", "ok"), at="")  # doctest: +ELLIPSIS
    b'{"metadata":{"uid":"u1"},"status":{"conditions":[{"type":"netgang.io/Admitted","status":"True",...}]}}'
    """
    said: dict[str, Any] = {"type": CONDITION, "status": wanted.status, "reason": wanted.reason}
    said |= {"message": wanted.message} | ({"lastTransitionTime": at} if at else {})
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": {"conditions": [said]}})


def refusal_of(scheduled: Condition) -> Refusal:
    """Read the condition PodScheduled of a pod without a node.

    >>> def said(message): return refusal_of(Condition("PodScheduled", "False", "Unschedulable", message))
    >>> said("0/3 nodes are available: claim x not found. preemption: 0/3 nodes are available.").obstacle
    'claim x not found'
    >>> said("0/3 nodes are available: 3 Insufficient cpu.")
    Refusal(text='0/3 nodes are available: 3 Insufficient cpu.', obstacle='')
    >>> said("0/3 nodes are available: 3 netgang: another node is planned for this pod.") == SAYS_NOTHING
    True
    """
    message = scheduled.message or ""
    if scheduled.status != "False" or scheduled.reason == "SchedulingGated" or not message or OUR_WORDS in message:
        return SAYS_NOTHING
    text = message.partition(_PREEMPTION)[0]
    _, counted, rest = text.partition(_COUNTED)
    whatever_the_node = counted and not rest[:1].isdigit() and not rest.startswith(_NODEWISE)
    return Refusal(_bounded(text), _bounded(rest.rstrip(".") if whatever_the_node else ""))


def bound_s(scheduled: Condition | None) -> float | None:
    """When a pod got its node; only gangs ask for it, so only their members' conditions are read."""
    if scheduled is None or scheduled.status != "True" or scheduled.last_transition_time is None:
        return None
    return seconds(scheduled.last_transition_time)


def is_refused(scheduled: Condition | None) -> bool:
    """Whether kube-scheduler tried the pod and found no node; after SchedulerError it tries again by itself."""
    return scheduled is not None and (scheduled.status, scheduled.reason) == ("False", "Unschedulable")


def refused_by_filters(scheduled: Condition | None, *, native: bool) -> bool:
    """Whether kube-scheduler's own filters refused all nodes. A message with our reason says that we were asked.

    Of a native gang one that speaks of no nodes says that it failed as a whole, for want of a place for another member;
    and room that is lacking was taken a moment before: the watch shows it, and the node is as good as ever.
    """
    if scheduled is None or not is_refused(scheduled):
        return False
    message = scheduled.message or ""
    return OUR_WORDS not in message and (not native or (_COUNTED in message and _LACKS not in message))


def _bounded(text: str) -> str:
    return intern(text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…")
