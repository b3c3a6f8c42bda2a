"""Another node for a member whose planned one kube-scheduler's other filters refuse.

Why: volumes, spreading and affinity between pods are not modelled, and the nodes that kube-scheduler asks about are the
ones that pass them now. Rule: the gang stays in its zones, no member's place is taken, and of what is offered the node
with the best network towards the siblings is the answer; the rest of the plan stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scoring.ids import NodeName
from scoring.model import Gang, Pod, Policy, Snapshot
from scoring.plan import Admission, Plan, PlannerCache, begin_run, take_admissions, take_commitments


@dataclass(frozen=True, slots=True)
class Alternative:
    """What there is instead of the planned node."""

    node: NodeName | None  # The best node that was asked about; `None`: none of the gang's zones will do
    absent: tuple[NodeName, ...]  # Nodes of the gang's zones that have room in our view and were not asked about


class Alternatives:
    """Alternatives beside one plan. Cost: O(members of admitted gangs) once, then O(nodes of the zones) each."""

    def __init__(self, snapshot: Snapshot, plan: Plan, policy: Policy, *, cache: PlannerCache | None = None) -> None:
        self._plan = plan
        self._run = begin_run(snapshot, policy, cache or PlannerCache())
        take_commitments(self._run)
        take_admissions(self._run, plan.admitted.values())

    def of(self, gang: Gang, pod: Pod, asked: Sequence[NodeName]) -> Alternative:
        """For `pod`, which has a place in the plan, among the nodes `asked`."""
        run = self._run
        admission = self._plan.admitted.get(gang.key)
        request = run.view.vector(pod.member_class)
        if admission is None or not set(admission.zones) <= set(run.zones) or not admission.zones:
            return Alternative(None, ())
        rows = run.view.rows(admission.zones)
        names = np.array(run.view.names(admission.zones), object)
        able = run.capacity.mask(pod.member_class)[rows] & (run.capacity.room.counts(request)[rows] > 0)
        wanted = set(asked)
        offered = np.array([name in wanted for name in names], np.bool_)
        absent = tuple(names[able & ~offered].tolist())
        good = np.flatnonzero(able & offered)
        if not len(good):
            return Alternative(None, absent)
        best = good[int(np.argmax(self._points(gang, pod, admission)[good]))]
        return Alternative(NodeName(names[best]), absent)

    def _points(self, gang: Gang, pod: Pod, admission: Admission) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        run = self._run
        links = run.scores.links(admission.zones, run.view.score(run.view.demand(gang)))
        where = [m.node or admission.members.get(m.uid) for m in gang.members if m.uid != pod.uid]
        at = {name: i for i, name in enumerate(run.view.names(admission.zones))}
        siblings = np.array([at[name] for name in where if name in at], np.int64)
        points: np.ndarray[tuple[int], np.dtype[np.float64]] = links.rank_toward(siblings).sum(axis=1)
        return points
