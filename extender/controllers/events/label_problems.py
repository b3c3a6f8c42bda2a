"""Say what is wrong with a gang's labels and annotations: one Event, on one pod.

Why on a pod: that is what people describe when a job does not start; a PodGroup, if there is one, gets it too. Where
members name different schedulers, one pod of each gets it, running ones too, because each may have another owner.
Rule: a fault gets one Event, after it has stood for a while: pods and their PodGroup arrive one after the other.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening
from extender.runtime.slices import Steps
from scoring.explain.words import two_runs
from scoring.ids import GangKey
from scoring.model import Gang, Pod, Policy, Reason, Snapshot
from scoring.model.policy import gang_options
from scoring.score.zone_distance import near_problem

PATIENCE_S = 5.0
_NEW_S = 60.0  # Since a pod was created: what its gang was near to decided about it, later the network may have changed
_MOST_KINDS = 8  # Schedulers of one gang of which a pod gets the Event

_Event: TypeAlias = tuple[Happening, str]


class _Fault(msgspec.Struct):
    gang: Gang
    event: _Event | None  # What is wrong; `None`: nothing
    since_s: float
    open: bool = True  # It has no Event yet


class LabelProblems:
    """Each gang's fault, if it has one. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._faults: dict[GangKey, _Fault] = {}

    def look(self) -> Steps[None]:
        """Once a second, in steps: report faults that have lasted.

        Cost: O(gangs), and O(members) for those that changed.
        """
        now_s, unix_s = self._context.clock.monotonic_s(), self._context.clock.now_s()
        snapshot = self._context.cache.snapshot()
        for gone in self._faults.keys() - snapshot.gangs.keys():
            del self._faults[gone]
        for key, gang in snapshot.gangs.items():
            fault = self._faults.get(key)
            if fault is None or fault.gang is not gang:
                found = _fault_of(gang, self._context.planner.policy, snapshot, unix_s)
                if fault is None or fault.event != found:
                    self._faults[key] = fault = _Fault(gang, found, now_s)
                fault.gang = gang
            if fault.event is not None and fault.open and now_s - fault.since_s >= PATIENCE_S:
                pods = _pods_about(gang, fault.event[0], self._context.cache.is_own)
                if pods:
                    fault.open = False
                    self._context.post_gang_event(gang, *fault.event, "labels", pods=pods)
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
    if gang.problem is Reason.MIXED_SCHEDULERS:
        return _one_of_each_kind(gang, is_own)
    if what is Happening.GANG_WAITING:
        return [pod for pod in gang.later if pod.node is None and not pod.terminal][:1]
    guilty = [pod for pod in gang.pending if pod.group is not None and pod.group.problem is not None]
    started = [pod for pod in gang.placed if not pod.terminal] if what is Happening.MISTAKE else []
    return [*guilty, *gang.pending, *started][:1]


def _one_of_each_kind(gang: Gang, is_own: Callable[[Pod], bool]) -> Sequence[Pod]:
    """The first live member of each scheduler; of one, those that are ours and those that are not."""
    found: dict[tuple[str, bool], Pod] = {}
    for pod in gang.members:
        if not pod.deleting and not pod.terminal:
            found.setdefault((pod.scheduler_name, is_own(pod)), pod)
    return list(found.values())[:_MOST_KINDS]
