"""Which waiting gangs ask an autoscaler for nodes, for which pods of theirs, in which zone, and when no more.

Why at all (docs/safety.md S17): an autoscaler adds nodes for pods that kube-scheduler calls unschedulable. It does not
see pods at a gate, and of pods that are refused until the whole gang fits it sees each for itself. A
ProvisioningRequest names all of them at once: all or none. Rules:

- A gang asks that waits for want of room, for what its minimum still needs, after it has waited for a while.
- One request for each gang; few at a time, and one new one at a time, in the planner's order.
- A gang that must be in one zone asks for one zone: the first that it allows, or that with most room for it now. What
  was refused there is asked for in the next one.
- A refused, lapsed or revoked request is left to be seen until its back-off is over; it doubles with each attempt. How
  many there were is written on the request, so that a restart forgets nothing.
- A request goes when its gang has started, waits for something else, is gone, or needs other pods; while the gang is
  being started it stays, for with it goes what an autoscaler keeps for it.
"""

from collections.abc import Iterable
from typing import Final

from scoring.ids import GangKey
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.provisioning.requests import OVER, AskingLimits, Create, Delete, Request, Step
from scoring.provisioning.wish import WANTS_NODES, Wish, wish_of, zones_to_ask
from scoring.queue.states import waiting_since_s

_PASSES: Final = frozenset({Reason.NOT_PLANNED, Reason.BACKING_OFF, Reason.SPILL_WAIT})
"""Reasons that pass by themselves: a request that is there stays"""


def steps_of(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    requests: Iterable[Request],
    *,
    limits: AskingLimits,
    now_s: float,
    cache: PlannerCache | None = None,
    besides: frozenset[GangKey] = frozenset(),
) -> tuple[Step, ...]:
    """What is to be done now, at most one Create among it, in the order in which it is to be done.

    `besides`: gangs that do not ask now, whatever they wait for. Cost: O(waiting gangs and requests), and a look at the
    zones' room for the gang that asks. Taken twice from the same objects it is the same.
    """
    run = begin_run(snapshot, policy, cache or PlannerCache())
    standing, steps = _standing(requests)
    gone = {key: why for key, request in standing.items() if (why := _why_gone(run, plan, request)) is not None}
    steps.extend(Delete(standing[key], why) for key, why in gone.items())
    full = len(standing) - len(gone) >= limits.most
    for key in sorted(plan.waiting, key=lambda one: (plan.waiting[one].rank, one)):
        before = standing.get(key)
        if key in besides or (full if before is None else key in gone or not _due(before, limits, now_s=now_s)):
            continue
        wish = wish_of(run, plan, key)
        if not isinstance(wish, Wish) or not _patient(wish, limits, now_s=now_s):
            continue
        attempt = before.attempt + 1 if before is not None else 1
        choice = zones_to_ask(run, wish.ask)
        if not choice:
            continue
        steps.append(Create(key, wish.sets, wish.fingerprint, attempt, choice[(attempt - 1) % len(choice)]))
        if before is not None:
            steps.append(Delete(before, f"attempt {attempt} takes its place"))
        break
    return tuple(steps)


def _standing(requests: Iterable[Request]) -> tuple[dict[GangKey, Request], list[Step]]:
    """The latest request of each gang, and the end of those that it has replaced."""
    latest: dict[GangKey, Request] = {}
    ordered = sorted(requests, key=lambda request: (request.gang, -request.attempt, request.name))
    older = [one for one in ordered if latest.setdefault(one.gang, one) is not one]
    return latest, [Delete(one, "a later one has taken its place") for one in older]


def _why_gone(run: Run, plan: Plan, request: Request) -> str | None:
    """Why a request is to be taken back; `None`: it stays, or is replaced."""
    gang, waiting = run.snapshot.gangs.get(request.gang), plan.waiting.get(request.gang)
    if gang is None or not gang.own:
        return "its gang is gone"
    if not run.view.demand(gang).need:
        return "its gang has started"
    if waiting is None or waiting.reason in _PASSES:
        return None
    if waiting.reason not in WANTS_NODES:
        return "its gang does not wait for room any more"
    wish = wish_of(run, plan, request.gang)
    if not isinstance(wish, Wish) or wish.fingerprint != request.fingerprint:
        return "its gang needs something else now"
    return None


def _patient(wish: Wish, limits: AskingLimits, *, now_s: float) -> bool:
    """Whether the gang has waited for long enough."""
    since_s = waiting_since_s(wish.ask.gang)
    return since_s is not None and now_s - since_s >= limits.after_s


def _due(request: Request, limits: AskingLimits, *, now_s: float) -> bool:
    """Whether it has ended, and was left to be seen for long enough."""
    return request.outcome in OVER and now_s - request.since_s >= limits.backoff_of(request.attempt)
