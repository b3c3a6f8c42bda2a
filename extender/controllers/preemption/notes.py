"""What is written on a waiting gang's pods while others leave for it, so that a restart loses no room.

Why on the one that waits and not on those that leave: their pods are about to be gone. Rules (docs/safety.md S22): a
note says since when, and which nodes members of this very gang are to have; it names no gang, so nothing that is read
here can make a gang leave: a new leader keeps the reservation, and decides again. A gang too large for one note has
several, each on a pod of its own, of the same moment. It is read after a restart only, and ends with the claim that is
made of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from extender.controllers.events.recorder import pod_subject
from extender.convert.decode import note_from_json
from extender.convert.pod.pod import PREEMPTS_OPTION
from extender.notes import NoteKind, Notes
from scoring.ids import NodeName, PodUid
from scoring.model import Gang, Pod
from scoring.model.snapshot import Claim

NOTE: Final = NoteKind.PREEMPTS.value  # Annotation; see `_Written`. Empty: it is over.
_CONTENT_CHARS: Final = 3800  # Of one note, so that with its signature it is short enough to be read.


class _Written(msgspec.Struct, frozen=True):
    at_s: float  # When the room was claimed, Unix seconds.
    nodes: dict[str, str]  # Uid of a member → its node.


_WRITTEN = msgspec.json.Decoder(_Written)


@dataclass(frozen=True, slots=True)
class Noted:
    """The room that a gang's newest notes speak of."""

    at_s: float  # Unix seconds.
    assignment: Mapping[PodUid, NodeName]  # Members that wait → their nodes.
    carriers: tuple[Pod, ...]  # The pods that carry the notes.


def notes_for(gang: Gang, claim: Claim, *, at_s: float, notes: Notes) -> list[tuple[Pod, dict[str, str]]]:
    """The annotations that note a claim, and the pods to write them on; of a gang with too few pods a part is noted."""
    waiting = [pod for pod in gang.pending if pod.uid in claim.assignment]
    return [
        (pod, {NOTE: notes.write(NoteKind.PREEMPTS, pod_subject(pod), content)})
        for pod, content in zip(waiting, _contents(claim.assignment, at_s), strict=False)
    ]


def noted_of(gang: Gang) -> Noted | None:
    """What the newest notes on waiting members say; `None`: there are none.

    >>> from dataclasses import replace
    >>> from tests.builders import gang, pod
    >>> told = replace(pod("p"), options=(("preempts", '{"at_s":5.0,"nodes":{"uid-default-p":"n1","other":"n2"}}'),))
    >>> noted_of(gang("g", members=[told])).assignment
    {'uid-default-p': 'n1'}
    """
    found = list(_written(gang.pending))
    at_s = max((written.at_s for _, written in found), default=0.0)
    newest = [(pod, written) for pod, written in found if written.at_s == at_s]
    if not newest:
        return None
    uids = {pod.uid for pod in gang.pending}
    every = {PodUid(uid): NodeName(node) for _, written in newest for uid, node in written.nodes.items()}
    return Noted(at_s, {uid: node for uid, node in every.items() if uid in uids}, tuple(pod for pod, _ in newest))


def _contents(assignment: Mapping[PodUid, NodeName], at_s: float) -> list[str]:
    parts: list[dict[str, str]] = [{}]
    most = room = _CONTENT_CHARS - len(msgspec.json.encode(_Written(at_s, {})))
    for uid, node in sorted(assignment.items()):
        length = len(uid) + len(node) + len('"":"",')
        if length > room:
            parts.append({})
            room = most
        parts[-1][uid] = node
        room -= length
    return [msgspec.json.encode(_Written(at_s, part)).decode() for part in parts]


def _written(pods: Iterable[Pod]) -> Iterable[tuple[Pod, _Written]]:
    for pod in pods:
        text = dict(pod.options).get(PREEMPTS_OPTION)
        if text:
            try:
                yield pod, note_from_json(_WRITTEN, text, what=NOTE)
            except ValueError:
                continue  # ours by its signature, and of another release's making
