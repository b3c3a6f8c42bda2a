"""What the one writer of cluster state has beside objects: its version, and what the service decided and learned.

Rules: while a list is taken over, all changes count as one, and no snapshot shows half of it. Mappings are replaced,
never written again, because snapshots share them (docs/safety.md S4, S5, S7). Of objects that the API server has and
that cannot be read each kind's reflector writes a bounded record, for users (docs/safety.md S21).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Final, Generic, TypeVar

import msgspec

from scoring import GangKey, NodeName, PodUid
from scoring.model import DaemonSet, MemberClass, Node, Pod, PodGroup, Reservation, Snapshot

_MOST_ATTAINED: Final = 10_000  # Owners of gangs of which is remembered what they had before they were suspended
_SETTLED_EVERY: Final = 50  # Changes: as many new gangs take 7 to 12 ms
MOST_UNREADABLE: Final = 1000  # Objects of a kind that are remembered; their number may be larger
_WHY_CHARS: Final = 300
LONGEST_KEY: Final = 63 + 1 + 253  # Longest namespace and name; what is longer the API server has not written
T = TypeVar("T", bound=Node | Pod | PodGroup | DaemonSet)
V = TypeVar("V")


class _Refusal(msgspec.Struct, frozen=True):
    until_s: float
    by: GangKey | None  # Whose member was refused last; `None`: we turned away from the node ourselves


class ClusterState(ABC):
    """Version and decisions."""

    def __init__(self) -> None:
        self.on_change: Callable[[bool], None] = lambda _: None
        """Called after each change of `version`, on the caller's stack: take note. Whether a plan foresaw it: a member
        on the node that it was committed to, the gate that we removed, the commitment itself."""
        self.version = 1  # That the next snapshot will have
        self.expected = False  # The change that is about to be reported was foreseen
        self._lists = 0  # That are being taken over
        self._held_changes = 0  # While lists are
        self.commitments: Mapping[GangKey, Reservation] = {}  # Those with members left only
        self.exclusions: Mapping[MemberClass, frozenset[NodeName]] = {}  # class without its node affinity → nodes
        self.back_offs: Mapping[GangKey, float] = {}  # gang → Unix seconds before which it may not reserve again
        self.claims: Mapping[GangKey, Reservation] = {}  # gang → the room that others leave for it
        self.attained: Mapping[tuple[GangKey, str], float] = {}  # gang, its owner's uid → hours before the suspension
        self._committed: dict[PodUid, GangKey] = {}
        self._refusals: dict[MemberClass, dict[NodeName, _Refusal]] = {}

    def changed(self) -> None:
        """Something that can decide changed, if only the queue's order by the time."""
        if self._lists:
            self._held_changes += 1
            if self._held_changes % _SETTLED_EVERY == 0:
                self.settle()
            return
        self.version += 1
        if self.version % _SETTLED_EVERY == 0:
            self.settle()
        expected, self.expected = self.expected, False
        self.on_change(expected)

    def note(self, changed: bool) -> None:
        """Report a change if there was one."""
        if changed:
            self.changed()

    def list_begun(self) -> None:
        """Hold back snapshots, and gather all changes into one."""
        if not self._lists:
            self.snapshot()
        self._lists += 1

    def list_ended(self) -> None:
        """Report what changed, unless another list is being taken over."""
        self._lists -= 1
        self.expected = False
        if not self._lists and self._held_changes:
            self._held_changes = 0
            self.changed()

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state of now, while a list is taken over that of before."""

    @abstractmethod
    def settle(self) -> None:
        """Do now, in the middle of a long change, what the next snapshot would have to do."""

    def commit(self, gang: GangKey, assignment: Mapping[PodUid, NodeName]) -> bool:
        """Replace the gang's commitment; an empty one ends it; whether it is news. ValueError: a pod is another's."""
        for uid in assignment:
            if self._committed.get(uid, gang) != gang:
                raise ValueError(f"pod {uid} is committed in gang {self._committed[uid]}, not in {gang}")
        before = self.commitments[gang].assignment if gang in self.commitments else {}
        if assignment == before:
            return False
        for uid in before:
            del self._committed[uid]
        self._committed.update(dict.fromkeys(assignment, gang))
        self.commitments = _with(self.commitments, gang, Reservation(gang, dict(assignment)) if assignment else None)
        return True

    def release(self, uid: PodUid) -> bool:
        """A member needs no node any more (bound, finished, going or gone); whether it was committed to one."""
        gang = self._committed.get(uid)
        if gang is None:
            return False
        assignment = self.commitments[gang].assignment
        return self.commit(gang, {other: node for other, node in assignment.items() if other != uid})

    def committed_node(self, gang: GangKey, uid: PodUid) -> NodeName | None:
        """The node that a waiting member of the gang is committed to; `None`: to none, or as another gang's member."""
        return self.commitments[gang].assignment[uid] if self._committed.get(uid) == gang else None

    def free_to_commit(self, gang: GangKey, assignment: Mapping[PodUid, NodeName]) -> dict[PodUid, NodeName]:
        """The part of `assignment` that `commit` takes: without pods that changed gangs a moment ago."""
        return {uid: node for uid, node in assignment.items() if self._committed.get(uid, gang) == gang}

    def promises(self, node: NodeName) -> bool:
        """Whether a place on the node is committed. Cost: O(commitments)."""
        return any(node in commitment.nodes for commitment in self.commitments.values())

    def exclude(self, member_class: MemberClass, node: NodeName, until_s: float, *, by: GangKey | None = None) -> None:
        """`node` refused the class, until `until_s` (Unix) or it changes; `by`: whose member, which can revoke it."""
        member_class = member_class.anywhere
        nodes = self._refusals.setdefault(member_class, {})
        before = nodes.get(node)
        nodes[node] = _Refusal(until_s if before is None else max(until_s, before.until_s), by)
        self.note(before is None and self._publish([member_class]))

    def passed(self, pod: Pod, nodes: Collection[NodeName]) -> bool:
        """kube-scheduler's other filters pass these nodes for a member: whether any was thought to refuse it."""
        if not self.exclusions or pod.group is None:
            return False
        refusals = self._refusals.get(pod.member_class.anywhere, {})
        # What was learned of other gangs' members stays: their labels may differ.
        wrong = [node for node in refusals.keys() & set(nodes) if refusals[node].by == pod.group.key]
        for node in wrong:
            del refusals[node]
        self.note(self._publish([pod.member_class.anywhere] if wrong else ()))
        return bool(wrong)

    def drop_refusals(self, gone: Callable[[NodeName, _Refusal], bool]) -> bool:
        """Forget what nodes refused, of which `gone` says so; whether there was any."""
        touched: list[MemberClass] = []
        for member_class, nodes in self._refusals.items():
            for node in [node for node, refusal in nodes.items() if gone(node, refusal)]:
                del nodes[node]
                touched.append(member_class)
        return self._publish(touched)

    def _publish(self, touched: Sequence[MemberClass]) -> bool:
        """Show what is known of these classes; whether there are any."""
        if touched:
            self._refusals = {kind: nodes for kind, nodes in self._refusals.items() if nodes}
            fresh = {kind: frozenset(self._refusals.get(kind, ())) for kind in touched}
            self.exclusions = {kind: nodes for kind, nodes in {**self.exclusions, **fresh}.items() if nodes}
        return bool(touched)

    def back_off(self, gang: GangKey, until_s: float | None) -> None:
        """Let the gang reserve nothing before `until_s` (Unix seconds); `None` ends that (docs/safety.md S5)."""
        self.note(self.backs_off(gang, until_s))

    def backs_off(self, gang: GangKey, until_s: float | None) -> bool:
        """The same, not reported: whether it is news."""
        news = self.back_offs.get(gang) != until_s
        if news:
            self.back_offs = _with(self.back_offs, gang, until_s)
        return news

    def set_claim(self, gang: GangKey, claim: Reservation | None) -> None:
        """Keep the room that others leave for a gang; `None`: no more, it has its nodes, or its time is over."""
        if self.claims.get(gang) != claim:
            self.claims = _with(self.claims, gang, claim)
            self.changed()

    def set_attained(self, attained: Mapping[tuple[GangKey, str], float]) -> None:
        """Remember cluster-hours; those of one owner only grow (docs/safety.md S22), and the oldest of many leave."""
        new = {owner: hours for owner, hours in attained.items() if hours > self.attained.get(owner, 0.0)}
        if new:
            old = [(owner, hours) for owner, hours in self.attained.items() if owner not in new]
            self.attained = dict([*old, *new.items()][-_MOST_ATTAINED:])
            self.changed()


