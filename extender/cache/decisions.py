"""What the service has decided and learned: commitments, exclusions, back-offs (docs/safety.md S4, S5, S7).

Rule: a commitment holds only members that still need a node; what expires does so when the service says the time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Claim, Commitment, MemberClass

V = TypeVar("V")
_MOST_ATTAINED = 10_000  # Gangs of which is remembered what they had before they were suspended


class _Refusal(msgspec.Struct, frozen=True):
    until_s: float
    by: GangKey | None  # Whose member was refused last; `None`: we turned away from the node ourselves


def _with(known: Mapping[GangKey, V], gang: GangKey, value: V | None) -> dict[GangKey, V]:
    """A copy in which the gang has this value, or with `None` no value."""
    fresh = {key: one for key, one in known.items() if key != gang}
    return fresh if value is None else fresh | {gang: value}


class Attained(msgspec.Struct, frozen=True):
    """Cluster-hours of a gang whose owner was suspended (`scoring.queue.service_levels`)."""

    owner_uid: str
    hours: float


class Decisions:
    """Mutable; each method returns whether anything changed. The mappings are replaced, never written again."""

    def __init__(self) -> None:
        self.commitments: Mapping[GangKey, Commitment] = {}  # Those with members left only
        self.exclusions: Mapping[MemberClass, frozenset[NodeName]] = {}  # class without its node affinity → nodes
        self.back_offs: Mapping[GangKey, float] = {}  # gang → Unix seconds before which it may not reserve again
        self.claims: Mapping[GangKey, Claim] = {}  # gang → the room that others leave for it
        self.attained: Mapping[GangKey, Attained] = {}  # gang → what it had before it was suspended
        self._committed: dict[PodUid, GangKey] = {}
        self._refusals: dict[MemberClass, dict[NodeName, _Refusal]] = {}

    def promises(self, node: NodeName) -> bool:
        """Whether a place on the node is committed. Cost: O(commitments)."""
        return any(node in commitment.nodes for commitment in self.commitments.values())

    def gang_of(self, uid: PodUid) -> GangKey | None:
        """The gang in which a pod is committed."""
        return self._committed.get(uid)

    def commit(self, gang: GangKey, assignment: Mapping[PodUid, NodeName]) -> bool:
        """Replace the gang's commitment; an empty assignment ends it. ValueError: a pod is another gang's."""
        for uid in assignment:
            if self._committed.get(uid, gang) != gang:
                raise ValueError(f"pod {uid} is committed in gang {self._committed[uid]}, not in {gang}")
        known = self.commitments[gang].assignment if gang in self.commitments else {}
        if assignment == known:
            return False
        for uid in known:
            del self._committed[uid]
        self._committed.update(dict.fromkeys(assignment, gang))
        self.commitments = _with(self.commitments, gang, Commitment(gang, dict(assignment)) if assignment else None)
        return True

    def settle(self, uid: PodUid) -> bool:
        """A member needs no node any more (bound, finished, going or gone): take it out of its commitment."""
        gang = self._committed.get(uid)
        if gang is None:
            return False
        return self.commit(gang, {u: node for u, node in self.commitments[gang].assignment.items() if u != uid})

    def exclude(self, member_class: MemberClass, node: NodeName, until_s: float, *, by: GangKey | None) -> bool:
        """Remember that `node` refused a member of the gang `by`; True when its class was not excluded before."""
        member_class = member_class.anywhere
        nodes = self._refusals.setdefault(member_class, {})
        known = nodes.get(node)
        nodes[node] = _Refusal(max(until_s, known.until_s), by) if known is not None else _Refusal(until_s, by)
        if known is None:
            self._publish([member_class])
        return known is None

    def passed(self, member_class: MemberClass, nodes: Iterable[NodeName], *, by: GangKey) -> bool:
        """Forget that `nodes` refused members of the gang `by`; what others' learned stays: labels may differ."""
        known = self._refusals.get(member_class.anywhere)
        if not known:
            return False
        wrong = [node for node in known.keys() & set(nodes) if known[node].by == by]
        for node in wrong:
            del known[node]
        self._publish([member_class.anywhere] if wrong else ())
        return bool(wrong)

    def forget_node(self, node: NodeName) -> bool:
        """A node changed or went: what it refused must be learned again (docs/safety.md S7)."""
        return self._drop_exclusions(lambda where, _: where == node)

    def back_off(self, gang: GangKey, until_s: float | None) -> bool:
        """Set, or with `None` end, the gang's back-off."""
        if self.back_offs.get(gang) == until_s:
            return False
        self.back_offs = _with(self.back_offs, gang, until_s)
        return True

    def claim(self, gang: GangKey, claim: Claim | None) -> bool:
        """Set, or with `None` end, the gang's claim."""
        if self.claims.get(gang) == claim:
            return False
        self.claims = _with(self.claims, gang, claim)
        return True

    def attain(self, attained: Mapping[GangKey, Attained]) -> bool:
        """Remember what gangs have had; the oldest of many are forgotten."""
        new = {gang: one for gang, one in attained.items() if self.attained.get(gang) != one}
        if not new:
            return False
        old = [(gang, one) for gang, one in self.attained.items() if gang not in new]
        self.attained = dict([*old, *new.items()][-_MOST_ATTAINED:])
        return True

    def expire(self, now_s: float) -> bool:
        """Drop exclusions and back-offs whose time has come."""
        expired = self._drop_exclusions(lambda _, refusal: refusal.until_s <= now_s)
        rest = {gang: until_s for gang, until_s in self.back_offs.items() if until_s > now_s}
        before, self.back_offs = self.back_offs, rest
        return expired or len(rest) < len(before)

    def _drop_exclusions(self, gone: Callable[[NodeName, _Refusal], bool]) -> bool:
        touched: list[MemberClass] = []
        for member_class, nodes in self._refusals.items():
            for node in [node for node, refusal in nodes.items() if gone(node, refusal)]:
                del nodes[node]
                touched.append(member_class)
        self._publish(touched)
        return bool(touched)

    def _publish(self, touched: Sequence[MemberClass]) -> None:
        if not touched:
            return
        fresh = dict(self.exclusions)
        for member_class in dict.fromkeys(touched):
            if nodes := self._refusals[member_class]:
                fresh[member_class] = frozenset(nodes)
            else:
                del self._refusals[member_class]
                fresh.pop(member_class, None)
        self.exclusions = fresh
