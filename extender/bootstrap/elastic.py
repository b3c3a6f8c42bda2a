"""Put the elastic controller together: what it follows, and what it works with.

Why reflectors of their own: the plan needs none of these objects, so a right that is missing, or a kind that is slow to
list, must not keep gangs from starting. Rule: the controller begins once all of them have been read.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.cache.unreadable import UnreadableObjects
from extender.controllers.elastic.jobs.objects import Autoscalers, Jobs, reduce_by, target_from_json
from extender.controllers.elastic.kinds import KINDS, TRAIN_JOB, Kind, kinds_with
from extender.kube.calls import AUTOSCALERS, Resource
from extender.kube.watch.reflector import Reflector
from extender.notes import NoteReader
from extender.settings.settings import Settings

_SAID_AFTER_S = 20.0

_log = logging.getLogger(__name__)

Follow = Callable[..., Reflector[Any]]  # Make a reflector: `path`, `reduce` and `sink` are still to be given


@dataclass(frozen=True, slots=True)
class Feeds:
    """The jobs that are followed, and what follows them."""

    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)
    jobs: Jobs = field(default_factory=Jobs)
    autoscalers: Autoscalers = field(default_factory=Autoscalers)
    reflectors: Mapping[str, Reflector[Any]] = field(default_factory=dict)

    async def synced(self) -> None:
        """Wait until everything was read once, or is absent. What cannot be read is said: mostly a right."""
        for name, reflector in self.reflectors.items():
            try:
                async with asyncio.timeout(_SAID_AFTER_S):
                    await reflector.synced.wait()
            except TimeoutError:
                why = reflector.status().last_error or "no answer yet"
                _log.warning("elastic jobs wait for %s: %s (manifests/components/elastic has the rights)", name, why)
                await reflector.synced.wait()

    def ready(self) -> bool:
        """Whether everything has been read once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors.values())


def feeds_of(settings: Settings, follow: Follow, unreadable: UnreadableObjects, notes: NoteReader) -> Feeds | None:
    """Reflectors for every kind that we know; `None`: elastic jobs are switched off."""
    if not settings.elastic.enabled:
        return None
    kinds, jobs, autoscalers = kinds_with(settings.elastic.scale_kinds), Jobs(), Autoscalers()
    reflectors = {
        f"{kind.plural}.{kind.group}": follow(
            path=kind.collection,
            reduce=reduce_by(kind, notes),
            sink=jobs.sink(kind),
            unreadable=unreadable.of(kind.api_version, kind.kind),
        )
        for kind in (*kinds.values(), TRAIN_JOB)
    }
    reflectors["horizontalpodautoscalers"] = follow(
        path=AUTOSCALERS.collection(),
        reduce=target_from_json,
        sink=autoscalers.sink,
        unreadable=unreadable.of("autoscaling/v2", "HorizontalPodAutoscaler"),
    )
    return Feeds(kinds, jobs, autoscalers, reflectors)


def named_kinds(settings: Settings) -> Mapping[tuple[str, str], Resource]:
    """(API group, kind) → where it is served, of kinds that the operator has named."""
    named = kinds_with(settings.elastic.scale_kinds) if settings.elastic.enabled else {}
    places = [kind for key, kind in named.items() if key not in KINDS]
    return {(one.group, one.kind): Resource(one.group, one.version, one.plural) for one in places}
