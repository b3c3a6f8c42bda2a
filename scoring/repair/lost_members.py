"""What a started gang that lost members is given: successors beside the others, a restart as a whole, or nothing.

Why a memory: a lost member's successor may be there a second later, and then no API object shows that one was lost.
So while a gang is whole its *crew* is noted: which member has which index. Rules (docs/safety.md S8):

- Broken: members of the crew are lost, and those left of it are fewer than the minimum, or not the minimum set. A
  member that comes beyond the crew (scale-out) breaks nothing; one that succeeded is never lost, and a gang in which
  such a pod was collected is finishing: what its minimum is by now, only its owner knows.
- A crew ends when the gang is whole again, with any members; when none of it is left, the next is another gang's start.
- After a restart of ours the crew of a gang that had started, by our own evidence, is read from what dead members,
  and successors below the highest index, have left.
- `replace` and `none` remove no pod, so for them a broken gang is only something to explain.
- `restart`: after `settle_s`, in which a node, or the watch, may come back; never while members finish.
"""

from collections.abc import Container, Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from scoring.feasibility.quorum import Quorum, minimum_members
from scoring.ids import NodeName, PodName, PodUid
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.policy import RepairPolicy

Seat: TypeAlias = tuple[Role, int] | PodUid  # Role and index; without an index each pod is its own


class Cause(StrEnum):
    """How a member was lost; the value completes "pod X is lost: …"."""

    NODE_GONE = "its node {node} is gone"
    NODE_SILENT = "its node {node} does not answer"
    FAILED = "it failed on node {node}"
    REMOVED = "it was removed"


class Member(msgspec.Struct, frozen=True):
    """A member of the crew."""

    uid: PodUid
    name: PodName
    node: NodeName | None
    finished: bool = False  # It succeeded: it counts permanently, also when its pod is collected


class Loss(msgspec.Struct, frozen=True):
    """A member that is lost, and its successor."""

    name: PodName
    node: NodeName | None
    cause: Cause
    stays: bool  # Its pod is still there, and in its successor's way
    successor: Pod | None  # The pod that takes its index; `None`: none yet

    @property
    def cause_text(self) -> str:
        """The cause, with the node's name."""
        return self.cause.format(node=self.node)