def _with(by_gang: Mapping[GangKey, V], gang: GangKey, value: V | None) -> dict[GangKey, V]:
    """A copy in which the gang has this value, or with `None` no value."""
    fresh = {key: other for key, other in by_gang.items() if key != gang}
    return fresh if value is None else fresh | {gang: value}


class Watched(ABC, Generic[T]):
    """The objects of one kind: an `extender.kube.reflector.Sink`. Cost of a call: O(1) and the gang it touches.

    Each kind says how it takes over a record and drops one, and whether that can decide anything new; `held`: its keys.
    """

    def __init__(self, state: ClusterState, held: Collection[str]) -> None:
        self._state = state
        self._held = held

    @abstractmethod
    def _take(self, item: T) -> bool: ...

    @abstractmethod
    def _drop(self, key: str) -> bool: ...

    def key(self, item: T) -> str:
        """What the record is called."""
        return item.key

    def put(self, item: T) -> None:
        """Take over one record as watched or listed."""
        self._state.note(self._take(item))

    def remove(self, key: str) -> None:
        """Forget one record; an unknown key changes nothing."""
        self._state.note(self._drop(key))

    def list_begun(self, keys: Set[str]) -> None:
        """What is not among these is gone, before it counts beside what came later; `snapshot` answers as before."""
        self._state.list_begun()
        for key in [key for key in self._held if key not in keys]:
            self.remove(key)

    def list_ended(self) -> None:
        """All of the list has been put; it is one change."""
        self._state.list_ended()

    def replace(self, items: Sequence[T]) -> None:
        """Take over a complete list in one go. Cost: O(n)."""
        self.list_begun({self.key(item) for item in items})
        try:
            for item in items:
                self.put(item)
        finally:
            self.list_ended()


