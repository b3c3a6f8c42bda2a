"""What is wrong with tenants' objects, as Events: labels and names that pods carry, objects and notes left out.

Why: a gang with a misspelt label, or of a scheduler that does not exist, starts pod by pod, or never, and Kubernetes
accepts it without a word; so would an object that is left out (docs/safety.md S21), or a note whose key is lost.

Rules: what is quoted was bounded where it was read; one object at each look, so that a thousand bad ones of one tenant
do not keep the Events of all others waiting; each kind of note that is ignored gets one Event an hour on an object, and
a few log lines; each record is bounded, and drops the oldest first.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from extender.cache.state import Unreadable, UnreadableObjects
from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.owners import OwnerReader
from extender.controllers.recorder import Happening, Subject, owner_subject, pod_subject
from extender.runtime.slices import Steps
from extender.signed_notes import Bearer, Flaw, NoteKind
from scoring import GangKey
from scoring.explain.advice import probably_wrong_scheduler, two_runs
from scoring.model import Gang, Pod, Policy, Snapshot
from scoring.model.policy import gang_options
from scoring.score.zone_distance import near_problem

PATIENCE_S: Final = 5.0
MOST_KEPT: Final = 4096
AT_WORK_S: Final = 60.0  # How long the list of schedulers that place pods is believed
_NEW_S: Final = 60.0  # Since a pod was created: what its gang was near to decided about it, later it may have changed
_MOST_KINDS: Final = 8  # Schedulers of one gang of which a pod gets the Event

_Event: TypeAlias = tuple[Happening, str]


class _GangFault(msgspec.Struct):
    gang: Gang
    event: _Event | None  # What is wrong; `None`: nothing
    since_s: float
    open: bool = True  # It has no Event yet


class GangFaults(ControlLoop):
    """Each gang's fault, if its labels or annotations have one. Bounded by the gangs that exist.

    A fault gets one Event, after it has stood for a while: pods and PodGroup arrive one after the other.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._faults: dict[GangKey, _GangFault] = {}

    def reconcile(self) -> Steps[None]:
        """Report faults that have lasted. Cost: O(gangs), and O(members) for those that changed."""
        now_s, unix_s = self.context.clock.monotonic_s(), self.context.clock.now_s()
        snapshot = self.context.cache.snapshot()
        for gone in self._faults.keys() - snapshot.gangs.keys():
            del self._faults[gone]
        for key, gang in snapshot.gangs.items():
            fault = self._faults.get(key)
            if fault is None or fault.gang is not gang:
                event = _fault_of(gang, self.context.planner.policy, snapshot, unix_s)
                if fault is None or fault.event != event:
                    self._faults[key] = fault = _GangFault(gang, event, now_s)
                fault.gang = gang
            event = fault.event if fault.open and now_s - fault.since_s >= PATIENCE_S else None
            if event is not None and (pods := _pods_about(gang, event[0], self.context.cache.is_own)):
                fault.open = False
                self.context.post_gang_event(gang, *event, "labels", pods=pods)
            yield


def _fault_of(gang: Gang, policy: Policy, snapshot: Snapshot, unix_s: float) -> _Event | None:
    if gang.problem is not None:
        return Happening.GANG_INVALID, gang.problem_detail or gang.problem.value
    if gang.later:
        return Happening.GANG_WAITING, two_runs(gang)
    options = gang_options(dict(gang.options), policy, namespace=gang.key.partition("/")[0])
    placing = gang.pending or any(unix_s - pod.created_s < _NEW_S for pod in gang.placed)
    near = near_problem(options.near, snapshot.table, snapshot.network, policy) if placing else ()
    problems = (*options.problems, *near)
    return (Happening.MISTAKE, "; ".join(problems)) if problems else None


