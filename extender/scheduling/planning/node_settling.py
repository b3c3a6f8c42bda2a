"""Say what nodes keep free for pods of DaemonSets that are still to come, for explain.

Why: that room is neither free nor taken by anything that `kubectl` shows. Rule: the DaemonSets that keep most are
named, and those whose time is over too, because an operator should look why their pods do not come.
"""

from collections.abc import Sequence
from typing import Final

from extender.cache.daemons.room import KeptRoom
from scoring.explain.around import Note, Topic
from scoring.explain.words import counted, duration_text, some

_MOST: Final = 3  # DaemonSets of either kind that are named


def kept_notes(kept: Sequence[KeptRoom], *, now_s: float) -> tuple[Note, ...]:
    """The sentences, at `now_s` (Unix seconds).

    >>> from scoring.ids import NodeName
    >>> young = KeptRoom("kube-system/cni", (NodeName("n1"), NodeName("n2")), 90.0, 0)
    >>> for note in kept_notes([young, KeptRoom("a/b", (), 0.0, 1)], now_s=60.0):
    ...     print(note.text)
    n1, n2 keep room free for the pod of DaemonSet kube-system/cni, for another 30 s at most
    DaemonSet a/b has had no pod on 1 node for longer than node_settle_s: no room is kept free for it there
    """
    keep = sorted((one for one in kept if one.nodes), key=lambda one: -len(one.nodes))[:_MOST]
    over = sorted((one for one in kept if one.overdue), key=lambda one: -one.overdue)[:_MOST]
    texts = [
        f"{some(one.nodes)} {'keeps' if len(one.nodes) == 1 else 'keep'} room free for the pod of DaemonSet "
        f"{one.daemon_set}, for another {duration_text(one.until_s - now_s)} at most"
        for one in keep
    ]
    texts += [
        f"DaemonSet {one.daemon_set} has had no pod on {counted(one.overdue, 'node')} for longer than node_settle_s: "
        "no room is kept free for it there"
        for one in over
    ]
    return tuple(Note(Topic.DAEMON_SET, text) for text in texts)
