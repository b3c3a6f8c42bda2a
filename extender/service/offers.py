"""Which nodes our own filter offered to which pod, so that /bind is not a back door (S2).

Rule: a Binding is posted only for a pair that is in here. Only calls of kube-scheduler write offers; people's debugging
calls do not. Bounded in number and time: after a restart the table is empty, and kube-scheduler asks again.
"""

from collections import OrderedDict

import msgspec

from scoring.ids import NodeName, PodUid


class _Offer(msgspec.Struct, frozen=True):
    node: NodeName | None
    """`None`: any node (a pod without a gang keeps all the nodes it was asked for)."""
    until_s: float


class Offers:
    """The offers of the last `ttl_s` that came to nothing yet, at most `limit` of them; the oldest leave first."""

    def __init__(self, *, ttl_s: float = 600.0, limit: int = 100_000) -> None:
        self._ttl_s = ttl_s
        self._limit = limit
        self._offers: OrderedDict[PodUid, _Offer] = OrderedDict()

    def note(self, uid: PodUid, node: NodeName | None, *, now_s: float) -> None:
        """Remember that `uid` may go to `node`; `None`: wherever kube-scheduler decides."""
        self._offers[uid] = _Offer(node, now_s + self._ttl_s)
        self._offers.move_to_end(uid)
        while len(self._offers) > self._limit or next(iter(self._offers.values())).until_s <= now_s:
            self._offers.popitem(last=False)

    def taken(self, uid: PodUid) -> None:
        """The pod has its node: nobody will ask for one again, and most pods come and go within `ttl_s`."""
        self._offers.pop(uid, None)

    def allows(self, uid: PodUid, node: NodeName, *, now_s: float) -> bool:
        """Whether this pair was offered recently."""
        offer = self._offers.get(uid)
        return offer is not None and offer.until_s > now_s and offer.node in (None, node)

    def anywhere(self, uid: PodUid) -> bool:
        """Whether the pod was offered whatever kube-scheduler decides, as a pod without a gang is."""
        offer = self._offers.get(uid)
        return offer is not None and offer.node is None

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._offers.clear()

    def __len__(self) -> int:
        return len(self._offers)
