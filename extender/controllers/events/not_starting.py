"""Events that say why a gang does not start: what is wrong with its labels and annotations, and why it waits.

On one pod (which people describe) and on its PodGroup. A fault or a reason gets an Event after it has stood for a
while, when it changes, and a reason again after a long time; a gang that got one also gets one when it has started.
Explaining costs as much as planning that gang, so a few are explained per look, in steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening
from scoring.explain.around import two_runs
from scoring.explain.gang import Explanation
from scoring.explain.waiting import NEVER, why_it_waits
from scoring.explain.words import duration_text
from scoring.ids import GangKey
from scoring.model import Gang, Pod, Policy, Reason
from scoring.model.policy import gang_options
from scoring.plan.steps import Steps

PATIENCE_S = 5.0
_MOST_KINDS = 8  # Schedulers of one gang of which a pod gets the Event

_Event: TypeAlias = tuple[Happening, str]


@dataclass(slots=True)
class _Fault:
    gang: Gang
    event: _Event | None  # What is wrong; `None`: nothing
    since_s: float
    open: bool = True  # It has no Event yet


class Complaints:
    """Each gang's fault, if it has one. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext, policy: Policy) -> None:
        self._context = context
        self._policy = policy
        self._faults: dict[GangKey, _Fault] = {}

    def look(self) -> None:
        """Once a second: report faults that have lasted. Cost: O(gangs), and O(members) for those that changed."""
        now_s = self._context.clock.monotonic_s()
        faults = self._faults
        self._faults = {}
        for key, gang in self._context.cache.snapshot().gangs.items():
            fault = faults.get(key)
            if fault is None or fault.gang is not gang:
                found = _fault_of(gang, self._policy)
                if fault is None or fault.event != found:
                    fault = _Fault(gang, found, now_s)
                fault.gang = gang
            self._faults[key] = fault
            if fault.event is not None and fault.open and now_s - fault.since_s >= PATIENCE_S:
                pods = _pods_about(gang, fault.event[0], self._context.cache.is_own)
                if pods:
                    fault.open = False
                    self._context.post_gang_event(gang, *fault.event, pods=pods)


def _fault_of(gang: Gang, policy: Policy) -> _Event | None:
    if gang.problem is not None:
        return Happening.GANG_INVALID, gang.problem_detail or gang.problem.value
    if gang.later:
        return Happening.RUN_WAITS, two_runs(gang)
    problems = gang_options(dict(gang.options), policy, namespace=gang.key.partition("/")[0]).problems
    return (Happening.OPTION_IGNORED, "; ".join(problems)) if problems else None


def _pods_about(gang: Gang, what: Happening, is_own: Callable[[Pod], bool]) -> Sequence[Pod]:
    """The member whose own labels are at fault, else the first that waits, if one does."""
    if gang.problem is Reason.MIXED_SCHEDULERS:
        return _one_of_each_kind(gang, is_own)
    if what is Happening.RUN_WAITS:
        return [pod for pod in gang.later if pod.node is None and not pod.terminal][:1]
    guilty = [pod for pod in gang.pending if pod.group is not None and pod.group.problem is not None]
    return [*guilty, *gang.pending][:1]


def _one_of_each_kind(gang: Gang, is_own: Callable[[Pod], bool]) -> Sequence[Pod]:
    """The first live member of each scheduler; of one, those that are ours and those that are not."""
    found: dict[tuple[str, bool], Pod] = {}
    for pod in gang.members:
        if not pod.deleting and not pod.terminal:
            found.setdefault((pod.scheduler_name, is_own(pod)), pod)
    return list(found.values())[:_MOST_KINDS]


AGAIN_S = 1800.0
_MOST_A_LOOK = 2
_SILENT = frozenset(  # Reasons of gangs that run, or that get an Event as complaints
    {Reason.SURPLUS, Reason.NOT_PLANNED, Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES}
)


@dataclass(slots=True)
class _Wait:
    reason: Reason
    since_s: float  # When it began to wait for this reason
    began_s: float  # When it began to wait
    posted_s: float | None = None


@dataclass(eq=False, repr=False)
class Waits:
    """Each waiting gang's reason, and when its Event was written. Bounded by the gangs that exist."""

    context: ControllerContext
    explain: Callable[[Gang], Steps[Explanation]]
    _waits: dict[GangKey, _Wait] = field(default_factory=dict, init=False)

    def look(self) -> Steps[None]:
        """Once a second, in steps: write what has stood long enough. Cost: O(gangs), and the planning of a few."""
        plan = self.context.plan()
        if plan is None or not self.context.acting():
            return
        now_s = self.context.clock.monotonic_s()
        gangs = self.context.cache.snapshot().gangs
        known, self._waits = self._waits, {}
        for key, waiting in plan.waiting.items():
            gang = gangs.get(key)
            if gang is None or not gang.own or waiting.reason in _SILENT:
                continue
            wait = known.pop(key, None)
            if wait is None:
                wait = _Wait(waiting.reason, now_s, now_s)
            elif wait.reason is not waiting.reason:
                wait.reason, wait.since_s = waiting.reason, now_s
            self._waits[key] = wait
        for key, wait in known.items():
            gang = gangs.get(key)
            if gang is not None and len(gang.placed) < gang.min_member:
                self._waits[key] = wait  # admitted, and not bound yet
            elif gang is not None and wait.posted_s is not None:
                self._post_started(gang, now_s - wait.began_s)
        yield
        yield from self._post_waiting(now_s)

    def _post_waiting(self, now_s: float) -> Steps[None]:
        left = _MOST_A_LOOK
        for key, wait in self._waits.items():
            due = wait.posted_s is None or wait.posted_s < wait.since_s or now_s - wait.posted_s >= AGAIN_S
            if not due or now_s - wait.since_s < PATIENCE_S:
                continue
            if not left or not self.context.acting():
                return
            snapshot, plan = self.context.cache.snapshot(), self.context.plan()
            gang, waiting = snapshot.gangs.get(key), plan.waiting.get(key) if plan is not None else None
            if gang is None or plan is None or waiting is None or waiting.reason is not wait.reason:
                continue  # it is otherwise by now: others had their turn
            left -= 1
            wait.posted_s = now_s
            explanation = yield from self.explain(gang)
            if note := why_it_waits(explanation, gang, plan, snapshot):
                what = Happening.GANG_STUCK if wait.reason in NEVER else Happening.GANG_WAITING
                self.context.post_gang_event(gang, what, note, wait.reason.name, pods=gang.pending[:1])

    def _post_started(self, gang: Gang, waited_s: float) -> None:
        table = self.context.cache.snapshot().table
        nodes = {pod.node for pod in gang.placed if pod.node is not None and pod.node in table.index}
        zones = sorted({table.nodes[table.index[node]].zone for node in nodes})
        where = f" in zone {', '.join(zones)}" if any(zones) else ""
        note = f"{len(gang.placed)} pods have nodes{where} after {duration_text(waited_s)} of waiting."
        self.context.post_gang_event(gang, Happening.GANG_STARTED, note, pods=())
