"""Would the gang fit if these pods were gone? First by counting, which is quick, then by a real placement.

Rule: counting says a sure "no" or a "perhaps"; only a placement says "yes". Each placement looks at a snapshot in which
the pods do not use their nodes, beside what is committed and what gangs ahead in the plan are given. Host ports of pods
that go count as taken until they are gone.
"""

from collections.abc import Iterable, Sequence

from scoring.model import Gang, Pod
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Admission, Plan, PlannerCache, Run, begin_run, plan_in_steps, take_admissions, take_commitments
from scoring.plan.placement import place_minimum_in_steps
from scoring.plan.result import Placed
from scoring.plan.steps import Steps
from scoring.scaling.shrink.tally import Ledger

_PODS_A_STEP = 128
WANTS_ROOM = frozenset({Reason.NO_ROOM, Reason.BEHIND})
"""Why a gang waits that could start if there were room."""


class Trial:
    """One gang that waits, one snapshot; asked again and again with other pods gone."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, gang: Gang, policy: Policy, *, now_s: float, cache: PlannerCache
    ) -> None:
        self._snapshot, self._plan, self._policy, self._cache = snapshot, plan, policy, cache
        self.now_s = now_s
        waiting = plan.waiting.get(gang.key)
        self.ahead = in_turn(plan, before=waiting.rank) if waiting is not None else ()
        """What gangs before this one in the queue are given."""
        self.run = begin_run(snapshot, policy, cache)
        """A run of now, in which what is committed is taken."""
        take_commitments(self.run)
        self.ask = self.run.view.demand(gang)
        self._first = self._beside_others(snapshot)
        self.ledger = Ledger(self._first, self.ask)
        """For counting."""

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod is on a node that some member of the gang could go to."""
        row = self.ledger.row(pod)
        nodes = self._snapshot.table.nodes
        return (
            row is not None
            and nodes[row].zone in self.ledger.zones
            and any(one.mask[row] for one in self.ledger.classes)
        )

    def may_fit(self, gone: Iterable[Pod]) -> bool:
        """Whether counting leaves it possible that the gang fits. Cost: O(pods · classes)."""
        return self.ledger.tally(gone).may_fit()

    def may_fit_in_steps(self, gone: Sequence[Pod]) -> Steps[bool]:
        """The same with a moment for others now and then (docs/safety.md S15)."""
        tally = self.ledger.tally()
        for begin in range(0, len(gone), _PODS_A_STEP):
            for pod in gone[begin : begin + _PODS_A_STEP]:
                tally.leave(pod)
            yield
        return tally.may_fit()

    def place_in_steps(self, gone: Sequence[Pod]) -> Steps[Placed | None]:
        """Where the gang's minimum set goes once the pods are gone; `None`: nowhere. Cost: one placement.

        With a moment for others before it and between two zones (docs/safety.md S15).
        """
        run = self._beside_others(self._snapshot.without(gone))
        yield
        outcome = yield from place_minimum_in_steps(run, self.ask, now_s=self.now_s)
        return outcome if isinstance(outcome, Placed) else None

    def plan_in_steps(self, gone: Sequence[Pod]) -> Steps[Plan]:
        """The plan that is made when the pods are gone."""
        then = self._snapshot.without(gone)
        return plan_in_steps(then, self._policy, now_s=self.now_s, previous=self._plan, cache=self._cache)

    def _beside_others(self, snapshot: Snapshot) -> Run:
        run = begin_run(snapshot, self._policy, self._cache)
        take_commitments(run, besides=self.ask.gang.key)
        take_admissions(run, self.ahead)
        return run


def in_turn(plan: Plan, *, before: int | None = None) -> tuple[Admission, ...]:
    """What the plan gives, in the order of turns; `before`: only to gangs ahead of the one of this rank."""
    ahead = (one for one in plan.admitted.values() if before is None or one.rank < before)
    return tuple(sorted(ahead, key=lambda one: (one.rank, one.gang)))