class Unreadable(msgspec.Struct, frozen=True):
    """An object that cannot be read now."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    why: str


class UnreadableKind:
    """Those of one kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        self._of = api_version, kind
        self.now: dict[str, Unreadable] = {}  # `namespace/name`, for kinds outside namespaces the name → what is known
        self.readings = 0  # How often an object of the kind could not be read, since the start

    def failed(self, key: str, error: Exception, *, uid: str = "") -> None:
        """An object could not be read; without a key it is not known which."""
        self.readings += 1
        if 0 < len(key) <= LONGEST_KEY and (key in self.now or len(self.now) < MOST_UNREADABLE):
            namespace, _, name = key.rpartition("/")
            self.now[key] = Unreadable(*self._of, namespace, name, uid[:253], words(error))

    def passed(self, key: str) -> None:
        """The object was read, or is gone."""
        self.now.pop(key, None)

    def keep_only(self, keys: Collection[str]) -> None:
        """A whole list was read, in which only these could not be."""
        self.now = {key: unreadable for key, unreadable in self.now.items() if key in keys}


class UnreadableObjects:
    """Those of all kinds."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], UnreadableKind] = {}

    def of_kind(self, api_version: str, kind: str) -> UnreadableKind:
        """The book of a kind, such as `v1` and `Pod`."""
        return self._kinds.setdefault((api_version, kind), UnreadableKind(api_version, kind))

    def __iter__(self) -> Iterator[Unreadable]:
        return chain.from_iterable(book.now.values() for book in self._kinds.values())


def words(error: Exception) -> str:
    """What is wrong, in one short line: a tenant's text may be quoted in it.

    >>> words(ValueError("cpu: 'x' is not a quantity")), words(KeyError("spec"))
    ("cpu: 'x' is not a quantity", "KeyError: 'spec'")
    """
    text = ("" if isinstance(error, ValueError) else f"{type(error).__name__}: ") + str(error)[: 2 * _WHY_CHARS]
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= _WHY_CHARS else line[: _WHY_CHARS - 1] + "…"