def _pods_about(gang: Gang, what: Happening, is_own: Callable[[Pod], bool]) -> Sequence[Pod]:
    """The member whose labels are at fault, else the first that waits, or runs without an option that it asked for."""
    if what is Happening.GANG_WAITING:
        return [pod for pod in gang.later if pod.node is None and not pod.terminal][:1]
    guilty = [pod for pod in gang.pending if pod.group is not None and pod.group.problem is not None]
    if what is Happening.GANG_INVALID and not guilty:  # of mixed schedulers the first live pod of each: owners differ
        first: dict[tuple[str, bool], Pod] = {}
        for pod in gang.members:
            if pod.lives:
                first.setdefault((pod.scheduler_name, is_own(pod)), pod)
        if len({name for name, _ in first}) > 1:
            return list(first.values())[:_MOST_KINDS]
    started = [pod for pod in gang.placed if not pod.terminal] if what is Happening.MISTAKE else []
    return [*guilty, *gang.pending, *started][:1]


class ProbableMistakes(ControlLoop):
    """Misspelt or misplaced keys, schedulers that place no pods: one Event on the owner and one on a pod of it."""

    def __init__(self, context: ControllerContext, scheduler_names: frozenset[str], owners: OwnerReader) -> None:
        super().__init__(context)
        self._scheduler_names, self._owners = scheduler_names, owners
        self._posted: OrderedDict[tuple[str, str], None] = OrderedDict()  # (uid, sentence)
        self._placing: frozenset[str] = frozenset()  # Schedulers that have placed a pod which still exists
        self._placing_until_s = 0.0

    def reconcile(self) -> Steps[None]:
        """Report one. Cost: O(gangs and pods with misspelt keys), O(pods) once a minute."""
        cache = self.context.cache
        for uid in tuple(cache.pods.misspelt):
            pod = cache.pod(uid)
            if pod is not None and not pod.terminal and self._post(pod, "; ".join(pod.misspelt)):
                return
            yield
        for ref, pod in tuple(self._owners.marked.values()):
            if self._post(pod, ref.problem or ""):
                return
            yield
        yield
        now_s, unix_s = self.context.clock.monotonic_s(), self.context.clock.now_s()
        for members in cache.gangs.foreign():
            pods = (member for member in members.values() if member.node is None and member.lives)
            if (pod := next(pods, None)) is not None:
                if now_s >= self._placing_until_s:
                    self._placing = frozenset(each.scheduler_name for each in cache.pods if each.node)
                    self._placing_until_s = now_s + AT_WORK_S
                mistake = probably_wrong_scheduler(pod, self._scheduler_names, self._placing, now_s=unix_s)
                if mistake is not None and self._post(pod, mistake):
                    return
            yield

    def _post(self, pod: Pod, what: str) -> bool:
        about = [pod_subject(pod)] + ([owner_subject(pod.namespace, pod.owner)] if pod.owner is not None else [])
        key = (about[-1].uid, what)
        news = key not in self._posted
        self._posted[key] = None
        self._posted.move_to_end(key)
        if len(self._posted) > MOST_KEPT:
            self._posted.popitem(last=False)
        for subject in about if news else ():
            self.context.events.post(subject, Happening.MISTAKE, f"{what[:1].upper()}{what[1:]}", what)
        return news


AGAIN_S: Final = 3600.0
LINES_AN_HOUR: Final = 20
_A_STEP: Final = 100  # Events at one look; they are paced anyway
_NAMED: Final = 5  # Objects of a gang's namespace, or notes of a gang, that its explanation names

_FOLLOWS: Final[Mapping[NoteKind, str]] = {  # kind of note → what that means
    NoteKind.ADMITTED: "after a restart the pod's place is planned again",
    NoteKind.PREEMPTS: "it reserves no room for the gang",
    NoteKind.RESUME: "netgang does not resume this owner; if netgang has suspended it, set its suspend field to false",
    NoteKind.RESTARTS: "restarts that it names are not counted",
    NoteKind.ATTAINED: "what the gang had of the cluster before it was suspended is not counted",
    NoteKind.LAST_CHANGE: "the job's present worker count is taken for the one that its owner asked for",
}

_log = logging.getLogger(__name__)


class _Ignored(msgspec.Struct):
    bearer: Bearer
    kind: NoteKind
    flaw: Flaw
    posted_s: float | None = None
    due: bool = False  # It is to get an Event

    @property
    def words(self) -> str:
        return f"Annotation {self.kind} is ignored, because it {self.flaw}: {_FOLLOWS[self.kind]}"


