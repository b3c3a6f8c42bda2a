"""Gangs from their pods, PodGroups and owners: who is a member, size, order, whether it has started, what is wrong.

Rules: a contradiction is never resolved by a guess; it becomes a constant reason and a sentence on what to change. What
finished and deleted members say no longer counts, so a mended template works as soon as its first pods exist. A change
only notes that a gang is stale; it is built once, at the next question, and from its former record where only its
members' progress changed.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from math import inf
from operator import attrgetter
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from extender.cache.state import ClusterState
from scoring import GangKey, NodeName, PodName, PodUid
from scoring.explain.words import counted, some
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, GangSource, GroupRef, JobSays, Phase, Pod, PodGroup, Reason, Role, counts
from scoring.model.gang import EXPECTED_DURATION, MOST_HELD, MOST_KINDS, Runs, length_of, newest, owner_name, runs_of
from scoring.queue.states import running_since_s

_DECLARED = attrgetter(  # What is read of a pod when its gang is built
    *("group", "options", "priority", "scheduler_name", "deleting", "terminal", "index", "name", "created_s"),
    *("owner", "run", "member_class.role", "limit_s"),
)
_ERROR, _BEGINS_S = 1.5, 60.0  # Within them a length was not outlived: it is a guess, and images are pulled
_MOST_GONE = 32_768  # Pods that are remembered although they are gone; beyond them the gang that has most loses one
OUTLIVED_FOR_S = 30 * 86_400.0  # For so long it is remembered who outlived one
_ROLES = (Role.PS, Role.CHIEF, Role.WORKER, Role.OTHER)  # In the order of members


class GroupPods(msgspec.Struct):
    """The pods that name one gang, and how many of them are ours; of the rest a restart knows nothing."""

    pods: dict[PodUid, Pod] = {}
    shown: set[PodUid] = set()  # Those that count by what the watch shows, not assumed
    own: int = 0
    alive: int = 0  # Those that have not ended and are not being deleted
    gone: dict[PodName, Pod] = {}  # Ended well, then deleted, and no pod of the name has come since (`_MOST_GONE`)
    nodes: dict[PodName, NodeName] = {}  # Deleted pod → where it was; at most as many as there are pods
    owed: int = 0  # How many more went without having ended well than came
    ended: frozenset[PodUid] = frozenset()  # All there were when the last one ended, if none was owed


class Gangs:
    """Every own gang by key."""

    def __init__(self, state: ClusterState, *, scheduler_names: frozenset[str], extender: bool) -> None:
        self._state, self._scheduler_names, self._extender = state, scheduler_names, extender
        self.by_uid: dict[PodUid, Pod] = {}  # Every pod, of gangs or not
        self.groups: dict[GangKey, GroupPods] = {}  # gang → the pods that name it
        self.pod_groups: Mapping[bool, dict[GangKey, PodGroup]] = {False: {}, True: {}}  # whether Kubernetes' own → …
        self.jobs: dict[str, JobSays] = {}  # owner's uid → what was read of it (`owners_read`)
        self.minimums: dict[GangKey, tuple[str, int]] = {}  # gang → its owner, and the most that it needs by now
        self.noted: Mapping[PodUid, GangKey] = {}  # Members by which a gang is known to have started before us
        self._gone = 0  # How many pods are remembered although they are gone
        self._gangs: dict[GangKey, Gang] = {}
        self._view: Mapping[GangKey, Gang] | None = None
        self._partial: set[GangKey] = set()
        self._stale: set[GangKey] = set()  # Gangs that are to be built again
        self._regrouped: set[GangKey] = set()  # Those of them for which more changed than their members
        self._outlives_s: dict[GangKey, float] = {}  # Running gang → when it outlives its length; infinite: it has
        self._outlived: deque[tuple[float, str]] = deque(maxlen=1000)  # When and who did; a restart loses ended ones

    def is_own(self, pod: Pod) -> bool:
        """Whether netgang may gate, hold, patch or evict the pod (docs/safety.md S1); the pod need not be known."""
        if pod.scheduler_name not in self._scheduler_names:
            return False
        # Where kube-scheduler does not ask us, only what it starts as a whole by itself, once admitted, can be ours.
        return self._extender or (pod.group is not None and pod.group.source is GangSource.GATED_NATIVE)

    def get(self, key: GangKey) -> Gang | None:
        """The gang as it is now, `None` when no own pod names it."""
        if key in self._stale:
            self._renew({key})
        return self._gangs.get(key)

    def of_pod(self, uid: PodUid) -> Gang | None:
        """The gang of a known pod, `None` for plain and unknown pods."""
        pod = self.by_uid.get(uid)
        return self.get(pod.group.key) if pod is not None and pod.group is not None else None

    def all(self) -> Mapping[GangKey, Gang]:
        """All own gangs, in a dictionary that is not written again; the same one if none changed."""
        self.settle()
        if self._view is None:
            self._view = dict(self._gangs)
        return self._view

    def partial(self) -> Set[GangKey]:
        """Gangs that we start of which some members have nodes and that have not started."""
        self.settle()
        return self._partial

    def foreign(self) -> list[Mapping[PodUid, Pod]]:
        """The pods, as they are at any time, of each gang that only other schedulers' pods name. Cost: O(gangs)."""
        return [group.pods for group in self.groups.values() if not group.own]

    def join(self, pod: Pod, *, assumed: bool) -> bool:
        """Take over the record of a pod that names a gang; whether it counts from now on by what the watch shows."""
        if pod.group is None:
            return False
        group = self.groups.setdefault(pod.group.key, GroupPods())
        before, alive = group.pods.get(pod.uid), pod.lives
        if before is None:
            group.own += self.is_own(pod)
            self._forget(group, [pod.name] if pod.name in group.gone else [])
            group.owed = max(group.owed - alive, 0)
        elif before.lives:
            group.alive -= 1
            group.owed += not alive and pod.phase is not Phase.SUCCEEDED
            if pod.node is not None and not alive:
                group.nodes.pop(pod.name, None)  # what failed may fail there again
                if not pod.terminal:
                    group.nodes[pod.name] = pod.node
            if not (alive or group.alive or group.owed):
                group.ended = frozenset([*group.pods, *(past.uid for past in group.gone.values())])
        group.alive += alive
        group.pods[pod.uid] = pod
        shown, shows = pod.uid in group.shown, not assumed and counts(pod)
        (group.shown.add if shows else group.shown.discard)(pod.uid)
        return shows and not shown

    def leave(self, pod: Pod, *, gone: bool) -> None:
        """The pod names its gang no more, or is `gone`: what ended well is remembered, while others are there."""
        if pod.group is None:
            return
        group = self.groups[pod.group.key]
        del group.pods[pod.uid]
        group.shown.discard(pod.uid)
        group.own -= self.is_own(pod)
        if pod.lives:
            group.alive -= 1
            group.owed += 1
            if gone and pod.node is not None:
                group.nodes[pod.name] = pod.node
        elif gone and pod.phase is Phase.SUCCEEDED and (pod.owner is None or pod.run is not None):
            group.gone[pod.name] = pod
            self._gone += 1
            sized = self._pod_group(pod.group)
            least = (sized.min_member if sized is not None else pod.group.min_available) or MOST_HELD
            if len(group.gone) > min(least, MOST_HELD):  # as many are enough, and each is looked at
                self._forget(group, [next(iter(group.gone))])
            elif self._gone > _MOST_GONE:
                most = max(self.groups.values(), key=lambda other: len(other.gone))
                self._forget(most, [next(iter(most.gone))])
        while len(group.nodes) > len(group.pods):
            del group.nodes[next(iter(group.nodes))]
        if not group.pods:
            self._forget(group, list(group.gone))
            del self.groups[pod.group.key]

    def _forget(self, group: GroupPods, names: Sequence[PodName]) -> None:
        self._gone -= len(names)
        for name in names:
            del group.gone[name]

    def touch(self, key: GangKey, *, regrouped: bool = True) -> bool:
        """One of the gang's pods, or with `regrouped` more than that, changed; whether that can decide anything."""
        group = self.groups.get(key)
        if group is None:
            self.minimums.pop(key, None)
        ended = group is None and self._state.backs_off(key, None)
        if key not in self._gangs and (group is None or not group.own):
            return ended
        self._stale.add(key)
        if regrouped:
            self._regrouped.add(key)
        return True

    def shown(self, key: GangKey) -> bool:
        """One more of the gang's pods counts by the watch; whether the gang has started by that (docs/safety.md S23).

        Seen at once: a member may go before the next question. Cost: O(1); O(members) from its minimum on.
        """
        group, gang = self.groups[key], self._gangs.get(key)
        if not group.own or (gang is not None and (gang.started or gang.problem is not None)):
            return False  # An invalid gang does not start, however many pods a tenant puts on nodes
        if gang is not None and len(group.shown) < gang.min_member:
            return False
        self._renew({key})
        return self._gangs[key].started

    def owners_read(self, read: Mapping[str, JobSays]) -> bool:
        """Owners of pods (by uid) were read; whether a gang is another by that. Cost: O(pods of gangs)."""
        self.jobs.update(read)
        before = self.all()
        named = [key for key, gang in before.items() if read.keys() & owner_uids((*gang.members, *gang.later))]
        return sum([self.touch(key) for key in named]) > 0 and any(self.get(key) != before[key] for key in named)

    def expire(self, now_s: float) -> bool:
        """Note who has outlived a length by `now_s` (Unix seconds), and forget it after a month; whether it is news."""
        self.settle()  # what has ended by now is not watched any more
        notes, news = Counter([owner.partition("/")[0] for _, owner in self._outlived]), set[str]()  # Namespaces
        for key in [key for key, at_s in self._outlives_s.items() if at_s <= now_s]:
            self._outlives_s[key], namespace = inf, key.partition("/")[0]
            if notes[namespace] < 3:  # more would change nothing
                notes[namespace] += 1
                news.add(namespace)
                self._outlived.append((now_s, owner_name(self._gangs[key])))
        while self._outlived and now_s - self._outlived[0][0] >= OUTLIVED_FOR_S:
            news.add(self._outlived.popleft()[1].partition("/")[0])
        lengths = [key for key, gang in self._gangs.items() if gang.length_s is not None] if news else []
        return sum([self.touch(key) for key in lengths if key.partition("/")[0] in news]) > 0

    def keep_jobs(self, uids: Collection[str]) -> None:
        """Forget owners without pods."""
        self.jobs = {uid: job for uid, job in self.jobs.items() if uid in uids}

    def _job(self, members: Sequence[Pod]) -> JobSays:
        """The age of the oldest owner of these pods, the first length that one says, how many they make. Cost: O(n)."""
        owners = owner_uids(members) if self.jobs else set()
        read = [self.jobs[uid] for uid in sorted(owners & self.jobs.keys())]
        amounts = [job.makes for job in read if job.makes is not None]
        whole = len(amounts) == len(owners) and all(pod.owner is not None for pod in members)
        first = next((job for job in read if job.expected or job.limit_s is not None), JobSays())
        created_s = min((job.created_s for job in read if job.created_s is not None), default=None)
        return replace(first, created_s=created_s, makes=sum(amounts) if amounts and whole else None)

    def settle(self) -> None:
        """Build now what is to be built again."""
        self._renew(self._stale)

    def _renew(self, keys: set[GangKey]) -> None:
        for key in keys:
            before = self._gangs.pop(key, None)
            self._partial.discard(key)
            group = self.groups.get(key)
            if group is None or not group.own:
                self._outlives_s.pop(key, None)
                continue
            advanced = renewed(before, group.pods) if before is not None and key not in self._regrouped else None
            gang = continued(advanced or self.build(key), before, group.shown, self.noted)
            self._gangs[key] = gang
            since_s = running_since_s(gang) if gang.length_s is not None else None
            if not any(pod.node is not None and not pod.terminal for pod in gang.members):
                self._outlives_s.pop(key, None)
            elif gang.length_s is not None and since_s is not None:  # once a run, whatever it says later
                self._outlives_s.setdefault(key, since_s + _ERROR * gang.length_s + _BEGINS_S)
            if gang.actionable and not gang.started and any(map(counts, gang.members)):
                self._partial.add(key)
        if keys:
            self._regrouped -= keys
            self._stale = self._stale - keys
            self._view = None

    def build(self, key: GangKey) -> Gang:
        """Put the gang together from the pods of one run that name it (at least one). Cost: O(n log n).

        Its age is its owner's, else its PodGroup's, else its oldest pod's (docs/safety.md S14); its minimum the
        PodGroup's, else the newest labels', else all pods there are, less those that ended well and are gone, at most
        what its owner still needs (docs/safety.md S8).
        """
        named, pods = self.groups[key], tuple(self.groups[key].pods.values())
        if named.gone and named.alive:
            # Of a JobSet that begins again all is gone; only a Job that has pods yet goes on.
            uids = {pod.run.uid for pod in pods if pod.run}
            pods += tuple(p for p in named.gone.values() if not (p.run and p.run.whole) or p.run.uid in uids)
        of_any = self._pod_group(_ref(pods[0]))
        read = {pod.run.uid: self.jobs[pod.run.uid].wanted for pod in pods if pod.run and pod.run.uid in self.jobs}
        ask = [pod for pod in pods if pod.lives] or pods
        runs = runs_of(
            pods,
            least=lambda: of_any.min_member if of_any else max(_ref(pod).min_available or 1 for pod in ask),
            wanted={uid: count for uid, count in read.items() if count is not None},
            ended=named.ended,
        )
        well = 0
        if named.gone and named.alive:
            counted = {pod.name for pod in runs.current if pod.uid not in named.pods}
            if not any(pod.uid in named.pods for pod in runs.earlier):  # else they show how that run ended
                self._forget(named, [name for name in named.gone if name not in counted])
            runs = Runs(*(tuple(pod for pod in some if pod.uid in named.pods) for some in runs))
            well = len(counted)
        ordered = tuple(sorted(runs.current, key=_order))
        current = [pod for pod in ordered if pod.lives] or list(ordered)
        if any(_ref(pod).source is GangSource.GATED_NATIVE for pod in current):
            # Members that started before pods were gated count; what they lack is no fault by now.
            current = [pod for pod in current if pod.node is None or _ref(pod).source is GangSource.GATED_NATIVE]
        first = _ref(current[0])
        group = self._pod_group(first)
        declared = group.min_member if group is not None else _ref(newest(current)[0]).min_available
        least = max(declared - well, 1) if declared is not None and declared > 0 else len(current)
        asked, needed = self.minimums.get(key, ("", least))
        if all(pod.owner is not None and pod.owner.uid == asked for pod in runs.current):
            least = min(least, needed)
        job = self._job(runs.current)
        created_s = job.created_s
        if created_s is None:
            created_s = group.created_s if group is not None else min(pod.created_s for pod in ordered)
        options = {EXPECTED_DURATION: job.expected} if job.expected else {}
        # Where members' annotations differ the first member's counts (ps before chief before workers).
        options.update({name: value for pod in reversed(current) for name, value in pod.options})
        problem, detail = _fault(current, first, group)
        if problem is None and first.source is not GangSource.NATIVE and (few := _too_few(current, job.makes, least)):
            problem, detail = Reason.INVALID_GROUP, few
        if problem is None and not first.source.is_native and least > MOST_HELD:
            detail = f"the minimum is {least}, and at most {MOST_HELD} pods can start at once: lower the minimum"
            problem = Reason.INVALID_GROUP
        again = [pod for pod in current if pod.name in named.nodes and not pod.member_class.constraints.host_ports]
        gang = Gang(
            key=first.key,
            source=first.source,
            min_member=least,
            members=ordered,
            priority=max(pod.priority for pod in current),
            created_s=created_s,
            options=tuple(sorted(options.items())),
            problem=problem,
            problem_detail=detail,
            schedule_timeout_s=group.schedule_timeout_s if group is not None else None,
            own=all(map(self.is_own, current)),
            earlier=tuple(sorted(runs.earlier, key=_order)),
            later=tuple(sorted(runs.later, key=_order)),
            makes=job.makes,
            former=tuple((pod.uid, named.nodes[pod.name]) for pod in again),
        )
        length_s, believed = length_of(gang, job, self._outlived)
        return replace(gang, length_s=length_s, believed=believed) if gang.own and length_s is not None else gang

    def _pod_group(self, ref: GroupRef) -> PodGroup | None:
        """The PodGroup that belongs to the gang's source; an annotation may mean Volcano's or coscheduling's."""
        return None if ref.source is GangSource.LABELS else self.pod_groups[ref.source.is_native].get(ref.key)


