"""Say what is wrong with labels, annotations and names that pods carry: one Event on a pod, and on its owner.

Why: a gang with a misspelt label, or of a scheduler that does not exist, starts pod by pod, or never, and Kubernetes
accepts it without a word. Only said: what is quoted was bounded where it was read (docs/safety.md S1, S21).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.recorder import Happening, owner_subject, pod_subject
from extender.runtime.slices import Steps
from scoring.explain.words import probably_wrong_scheduler, two_runs
from scoring.ids import GangKey
from scoring.model import Gang, Pod, Policy, Reason, Snapshot
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

    Why on a pod: that is what people describe when a job does not start; a PodGroup, if there is one, gets it too.
    Where members name different schedulers, one pod of each gets it, running ones too, because each may have another
    owner. Rule: a fault gets one Event, after it has stood for a while: pods and PodGroup arrive one after the other.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._faults: dict[GangKey, _GangFault] = {}

    def look(self) -> Steps[None]:
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
            if fault.event is not None and fault.open and now_s - fault.since_s >= PATIENCE_S:
                pods = _pods_about(gang, fault.event[0], self.context.cache.is_own)
                if pods:
                    fault.open = False
                    self.context.post_gang_event(gang, *fault.event, "labels", pods=pods)
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
    """The member whose own labels are at fault, else the first that waits.

    A gang that has started runs without the option that it asked for, so one of its pods gets that Event.
    """
    if gang.problem is Reason.MIXED_SCHEDULERS:  # the first live member of each; of one, those ours and those not
        first: dict[tuple[str, bool], Pod] = {}
        for pod in gang.members:
            if not pod.deleting and not pod.terminal:
                first.setdefault((pod.scheduler_name, is_own(pod)), pod)
        return list(first.values())[:_MOST_KINDS]
    if what is Happening.GANG_WAITING:
        return [pod for pod in gang.later if pod.node is None and not pod.terminal][:1]
    guilty = [pod for pod in gang.pending if pod.group is not None and pod.group.problem is not None]
    started = [pod for pod in gang.placed if not pod.terminal] if what is Happening.MISTAKE else []
    return [*guilty, *gang.pending, *started][:1]


class ProbableMistakes(ControlLoop):
    """Misspelt keys, and names of schedulers that place no pods, which were reported. Bounded; the oldest goes first.

    Rules: one Event for an owner and a mistake, on one of its pods and on the owner, so that a Job of a thousand pods
    gets two; one mistake at a look, so that a tenant with a thousand does not keep the Events of others waiting.
    """

    def __init__(self, context: ControllerContext, scheduler_names: frozenset[str]) -> None:
        super().__init__(context)
        self._scheduler_names = scheduler_names
        self._posted: OrderedDict[tuple[str, str], None] = OrderedDict()  # (uid, sentence)
        self._placing: frozenset[str] = frozenset()  # Schedulers that have placed a pod which still exists
        self._placing_until_s = 0.0

    def look(self) -> Steps[None]:
        """Report one. Cost: O(gangs and pods with misspelt keys), O(pods) once a minute."""
        cache = self.context.cache
        for uid in tuple(cache.pods.misspelt):
            pod = cache.pod(uid)
            if pod is not None and not pod.terminal and self._post(pod, "; ".join(pod.misspelt)):
                return
            yield
        yield
        now_s = self.context.clock.now_s()
        for key in cache.gangs.foreign():
            pods = (one for one in cache.gangs.pods_of(key) if not (one.node or one.deleting or one.terminal))
            if (pod := next(pods, None)) is not None:
                mistake = probably_wrong_scheduler(pod, self._scheduler_names, self._schedulers_at_work(), now_s=now_s)
                if mistake is not None and self._post(pod, mistake):
                    return
            yield

    def _schedulers_at_work(self) -> frozenset[str]:
        now_s = self.context.clock.monotonic_s()
        if now_s >= self._placing_until_s:
            self._placing = frozenset(pod.scheduler_name for pod in self.context.cache.pods if pod.node)
            self._placing_until_s = now_s + AT_WORK_S
        return self._placing

    def _post(self, pod: Pod, what: str) -> bool:
        """Report it, and whether that is news."""
        key = (pod.owner.uid if pod.owner is not None else pod.uid, what)
        news = key not in self._posted
        self._posted[key] = None
        self._posted.move_to_end(key)
        if not news:
            return False
        if len(self._posted) > MOST_KEPT:
            self._posted.popitem(last=False)
        owner = [owner_subject(pod.namespace, pod.owner)] if pod.owner is not None else []
        for about in (pod_subject(pod), *owner):
            self.context.post_event(about, Happening.MISTAKE, f"{what[:1].upper()}{what[1:]}", what)
        return True
