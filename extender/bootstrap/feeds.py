"""What is followed for elastic jobs. The plan needs none of it: a missing right must not keep gangs from starting."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender.cache.unreadable import UnreadableObjects
from extender.controllers.elastic.followed import FollowedJobs, reduce_by, target_from_json
from extender.controllers.elastic.kinds import KINDS
from extender.kube.calls import AUTOSCALERS
from extender.kube.reflector import Reflector
from extender.notes import NoteReader
from extender.settings.settings import Settings

_SAID_AFTER_S = 20.0

_log = logging.getLogger(__name__)

Follow = Callable[..., Reflector[Any]]  # Make a reflector: `path`, `reduce` and `sink` are still to be given


class Feeds(msgspec.Struct, frozen=True):
    """The jobs that are followed, and what follows them."""

    jobs: FollowedJobs = msgspec.field(default_factory=FollowedJobs)
    reflectors: Mapping[str, Reflector[Any]] = {}

    async def synced(self) -> None:
        """Wait until everything was read once, or is absent. What cannot be read is said: mostly a right."""
        for name, reflector in self.reflectors.items():
            try:
                async with asyncio.timeout(_SAID_AFTER_S):
                    await reflector.synced.wait()
            except TimeoutError:
                why = reflector.status().last_error or "no answer yet"
                _log.warning("elastic jobs wait for %s: %s (helm upgrade gives the rights)", name, why)
                await reflector.synced.wait()

    def ready(self) -> bool:
        """Whether everything has been read once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors.values())


def feeds_of(settings: Settings, follow: Follow, unreadable: UnreadableObjects, notes: NoteReader) -> Feeds | None:
    """Reflectors for every kind that we know; `None`: elastic jobs are switched off."""
    if not settings.elastic.enabled:
        return None
    jobs = FollowedJobs()
    reflectors = {
        f"{kind.plural}.{kind.group}": follow(
            path=kind.collection,
            reduce=reduce_by(kind, notes),
            sink=jobs.sink(kind),
            unreadable=unreadable.of(kind.api_version, kind.kind),
        )
        for kind in KINDS.values()
    }
    reflectors["horizontalpodautoscalers"] = follow(
        path=AUTOSCALERS.collection(),
        reduce=target_from_json,
        sink=jobs.autoscalers,
        unreadable=unreadable.of("autoscaling/v2", "HorizontalPodAutoscaler"),
    )
    return Feeds(jobs, reflectors)