def renewed(gang: Gang, pods: Mapping[PodUid, Pod]) -> Gang | None:
    """`gang` with these newer records of its pods; `None`: more than how far they are has changed, so build it again.

    Cost: O(n), a third of `build`. The PodGroup, and which members are ours, must be what `gang` was built with.
    """
    if len(pods) != len(gang.members) + len(gang.earlier) or gang.later or gang.problem is not None:
        return None
    newer: list[Pod] = []
    for before in (*gang.members, *gang.earlier):
        after = pods.get(before.uid)
        if after is None or not (after is before or _DECLARED(before) == _DECLARED(after)):
            return None
        if after.member_class is not before.member_class and after.admitted_to is None:
            return None
        newer.append(after)
    size = len(gang.members)
    return replace(gang, members=tuple(newer[:size]), earlier=tuple(newer[size:]))


def continued(
    gang: Gang, before: Gang | None, shown: Set[PodUid], noted: Mapping[PodUid, GangKey] = MappingProxyType({})
) -> Gang:
    """The gang with what is known of its past: whether it has started. Cost: O(n), O(n log n) when it becomes whole.

    It has when the watch shows its minimum on nodes (`shown`; a confirmed Binding is no proof: a member may go before
    the last one comes), then for as long as one of those counts; and when a former process noted so of a member
    (`noted`). An invalid gang does not start: its minimum is not known.

    >>> from tests.builders import bound, gang, pod
    >>> a, b = bound(pod("a"), "n1"), bound(pod("b"), "n2")
    >>> whole, both = gang("g", members=[a, b]), {a.uid, b.uid}
    >>> continued(whole, None, both).started, continued(whole, None, {a.uid}).started
    (True, False)
    >>> left = gang("g", members=[a], min_member=2)
    >>> continued(left, continued(whole, None, both), {a.uid}).started, continued(left, None, {a.uid}).started
    (True, False)
    """
    before_us = {pod.uid for pod in before.members if counts(pod)} if before is not None and before.started else ()
    started = any((pod.uid in before_us or noted.get(pod.uid) == gang.key) and counts(pod) for pod in gang.members)
    if not started and gang.problem is None and len(shown) >= gang.min_member:
        started = quorum_of(gang).reached_by(shown)
    return gang if gang.started is started else replace(gang, started=started)