class IgnoredNotes(ControlLoop):
    """Notes that are ignored. `heard` is `Notes.on_ignored`."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._book: OrderedDict[tuple[str, NoteKind], _Ignored] = OrderedDict()  # (uid, kind) → what is wrong with it
        self._logged_s: deque[float] = deque(maxlen=LINES_AN_HOUR)

    def heard(self, kind: NoteKind, bearer: Bearer, flaw: Flaw) -> None:
        """A note was read and ignored."""
        self.context.telemetry.note_ignored(kind.removeprefix("netgang.io/"))
        key, now_s = (bearer.uid, kind), self.context.clock.monotonic_s()
        ignored = self._book.setdefault(key, _Ignored(bearer, kind, flaw))
        ignored.flaw = flaw
        ignored.due |= ignored.posted_s is None or now_s - ignored.posted_s >= AGAIN_S
        self._book.move_to_end(key)
        if len(self._book) > MOST_KEPT:
            self._book.popitem(last=False)

    def reconcile(self) -> None:
        """Write the Events that are due. Cost: O(notes that are ignored), which are bounded."""
        for note in [each for each in self._book.values() if each.due][:_A_STEP]:
            note.due, note.posted_s, about = False, self.context.clock.monotonic_s(), note.bearer
            self.context.events.post(about, Happening.MISTAKE, note.words, note.kind)
            if len(self._logged_s) < LINES_AN_HOUR or note.posted_s - self._logged_s[0] >= AGAIN_S:
                self._logged_s.append(note.posted_s)
                _log.warning("%s %s/%s: %s", about.kind, about.namespace, about.name, note.words)

    def of_gang(self, gang: Gang) -> tuple[str, ...]:
        """What is ignored on the gang's pods and on their owners. Cost: O(members)."""
        uids = {pod.uid for pod in gang.members} | {pod.owner.uid for pod in gang.members if pod.owner}
        ignored = [self._book[key] for uid in sorted(uids) for kind in NoteKind if (key := (uid, kind)) in self._book]
        return tuple(f"{note.bearer.kind} {note.bearer.name}: {note.words}" for note in ignored[:_NAMED])


class UnreadableWords(ControlLoop):
    """What is said of objects that cannot be read."""

    def __init__(self, context: ControllerContext, objects: UnreadableObjects) -> None:
        super().__init__(context)
        self._objects = objects
        self._posted: set[tuple[str, str, str, str]] = set()  # Those with an Event, of those that cannot be read now

    def reconcile(self) -> None:
        """Write one Event. Cost: O(objects that cannot be read), which is bounded."""
        there = {(broken.kind, broken.namespace, broken.name, broken.uid): broken for broken in self._objects}
        self._posted &= there.keys()
        for identity, broken in [each for each in there.items() if each[0] not in self._posted][:1]:
            self._posted.add(identity)
            subject = Subject(broken.api_version, broken.kind, broken.namespace or "default", broken.name, broken.uid)
            note = f"netgang cannot read it and leaves it out: {broken.why}"
            self.context.events.post(subject, Happening.UNREADABLE, note)

    def of_gang(self, gang: GangKey) -> tuple[str, ...]:
        """Its PodGroup, and what else of its namespace may belong to it."""
        namespace = gang.partition("/")[0]
        near = [broken for broken in self._objects if broken.namespace == namespace]
        near.sort(key=lambda broken: (f"{broken.namespace}/{broken.name}" != gang, broken.kind, broken.name))
        return tuple(_sentence(broken) for broken in near[:_NAMED])

    def named(self, namespace: str, name: str) -> str | None:
        """What is wrong with the objects of that name; `None`: all that there are can be read."""
        texts = (_sentence(broken) for broken in self._objects if (broken.namespace, broken.name) == (namespace, name))
        return "; ".join(texts) or None


def _sentence(broken: Unreadable) -> str:
    return f"{broken.kind} {broken.namespace}/{broken.name} cannot be read and is left out: {broken.why}"
