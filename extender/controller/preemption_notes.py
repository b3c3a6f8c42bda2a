"""What is written on a waiting gang's pod while others leave for it, so that a restart forgets neither (DESIGN §6).

Why on the one that waits and not on those that leave: their pods are about to be gone. Rules: the note names the pod's
uid, which makes it worthless in a template; it is read after a restart only, and counts only if some of those that it
names have begun to leave; it ends with the claim that is made of it.
"""

from collections.abc import Iterable

import msgspec

from extender.convert.roles import OWN_PREFIX
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, Pod
from scoring.snapshot import Claim

_OPTION = "preempts"
NOTE = OWN_PREFIX + _OPTION
"""Annotation; see `Note`. Empty: it is over."""


class Note(msgspec.Struct, frozen=True):
    """Who leaves, and where the pods of the gang go then."""

    uid: str
    """Of the pod that carries it."""
    at_s: float
    """Unix seconds. Pods of those that leave which are younger have come back already."""
    victims: tuple[str, ...]
    pods: int
    """How many pods of theirs were on nodes."""
    nodes: dict[str, str]
    """Uid of a member → its node."""

    def claim(self, gang: GangKey) -> Claim:
        """The claim that was made."""
        assignment = {PodUid(uid): NodeName(node) for uid, node in self.nodes.items()}
        return Claim(gang, assignment, tuple(GangKey(one) for one in self.victims))


_NOTE = msgspec.json.Decoder(Note)


def note_for(pod: Pod, claim: Claim, *, pods: int, at_s: float) -> dict[str, str]:
    """The annotations that note a claim on one of the gang's pods."""
    nodes = {str(uid): str(node) for uid, node in sorted(claim.assignment.items())}
    note = Note(pod.uid, at_s, tuple(str(one) for one in claim.givers), pods, nodes)
    return {NOTE: msgspec.json.encode(note).decode()}


def note_of(gang: Gang) -> tuple[Pod, Note] | None:
    """The newest note on a waiting member, and the member; `None`: there is none that counts.

    >>> from dataclasses import replace
    >>> from tests.builders import gang, pod
    >>> waits = pod("p")
    >>> text = note_for(waits, Claim(GangKey("default/g"), {waits.uid: NodeName("n1")}), pods=1, at_s=5.0)[NOTE]
    >>> note_of(gang("g", members=[replace(waits, options=(("preempts", text),))]))[1].nodes
    {'uid-default-p': 'n1'}
    >>> note_of(gang("g", members=[pod("copy", options=(("preempts", text),)), pod("q", options=(("preempts", ""),))]))
    """
    return max(_notes(gang.pending), key=lambda one: (one[1].at_s, one[0].name), default=None)


def _notes(pods: Iterable[Pod]) -> Iterable[tuple[Pod, Note]]:
    for pod in pods:
        text = dict(pod.options).get(_OPTION)
        if not text:
            continue
        try:
            note = _NOTE.decode(text)
        except msgspec.DecodeError:
            continue
        if note.uid == pod.uid:
            yield pod, note
