"""Say which labels and names in pods are probably mistakes that Kubernetes accepts without a word: one Event each.

Why: a gang with a misspelt label, or of a scheduler that does not exist, starts pod by pod, or never. Rules: one Event
for an owner and a mistake, on one of its pods and on the owner, so that a Job of a thousand pods gets two; one mistake
at a look, so that a tenant with a thousand does not keep the Events of others waiting; the record is bounded and drops
the oldest first. Only said: such pods are not ours to change, and what is quoted of them was bounded where it was read
(docs/safety.md S1, S21).
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, pod_subject
from extender.controllers.removal.removals import owner_subject
from extender.runtime.slices import Steps
from scoring.explain.words import probably_wrong_scheduler
from scoring.model import Pod

MOST_KEPT: Final = 4096
AT_WORK_S: Final = 60.0  # How long the list of schedulers that place pods is believed
_MOST_A_LOOK: Final = 1


@dataclass(eq=False, repr=False)
class Mistakes:
    """Which mistakes were reported. Bounded; the oldest is forgotten first."""

    context: ControllerContext
    scheduler_names: frozenset[str]
    _said: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict, init=False)  # (uid, sentence)
    _at_work: frozenset[str] = field(default=frozenset(), init=False)
    _at_work_until_s: float = field(default=0.0, init=False)

    def look(self) -> Steps[None]:
        """Once a second, in steps, on the leader. Cost: O(gangs and pods with misspelt keys), O(pods) once a minute."""
        if not self.context.acting():
            return
        left, cache = _MOST_A_LOOK, self.context.cache
        for uid in tuple(cache.pods.misspelt):
            pod = cache.pod(uid)
            if pod is not None and not pod.terminal and left:
                left -= self._say(pod, "; ".join(pod.misspelt))
            yield
        yield
        now_s = self.context.clock.now_s()
        for key in cache.gangs.foreign():
            pod = next((one for one in cache.gangs.pods_of(key) if _waits(one)), None) if left else None
            if pod is not None:
                said = probably_wrong_scheduler(pod, self.scheduler_names, self._placing(), now_s=now_s)
                left -= self._say(pod, said) if said is not None else 0
            yield

    def _placing(self) -> frozenset[str]:
        """Schedulers that have placed a pod which still exists."""
        now_s = self.context.clock.monotonic_s()
        if now_s >= self._at_work_until_s:
            self._at_work = frozenset(pod.scheduler_name for pod in self.context.cache.pods if pod.node)
            self._at_work_until_s = now_s + AT_WORK_S
        return self._at_work

    def _say(self, pod: Pod, what: str) -> bool:
        key = (pod.owner.uid if pod.owner is not None else pod.uid, what)
        if key in self._said:
            self._said.move_to_end(key)
            return False
        self._said[key] = None
        if len(self._said) > MOST_KEPT:
            self._said.popitem(last=False)
        about = [pod_subject(pod)]
        if pod.owner is not None:
            about.append(owner_subject(pod.namespace, pod.owner))
        for one in about:
            self.context.post_event(one, Happening.MISTAKE, f"{what[:1].upper()}{what[1:]}", what)
        return True


def _waits(pod: Pod) -> bool:
    return pod.node is None and not pod.deleting and not pod.terminal
