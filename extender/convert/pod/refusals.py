"""What kube-scheduler says of a pod that it did not place: the message of its condition PodScheduled.

Why read: an in-tree filter may refuse every node before /filter is asked, and then this message is the only trace.
Two kinds, by how kube-scheduler writes them (FitError, 1.36): after "nodes are available:" come numbers of
nodes and what each kind lacks, or, when a PreFilter plugin refused the pod itself, that plugin's words alone: the
volume claim does not exist, is being deleted or is not bound, a resource claim is missing. No other node helps then.
Rule: tenants cannot write a pod's status; the text is bounded all the same, and nothing of it is used but to say it.
"""

from sys import intern
from typing import Final, NamedTuple

import msgspec

from extender.convert.decode import Json, decode

OUR_WORDS: Final = "netgang:"
"""Every reason for which we refuse begins so."""
MOST_CHARACTERS: Final = 300
_COUNTED: Final = "nodes are available: "
_PREEMPTION: Final = " preemption: "
_NODEWISE: Final = "node(s) "


class Refusal(NamedTuple):
    """Why kube-scheduler did not place a pod."""

    text: str
    """Its own words; empty: it did not try, or we refused the pod."""
    obstacle: str
    """The part that holds whatever the node; empty: other nodes might do."""


class _Condition(Json):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None


SAYS_NOTHING: Final = Refusal("", "")
_conditions = msgspec.json.Decoder(list[_Condition])


def refusal_of(conditions: bytes) -> Refusal:
    """Read `status.conditions` of a pod without a node.

    >>> raw = b'[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "%s"}]'
    >>> refusal_of(raw % b"0/3 nodes are available: claim x not found. preemption: 0/3 nodes are available.").obstacle
    'claim x not found'
    >>> refusal_of(raw % b"0/3 nodes are available: 3 Insufficient cpu.")
    Refusal(text='0/3 nodes are available: 3 Insufficient cpu.', obstacle='')
    >>> refusal_of(raw % b"0/3 nodes are available: 3 netgang: another node is planned for this pod.") == SAYS_NOTHING
    True
    """
    if b"PodScheduled" not in conditions:
        return SAYS_NOTHING
    for one in decode(_conditions, conditions, what="status.conditions"):
        if one.type == "PodScheduled":
            message = one.message or ""
            if one.status != "False" or one.reason == "SchedulingGated" or not message or OUR_WORDS in message:
                return SAYS_NOTHING
            text = message.partition(_PREEMPTION)[0]
            return Refusal(_bounded(text), _bounded(_obstacle(text)))
    return SAYS_NOTHING


def _obstacle(text: str) -> str:
    """What stands after the head, unless it is about nodes."""
    _, counted, rest = text.partition(_COUNTED)
    whole = counted and not rest[:1].isdigit() and not rest.startswith(_NODEWISE)
    return rest.rstrip(".") if whole else ""


def _bounded(text: str) -> str:
    return intern(text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…")
