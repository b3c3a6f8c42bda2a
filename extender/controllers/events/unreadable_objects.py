"""Say which objects cannot be read: by one Event on the object, and whenever /v1/explain is asked why a gang waits.

Why: such an object is left out (docs/safety.md S21), so its owner sees a gang that waits for a PodGroup which is there,
or a pod that waits without end. Rules: one Event for each object, one object at each look, so that a thousand bad ones
of one tenant do not keep the Events of all others waiting; what is said is short.
"""

from typing import Final

from extender.cache.unreadable import Unreadable, UnreadableObjects
from extender.controllers.events.recorder import Happening, PostEvent, Subject
from scoring.ids import GangKey

_NAMED: Final = 5  # Objects of a gang's namespace that its explanation names


class UnreadableWords:
    """What the Event says."""

    def __init__(self, objects: UnreadableObjects, post_event: PostEvent) -> None:
        self._objects = objects
        self._post_event = post_event
        self._posted: set[tuple[str, str, str, str]] = set()  # Those with an Event, of those that cannot be read now

    def look(self) -> None:
        """Once a second: write one Event. Cost: O(objects that cannot be read), which is bounded."""
        there = {(one.kind, one.namespace, one.name, one.uid): one for one in self._objects}
        self._posted &= there.keys()
        if (new := next((identity for identity in there if identity not in self._posted), None)) is not None:
            self._posted.add(new)
            one = there[new]
            subject = Subject(one.api_version, one.kind, one.namespace or "default", one.name, one.uid)
            self._post_event(subject, Happening.UNREADABLE, f"netgang cannot read it and leaves it out: {one.why}", "")

    def of_gang(self, gang: GangKey) -> tuple[str, ...]:
        """Its PodGroup, and what else of its namespace may belong to it."""
        namespace = gang.partition("/")[0]
        near = [one for one in self._objects if one.namespace == namespace]
        near.sort(key=lambda one: (f"{one.namespace}/{one.name}" != gang, one.kind, one.name))
        return tuple(_sentence(one) for one in near[:_NAMED])

    def named(self, namespace: str, name: str) -> str | None:
        """What is wrong with the objects of that name; `None`: all that there are can be read."""
        found = [_sentence(one) for one in self._objects if (one.namespace, one.name) == (namespace, name)]
        return "; ".join(found) or None


def _sentence(one: Unreadable) -> str:
    return f"{one.kind} {one.namespace}/{one.name} cannot be read and is left out: {one.why}"
