"""tf-operator on the default scheduler: pods one by one, first come, first served, spread over the nodes (PAPERS K8).

Nothing keeps a job's pods together, so jobs may use room without being whole. Rules of ours where K8 says nothing:

- A pod that found no node is tried again at the next event; the order among those that wait is drawn from the seed, as
  back-offs of different lengths make it in the real queue. New pods are tried first, in the order of their making.
- A job that has had a node for some of its pods for `DEADLOCK_S` without being whole is *deadlocked*: it is removed and
  frees its room, and its owner submits it again at once, behind all others, so that all policies complete the same
  work and their means can be compared.
- A job that was deadlocked `_MOST_DEADLOCKS` times is not submitted again.
"""

from random import Random

from lab.simulator.actions import Action, Advice, Deciding, GiveUp, Place
from lab.simulator.policies.spread import Room, slots_of
from lab.simulator.state import Slot, State

DEADLOCK_S = 1800.0
_MOST_DEADLOCKS = 20


class Default(Deciding):
    """One pod at a time."""

    name = "default"

    def __init__(self, seed: int = 0) -> None:
        self._chance = Random(seed)  # noqa: S311 - the order of retries, no secret
        self._seen: set[str] = set()
        self._looked_at = -1

    def decide(self, state: State) -> Advice:
        """Put whatever fits."""
        held = [(one, one.holds_since_s) for one in state.waiting.values() if one.holds_since_s is not None]
        lost = [one for one, since_s in held if state.now_s >= since_s + DEADLOCK_S]
        wake_s = min((since_s + DEADLOCK_S for _, since_s in held), default=None)
        if lost:
            self._seen.difference_update(one.job.name for one in lost)
            return Advice([GiveUp(one.job.name, again=one.deadlocks < _MOST_DEADLOCKS - 1) for one in lost])
        if self._looked_at == state.changes:
            return Advice((), wake_s=wake_s)
        room = Room(state)
        old: list[tuple[str, Slot]] = []
        new: list[tuple[str, Slot]] = []
        for name, one in state.waiting.items():
            pods = [(name, slot) for slot in (one.missing() if name in self._seen else slots_of(one))]
            (old if name in self._seen else new).extend(pods)
            self._seen.add(name)
        self._chance.shuffle(old)
        placed: dict[str, dict[Slot, int]] = {}
        for name, slot in (*new, *old):
            row = room.put(state.vector(state.waiting[name], slot[0]))
            if row is not None:
                placed.setdefault(name, {})[slot] = row
        actions: list[Action] = [Place(name, pods) for name, pods in placed.items()]
        self._looked_at = state.changes + len(actions)
        self._seen.intersection_update(state.waiting)
        return Advice(actions, wake_s=wake_s)
