"""The engine: jobs arrive, a policy starts and changes them, they train as fast as their placement lets them, and end.

Discrete events on a heap; equal times keep a fixed order (ends, resumptions, arrivals, wake-ups; then numbers), so the
same scenario, policy and seed give the same result bit by bit. After all events of one moment the policy is asked until
it wants nothing more. Only jobs that share a node with a change are looked at again.

Rules of the model, alike for all policies: a job trains from `START_S` after it is whole; a change of its workers after
that stalls it and takes it back to its last checkpoint (`lab.simulator.speed.table`); removed pods are gone at once.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from lab.simulator.actions import Action, Advice, Deciding, GiveUp, Place, Remove, Suspend
from lab.simulator.model import Fate, Scenario
from lab.simulator.pace import Pace
from lab.simulator.speed.table import START_S, repeated_samples, resize_stall_s
from lab.simulator.state import JobState, RunResult, State
from scoring.model import Role
from scoring.model.pod import CPU
from scoring.model.snapshot import NodeTable

_END, _RESUME, _ARRIVE, _WAKE = range(4)
_MOST_ROUNDS = 10_000
"""Times that a policy is asked at one moment: more is an endless exchange."""


class World:
    """One run."""

    def __init__(self, scenario: Scenario, policy: Deciding) -> None:
        self._scenario, self._policy = scenario, policy
        self.state = State(NodeTable.from_nodes(scenario.nodes))
        self._pace = Pace(self.state, retime=self._schedule)
        self._begin_s = min((job.arrival_s for job in scenario.jobs), default=0.0)
        self._busy_s = 0.0
        """Cores that train × seconds, since the first arrival"""
        self._events: list[tuple[float, int, int, int]] = [
            (job.arrival_s, _ARRIVE, number, 0) for number, job in enumerate(scenario.jobs)
        ]
        """(when, kind, number of the job, number of the job's event)"""
        heapify(self._events)
        self._states: dict[int, JobState] = {}
        self._wake_s: float | None = None
        self._last_end_s = self._begin_s

    def run(self) -> RunResult:
        """Go on until nothing more happens."""
        while self._events:
            at_s = self._events[0][0]
            self._busy_s += self._pace.busy_cores * max(at_s - max(self.state.now_s, self._begin_s), 0.0)
            self.state.now_s = at_s
            changed = False
            while self._events and self._events[0][0] == at_s:
                _, kind, number, event = heappop(self._events)
                changed |= self._happen(kind, number, event)
            if changed:
                self._ask()
        cores = sum(node.allocatable.get(CPU) for node in self._scenario.nodes) / 1000.0
        cores_s = cores * max(self._last_end_s - self._begin_s, 1e-9)
        return RunResult(
            policy=self._policy.name,
            outcomes=tuple(self._states[number] for number in range(len(self._scenario.jobs))),
            makespan_s=self._last_end_s,
            busy_cpu_ratio=self._busy_s / cores_s if cores_s else 0.0,
        )

    # -- events -----------------------------------------------------------------------------------------------------

    def _happen(self, kind: int, number: int, event: int) -> bool:
        """Carry one event out; whether the policy should look."""
        if kind == _WAKE:
            woken = self._wake_s is not None and self._wake_s <= self.state.now_s
            self._wake_s = None if woken else self._wake_s
            return woken
        if kind == _ARRIVE:
            job = self._scenario.jobs[number]
            needs = job.min_workers if self._policy.elastic else job.workers
            one = JobState(job, number, needs=needs, wanted=self._policy.wanted(job), waits_since_s=self.state.now_s)
            self._states[number] = self.state.waiting[job.name] = one
            self.state.changes += 1
            return True
        one = self._states[number]
        if event != one.event or one.ended_s is not None:
            return False
        if kind == _RESUME:
            self._pace.start(one)
            self._schedule(one)
            return False
        one.trained = one.job.work.samples
        self._leave(one, Fate.COMPLETED)
        return True

    def _schedule(self, one: JobState) -> None:
        """When the job ends if nothing changes."""
        one.event += 1
        left = max(one.job.work.samples - one.trained, 0.0)
        heappush(self._events, (self.state.now_s + left / one.rate, _END, one.number, one.event))

    def _ask(self) -> None:
        for _ in range(_MOST_ROUNDS):
            advice: Advice = self._policy.decide(self.state)
            for action in advice.actions:
                self._do(action)
            if advice.settled or not advice.actions:
                at_s = advice.wake_s
                if at_s is not None and at_s > self.state.now_s and (self._wake_s is None or at_s < self._wake_s):
                    self._wake_s = at_s
                    heappush(self._events, (at_s, _WAKE, 0, 0))
                return
        raise RuntimeError(f"policy {self._policy.name} wants ever more at {self.state.now_s} s")

    # -- what a policy asks for -------------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        state = self.state
        match action:
            case Place(name, pods, wanted):
                one = state.waiting.get(name) or state.running[name]
                self._pace.settle(one)
                if wanted is not None:
                    one.wanted = wanted
                for (role, index), row in sorted(pods.items()):
                    if not state.occupy(one, role, index, row):
                        raise RuntimeError(
                            f"policy {self._policy.name}: no room for {name} {role} {index} on row {row}"
                        )
                if one.gave_up_from is not None and len(one.workers) >= one.gave_up_from:
                    one.gave_up_from = None
                self._changed(one, pods.values())
            case Remove(name, indexes, for_others):
                one = state.running[name]
                self._pace.settle(one)
                if for_others and one.gave_up_from is None:
                    one.gave_up_from = len(one.workers)
                rows = [one.workers[index] for index in indexes]
                for index in indexes:
                    state.vacate(one, Role.WORKER, index)
                one.wanted = len(one.workers)
                self._changed(one, rows)
            case Suspend(name):
                self._suspend(state.running[name])
            case GiveUp(name, again):
                one = state.waiting[name]
                one.deadlocks += 1
                if again:
                    self._empty(one)
                    state.waiting[name] = one  # behind all others
                else:
                    self._leave(one, Fate.DEADLOCKED)

    def _suspend(self, one: JobState) -> None:
        """All pods go; what was trained since the last checkpoint is lost."""
        self._pace.settle(one)
        lost = repeated_samples(one.trained, one.step_samples)
        one.stalled_s += lost / one.rate if one.rate else 0.0
        one.trained -= lost
        one.before_s += sum(self.state.now_s - one.bound_s[Role.WORKER, index] for index in one.workers)
        self._empty(one)
        one.resumes_s = None
        one.suspensions += 1
        one.wanted = max(one.wanted, one.job.workers)
        one.asked_s = one.waits_since_s = self.state.now_s
        one.ran_since_s = None
        self.state.waiting[one.job.name] = one

    def _changed(self, one: JobState, rows: Iterable[int]) -> None:
        """The settled job has other pods: start it, or make it stall; and look at its neighbours."""
        state, now_s, name = self.state, self.state.now_s, one.job.name
        state.changes += 1
        one.changes += 1
        if not one.whole:
            if name in state.running:
                raise RuntimeError(f"policy {self._policy.name}: {name} lost what it needs")
            self._pace.refresh(rows)
            return
        self._pace.stop(one)
        if one.resumes_s is None:
            again = one.started_s is not None
            one.started_s = one.started_s if again else now_s
            one.waited_s += now_s - (one.waits_since_s or 0.0)
            one.waits_since_s, one.ran_since_s = None, now_s
            del state.waiting[name]
            state.running[name] = one
            if one.elastic:
                state.elastic[name] = one
            start_s = self._stall_s(one) if again else START_S
            one.stalled_s += start_s if again else 0.0
            one.resumes_s = now_s + start_s
        elif one.ran_since_s is not None and not one.resizes and now_s < one.ran_since_s + START_S:
            one.resumes_s = now_s + START_S
        else:
            self._stall(one, one.resumes_s)
        one.event += 1
        heappush(self._events, (one.resumes_s, _RESUME, one.number, one.event))
        self._pace.moved(one, rows)

    def _stall(self, one: JobState, resumes_s: float) -> None:
        """Back to the last checkpoint, and a pause; a change during a stall restarts it."""
        now_s = self.state.now_s
        lost = repeated_samples(one.trained, one.step_samples)
        stall_s = self._stall_s(one)
        one.stalled_s += stall_s - max(resumes_s - now_s, 0.0) + (lost / one.rate if one.rate else 0.0)
        one.trained -= lost
        one.resumes_s = now_s + stall_s
        one.resizes += 1
        one.changed_s = now_s
        one.changes_s = (*one.changes_s[-15:], now_s)

    def _stall_s(self, one: JobState) -> float:
        given = self._scenario.resize_stall_s
        return resize_stall_s(len(one.workers)) if given is None else given

    def _leave(self, one: JobState, fate: Fate) -> None:
        """The job's story ends."""
        self._empty(one)
        self._last_end_s = max(self._last_end_s, self.state.now_s)
        one.fate, one.ended_s = fate, self.state.now_s

    def _empty(self, one: JobState) -> None:
        """All pods of the job go, and it neither waits nor runs."""
        state, name = self.state, one.job.name
        self._pace.settle(one)
        self._pace.stop(one)
        rows = {*one.ps.values(), *one.workers.values()}
        for role, held in ((Role.PS, one.ps), (Role.WORKER, one.workers)):
            for index in list(held):
                self.state.vacate(one, role, index)
        state.waiting.pop(name, None)
        state.running.pop(name, None)
        state.elastic.pop(name, None)
        one.holds_since_s = None
        one.event += 1
        one.changes += 1
        state.changes += 1
        self._pace.gone(one, rows)


def run(scenario: Scenario, policy: Deciding) -> RunResult:
    """One scenario under one policy, which must be a fresh one."""
    return World(scenario, policy).run()
