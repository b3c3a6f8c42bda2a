"""Gangs whose pods ask to be elastic, but belong to nothing that we know how to resize: said once, on one of the pods.

Why an Event: an annotation that does nothing looks like a fault of the cluster. The search is rare, because nothing
waits for its result.
"""

from extender.controllers.elastic.parts import Parts, pods_job
from extender.controllers.events.recorder import Happening, pod_subject
from scoring.model import Gang

EVERY_S = 30.0
_ASKS = frozenset({"min-workers", "max-workers"})


class Strangers:
    """Looks through the gangs, at most once in `EVERY_S`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._not_before_s = parts.clock.monotonic_s() + EVERY_S

    def look(self) -> None:
        """Write an Event for each gang that asks in vain. Cost: O(gangs), when it is time."""
        parts = self._parts
        if parts.clock.monotonic_s() < self._not_before_s:
            return
        self._not_before_s = parts.clock.monotonic_s() + EVERY_S
        known = {pods_job(seen) for seen in parts.jobs.all()}
        for gang in parts.cache.snapshot().gangs.values():
            first = gang.members[0]
            if gang.own and first.job not in known and any(name in _ASKS for name, _ in gang.options):
                about = pod_subject(first)
                parts.post_event(about, Happening.JOB_NOT_RESIZED, f"It is not resized, because {_why(gang)}", "kind")


def _why(gang: Gang) -> str:
    owner = gang.members[0].owner
    if owner is None:
        return "its pods belong to no controller"
    return f"how jobs of kind {owner.kind} ({owner.api_version}) are resized is not known"
