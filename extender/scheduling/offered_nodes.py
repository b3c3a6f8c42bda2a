"""Which nodes /filter offered to which pod, so that /bind is not a back door (docs/safety.md S2).

Rule: a Binding is posted only for a pair that is in here. A member of a gang has the one node that the plan gives it; a
pod without a gang has those that kube-scheduler asked about, of a native group those in its zone. Only calls of
kube-scheduler about our own pods write offers. After a restart the table is empty, and kube-scheduler asks again.

Names stay JSON: a call of 5,000 nodes has 100 kB of names, and reading them again would cost more than the rest of the
answer. They are kept as they came, searched once, at /bind, and bounded; one pushed out costs its pod an attempt.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scoring.ids import NodeName, PodUid

TTL_S: Final = 600.0  # So long kube-scheduler may wait for volumes before /bind (VolumeBinding's bindTimeoutSeconds)
ASKED_MAX_BYTES: Final = 64 * 2**20  # 600 pods at 5,000 nodes; nearly every pod comes to /bind within milliseconds


class _Offer(msgspec.Struct, frozen=True):
    node: NodeName | None  # A member's node; `None`: the pod has no gang, and `asked` says which nodes it may have
    asked: bytes
    until_s: float


@dataclass(eq=False, repr=False, kw_only=True)
class Offers:
    """The offers of the last `ttl_s` that came to nothing yet, at most `limit` of them; the oldest leave first."""

    ttl_s: float = TTL_S
    limit: int = 100_000
    asked_max_bytes: int = ASKED_MAX_BYTES
    _asked_bytes: int = field(default=0, init=False)
    _offers: OrderedDict[PodUid, _Offer] = field(default_factory=OrderedDict, init=False)

    def note(self, uid: PodUid, node: NodeName, *, now_s: float) -> None:
        """Remember that the member `uid` may go to `node`."""
        self._keep(uid, _Offer(node, b"", now_s + self.ttl_s), now_s=now_s)

    def note_asked(self, uid: PodUid, names_json: bytes, *, now_s: float) -> None:
        """Remember that `uid`, which has no gang, may go to these nodes (a JSON array of names)."""
        self._keep(uid, _Offer(None, names_json, now_s + self.ttl_s), now_s=now_s)

    def taken(self, uid: PodUid) -> None:
        """The pod has its node: no call will name it again, and most pods come and go within `ttl_s`."""
        if (offer := self._offers.pop(uid, None)) is not None:
            self._asked_bytes -= len(offer.asked)

    def allows(self, uid: PodUid, node: NodeName, *, now_s: float) -> bool:
        """Whether this pair was offered recently. O(bytes of the names asked), once for each bind."""
        offer = self._offers.get(uid)
        if offer is None or offer.until_s <= now_s:
            return False
        return offer.node == node if offer.node is not None else _names(offer.asked, node)

    def alone(self, uid: PodUid) -> bool:
        """Whether the pod was offered nodes as one that has no gang."""
        offer = self._offers.get(uid)
        return offer is not None and offer.node is None

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._offers.clear()
        self._asked_bytes = 0

    def __len__(self) -> int:
        return len(self._offers)

    def _keep(self, uid: PodUid, offer: _Offer, *, now_s: float) -> None:
        self.taken(uid)
        self._offers[uid] = offer
        self._asked_bytes += len(offer.asked)
        while self._offers and (
            len(self._offers) > self.limit
            or self._asked_bytes > self.asked_max_bytes
            or next(iter(self._offers.values())).until_s <= now_s
        ):
            _, oldest = self._offers.popitem(last=False)
            self._asked_bytes -= len(oldest.asked)


def _names(asked: bytes, node: NodeName) -> bool:
    r"""Whether a JSON array of strings has this one.

    An array without a backslash has no quote inside a name, so a quoted name is an element.

    >>> _names(b'["n1", "n2"]', NodeName("n2")), _names(b'["n1","n22"]', NodeName("n2"))
    (True, False)
    >>> _names(b'["n1","n2"]', NodeName('n1","n2')), _names(b'["a\\"n2"]', NodeName("n2"))
    (False, False)
    """
    if b"\\" in asked:
        return node in msgspec.json.decode(asked, type=list[str])
    return msgspec.json.encode(node) in asked