def _order(pod: Pod) -> tuple[int, bool, int, str]:
    return _ROLES.index(pod.role), pod.index is None, pod.index or 0, pod.name


def _ref(pod: Pod) -> GroupRef:
    if pod.group is None:
        raise ValueError(f"pod {pod.key} is a member of no gang")
    return pod.group


def _fault(current: Sequence[Pod], first: GroupRef, group: PodGroup | None) -> tuple[Reason | None, str]:
    """What is wrong with how the members name their gang, or with their being one, and what to change."""
    for pod in current:
        if (problem := _ref(pod).problem) is not None:
            return Reason.INVALID_GROUP, f"pod {pod.key}: {problem}"
    detail = ""
    if sources := _differing(current, lambda pod: _ref(pod).source):
        detail = f"the pods name their group in different ways: {sources}; use one of them"
    elif first.source is GangSource.NATIVE:
        pass  # kube-scheduler itself gangs these, and says what is wrong with them
    elif group is not None:
        if group.min_member < 1:
            field = "minCount" if first.source.is_native else "minMember"
            detail = f"PodGroup {group.key} has {field} {group.min_member}: it must be at least 1"
    elif first.source is GangSource.GATED_NATIVE:
        detail = f"PodGroup {first.key} of scheduling.k8s.io does not exist: create it, with the minCount of its gang"
    elif first.source is GangSource.POD_GROUP:
        detail = f"PodGroup {first.key} does not exist: create it, or remove the label"
    elif minimums := _differing(newest(current), lambda pod: _ref(pod).min_available or "none"):
        detail = f"the pods name different min-available: {minimums}; make them equal"
    elif first.min_available is None:
        detail = f"PodGroup {first.key} does not exist, and no pod has annotation scheduling.k8s.io/group-min-member"
        detail += ": create the one or add the other"
    if detail:
        return Reason.INVALID_GROUP, detail
    if first.source is not GangSource.NATIVE:
        if names := _differing(current, lambda pod: pod.scheduler_name):
            return Reason.INVALID_GROUP, f"spec.schedulerName differs: {names}; make them equal"
        if priorities := _differing(current, lambda pod: pod.priority):
            return Reason.INVALID_GROUP, f"spec.priority differs: {priorities}; use one priorityClassName"
        waiting = {pod.member_class for pod in current if pod.node is None and pod.admitted_to is None}
        kinds = {replace(like, constraints=replace(like.constraints, claims=())) for like in waiting}
        if len(kinds) > MOST_KINDS:
            detail = f"the pods are of {len(kinds)} kinds, by role, request and where they may go: a gang has at most"
            return Reason.INVALID_GROUP, f"{detail} {MOST_KINDS}; use one pod template for each role"
    return None, ""


def _too_few(current: Sequence[Pod], makes: int | None, least: int) -> str:
    """That the owners make fewer pods than the minimum; empty: more exist, or have nodes, so what was read is old."""
    if makes is None or not len(current) <= makes < least or any(map(counts, current)):
        return ""
    owners = sorted({f"{pod.owner.kind} {pod.owner.name}" for pod in current if pod.owner is not None})
    few = f"{some(owners)} {'makes' if len(owners) == 1 else 'make'} {counted(makes, 'pod')}"
    return f"{few}, and the minimum is {least}: lower the minimum to {makes}, or have {least} pods made"


def _differing(pods: Sequence[Pod], what: Callable[[Pod], object]) -> str:
    """Name one pod for each differing value, in the order of the members; nothing when all agree."""
    names: dict[object, str] = {}
    for pod in pods:
        names.setdefault(what(pod), pod.name)
    return ", ".join(f"{value} ({name})" for value, name in names.items()) if len(names) > 1 else ""


def owner_uids(members: Iterable[Pod]) -> set[str]:
    """The owners of these pods."""
    return {pod.owner.uid for pod in members if pod.owner is not None}