class Crew(msgspec.Struct, frozen=True):
    """The members that made a gang whole, and since when it is broken."""

    members: Mapping[Seat, Member]
    broken_since_s: float | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether it lost more than it can do without."""
        return self.broken_since_s is not None


def observe(
    before: Crew | None, gang: Gang, quorum: Quorum, *, known: Container[NodeName], now_s: float
) -> Crew | None:
    """The crew after a look at the gang; `None`: it was never whole, or is another gang by now. Cost: O(members).

    `quorum` is the gang's, without those on lost nodes; `known`: the nodes that the cluster has.
    """
    whole = quorum.whole
    if before is None:
        before = Crew(_traces(gang, quorum) if quorum.started and not whole else {})
    ended = {seat: replace(one, finished=True) for seat, one in before.members.items() if one.uid in quorum.finished}
    before = replace(before, members={**before.members, **ended})
    uids = {member.uid for member in before.members.values()}
    alive = uids & quorum.placed
    if not alive and not any(pod.uid in uids and not pod.terminal and not pod.deleting for pod in gang.members):
        return Crew(_seated(gang, quorum)) if whole else None
    lost = [seat for seat, one in before.members.items() if one.uid not in quorum.placed and not one.finished]
    collected = any(one.finished and one.uid not in quorum.placed for one in before.members.values())
    if not lost or collected or quorum.reached_by(alive):
        return Crew(_seated(gang, quorum)) if whole else replace(before, broken_since_s=None, losses=())
    since_s = now_s if before.broken_since_s is None else before.broken_since_s
    losses = tuple([_loss(before.members[seat], seat, gang, known) for seat in sorted(lost, key=str)])
    return replace(before, broken_since_s=since_s, losses=losses)


def repaired(crew: Crew, quorum: Quorum, gang: Gang) -> Crew | None:
    """The crew of a gang that is whole again with its successors, as its repair is over; `None`: it is not."""
    return Crew(_seated(gang, quorum)) if crew.broken and quorum.whole else None


def due_s(crew: Crew, gang: Gang, limits: RepairPolicy) -> float | None:
    """When (same clock as `observe`) a broken gang that asks for it is to be restarted; `None`: it is not."""
    if crew.broken_since_s is None or any(pod.phase is Phase.SUCCEEDED for pod in gang.members):
        return None
    return crew.broken_since_s + limits.settle_s


def not_before_s(history: tuple[float, ...], limits: RepairPolicy) -> float:
    """Unix seconds before which a gang that was restarted at these moments is not restarted again.

    The k-th restart in an hour waits `backoff_s` × 2^(k−1) after the one before, and there are `most_per_hour` of them.
    """
    if not history:
        return 0.0
    waits_s = history[-1] + limits.backoff_s * 2.0 ** (len(history) - 1)
    over = len(history) - limits.most_per_hour
    return max(waits_s, history[over] + 3600.0) if over >= 0 else waits_s


def words_of(crew: Crew) -> str:
    """What is wrong and what is waited for, in sentences for people; empty when the gang is not broken."""
    if not crew.broken:
        return ""
    first = crew.losses[0]
    more = f" (and {len(crew.losses) - 1} more)" if len(crew.losses) > 1 else ""
    lost = f"Pod {first.name}{more} is lost: {first.cause_text}."
    silent = sorted({loss.node for loss in crew.losses if loss.stays and loss.node is not None})
    absent = [loss for loss in crew.losses if loss.successor is None and not loss.stays]
    waiting = [one.successor.name for one in crew.losses if one.successor is not None and one.successor.node is None]
    parts = [lost]
    if silent:
        nodes = ", ".join(silent)
        parts.append(f"Its pod is still there: waiting for node {nodes} to be removed or to come back.")
    if absent:
        parts.append(f"Waiting for its owner to create {len(absent)} new pod{'s' if len(absent) > 1 else ''}.")
    if waiting:
        parts.append(f"Pod {waiting[0]} takes its place, as soon as there is room beside the others.")
    return " ".join(parts)


def _seat(pod: Pod) -> Seat:
    return (pod.role, pod.index) if pod.index is not None else pod.uid


def _seated(gang: Gang, quorum: Quorum) -> dict[Seat, Member]:
    return {
        _seat(pod): Member(pod.uid, pod.name, pod.node, finished=pod.uid in quorum.finished)
        for pod in gang.members
        if pod.uid in quorum.placed
    }


def _traces(gang: Gang, quorum: Quorum) -> dict[Seat, Member]:
    """The crew of a broken gang that is seen for the first time, from what those that are lost have left.

    - Remains: a dead member that had a node before a live member was created is of an earlier start.
    - A successor that waits: created after a live member got its node, when all of the minimum were there; by its
      index it is below a running member, as scale-out comes above them all. Its forerunner gets its name.

    Empty where no member is known to be lost.
    """
    living = [pod for pod in gang.members if pod.uid in quorum.placed and not pod.terminal]
    born_s = min((pod.created_s for pod in living), default=None)
    placed_s = min((pod.scheduled_s for pod in living if pod.scheduled_s is not None), default=None)
    highest = {pod.role: pod.index for pod in sorted(living, key=lambda pod: pod.index or 0) if pod.index is not None}
    minimum = {pod.uid for pod in minimum_members(gang, lost_nodes=quorum.lost_nodes)}
    lost: dict[Seat, Member] = {}
    for pod in gang.members:
        if pod.uid in quorum.placed:
            continue
        if pod.node is not None and pod.scheduled_s is not None and born_s is not None and born_s <= pod.scheduled_s:
            lost[_seat(pod)] = Member(pod.uid, pod.name, pod.node)
        below = pod.index is not None and pod.index < highest.get(pod.role, -1)
        late = placed_s is not None and pod.created_s > placed_s
        if pod.node is None and pod.uid in minimum and late and below:
            lost.setdefault(_seat(pod), Member(PodUid(f"before {pod.uid}"), pod.name, None))
    return lost | _seated(gang, quorum) if lost else {}


def _loss(member: Member, seat: Seat, gang: Gang, known: Container[NodeName]) -> Loss:
    remains = next((pod for pod in gang.members if pod.uid == member.uid), None)
    heirs = [pod for pod in gang.members if _seat(pod) == seat and pod.uid != member.uid and not pod.terminal]
    heir = next((pod for pod in heirs if not pod.deleting), None)
    node = remains.node if remains is not None and remains.node is not None else member.node
    gone = node is not None and node not in known
    if gone:
        cause = Cause.NODE_GONE
    elif remains is not None and remains.phase is Phase.FAILED:
        cause = Cause.FAILED
    elif remains is not None and not remains.deleting:
        cause = Cause.NODE_SILENT
    else:
        cause = Cause.REMOVED
    stays = remains is not None and not remains.terminal and heir is None and not gone
    return Loss(member.name, node, cause, stays, heir)
