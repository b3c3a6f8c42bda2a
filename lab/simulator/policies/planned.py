"""Policies that let netgang's planner place gangs: netgang itself, and the zone-and-greedy method of PAPERS N.

Why: the simulator is to say what the service would do, so nothing is decided here: the planner runs with its cache and
the previous plan, as in the service, and elastic jobs are adjusted by `scoring.scaling`. Rule: a gang that the plan
admits starts whole, on the nodes of the plan; scaling is looked at only when the plan admits none.
"""

from collections.abc import Iterator

from lab.simulator.actions import Action, Advice, Deciding, Place, Remove, Suspend
from lab.simulator.gangs import Gangs, elastic_job
from lab.simulator.policies.published_score import PublishedScores
from lab.simulator.state import State
from scoring.model import Role
from scoring.model.policy import Order, Policy, Preempting, QueuePolicy, Selection
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, plan
from scoring.preempt import preemption
from scoring.queue.weights import dominant_share
from scoring.scaling.grow import adjust
from scoring.scaling.job import Change, Options


class Planned(Deciding):
    """The planner, and perhaps the scaling code."""

    def __init__(self, name: str, policy: Policy, scaling: Options | None = None) -> None:
        """`None` for `scaling`: worker counts stay as jobs started."""
        self.name = name
        self.elastic = scaling is not None
        self._policy, self._scaling = policy, scaling
        self._cache = PlannerCache()
        self._plan = Plan(version=-1)
        self._gangs: Gangs | None = None
        self._version = 0

    def decide(self, state: State) -> Advice:
        """Start the gangs that the plan admits; else change worker counts."""
        gangs = self._gangs = self._gangs or Gangs(state.table)
        gangs.forget(state)
        running = [] if self._scaling is None else list(state.elastic.values())
        others = [one for one in state.running.values() if not one.elastic or self._scaling is None]
        load = others if self._policy.preemption is not Preempting.OFF else []
        if not state.waiting and not running:
            return Advice()
        self._version += 1
        snapshot = gangs.snapshot(state, (*state.waiting.values(), *running, *load), version=self._version)
        now_s = state.now_s
        self._plan = plan(snapshot, self._policy, now_s=now_s, previous=self._plan, cache=self._cache)
        actions: list[Action] = []
        index = state.table.index
        for admission in sorted(self._plan.admitted.values(), key=lambda one: one.rank):
            pods = {gangs.slot(uid): index[node] for uid, node in admission.members.items()}
            actions.append(Place(admission.gang.partition("/")[2], pods))
        levels = self._policy.preemption is not Preempting.OFF
        if not actions and self._scaling is None and levels and (left := self._preempted(snapshot, now_s)):
            return Advice(left)
        if actions or self._scaling is None:
            started = [
                state.waiting.get(admission.gang.partition("/")[2]) for admission in self._plan.admitted.values()
            ]
            rigid = not running and not load and all(one is not None and not one.elastic for one in started)
            return Advice(actions, settled=rigid, wake_s=self._wake_s(state))
        elastic = [elastic_job(one) for one in running]
        given, grown = adjust(
            snapshot, self._plan, elastic, {}, self._policy, self._scaling, now_s=now_s, cache=self._cache
        )
        if levels and not given.changes and (left := self._preempted(snapshot, now_s)):
            return Advice(left)
        actions += [self._change(state, change, for_others=True) for change in given.changes]
        actions += [self._change(state, change, for_others=False) for change in grown.changes]
        return Advice(actions, wake_s=self._wake_s(state))

    def _preempted(self, snapshot: Snapshot, now_s: float) -> list[Action]:
        """Jobs that are suspended for a gang that waits."""
        found = preemption(snapshot, self._plan, self._policy, now_s=now_s, cache=self._cache)
        return [Suspend(victim.partition("/")[2]) for victim in found.victims] if found is not None else []

    def _change(self, state: State, change: Change, *, for_others: bool) -> Action:
        one = state.running[change.job.name]
        if change.removed > 0:
            return Remove(change.job.name, sorted(one.workers)[change.after :], for_others=for_others)
        rows = [state.table.index[node] for node in change.nodes]
        first = change.before
        pods = {(Role.WORKER, first + number): row for number, row in enumerate(rows)}
        return Place(change.job.name, pods, wanted=change.after)

    def _wake_s(self, state: State) -> float | None:
        """The next moment at which something is possible that is not now, though nothing happens."""
        now_s, cool_s = state.now_s, self._scaling.cool_down_s if self._scaling is not None else 0.0
        found = [one.changed_s + cool_s for one in state.elastic.values() if one.changed_s is not None]
        starve_s = self._policy.queue.starve_limit_s
        for one in state.waiting.values():
            found += [one.asked_s + starve_s, one.asked_s + starve_s + self._policy.service.long_s]
        if state.waiting and self._policy.preemption is Preempting.LEVELS:
            found += self._next_levels(state)
        return min((at_s for at_s in found if at_s > now_s), default=None)

    def _next_levels(self, state: State) -> Iterator[float]:
        """When a running job comes to a level, or may be suspended."""
        service, total, now_s = self._policy.service, state.table.allocatable.sum(axis=0), state.now_s
        for one in state.running.values():
            worker = state.vector(one, Role.WORKER)
            share = dominant_share(worker, total) if worker is not None else 0.0
            had_s = one.before_s + sum(now_s - one.bound_s[Role.WORKER, index] for index in one.workers)
            for hours in service.thresholds_h if share else ():
                yield now_s + (hours * 3600.0 / share - had_s) / len(one.workers) + 1e-3  # also after rounding
            yield (one.ran_since_s or 0.0) + self._policy.min_run_s


class PaperN(Planned):
    """Zone first, then the greedy choice from the first node of the list, by the published score.

    First come, first served: the paper says nothing of a queue.
    """

    def __init__(self) -> None:
        queue = QueuePolicy(order=Order.FIFO)
        super().__init__("paper-n", Policy(selection=Selection.PAPER, queue=queue, preemption=Preempting.OFF))

    def decide(self, state: State) -> Advice:
        """As the planner does, with the scores of the network that is there."""
        if getattr(self._cache.network, "data", None) is not state.network:
            self._cache.network = PublishedScores(version=state.network.version, data=state.network)
        return super().decide(state)
