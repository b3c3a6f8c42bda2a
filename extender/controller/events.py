"""Kubernetes Events about pods: what people have to know and cannot read from the pod's status.

Why so guarded: a cluster full of waiting gangs could produce thousands of Events a minute, and the API server is busy
enough with Bindings. Rules: the same thing is told of a pod once in ten minutes; the queue is bounded and paced, and
what finds no room, or no ear, is counted and forgotten. Nothing ever depends on an Event.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias

from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Clock, ClusterApi
from extender.telemetry import Telemetry
from scoring.ids import PodUid
from scoring.model import Pod

REPORTER = "netgang.io/extender"
REPEAT_S = 600.0
MOST_QUEUED = 1000
_PER_S = 10.0
_MOST_REMEMBERED = 10_000
_NOTE_BYTES = 1024
"""The API server's limit (events.k8s.io/v1)."""


_log = logging.getLogger(__name__)


class Happening(StrEnum):
    """What is told; the value is the Event's reason."""

    NODES_GONE = "NodesGone"
    NODES_FULL = "NodesFull"
    REPINNED = "Repinned"
    ADMISSION_LAPSED = "AdmissionLapsed"
    ADMISSION_REFUSED = "AdmissionRefused"
    GANG_INVALID = "GangInvalid"
    OPTION_IGNORED = "OptionIgnored"


_ACTIONS: Mapping[Happening, str] = {
    # what happened → what we were doing
    Happening.NODES_GONE: "Repin",
    Happening.NODES_FULL: "Repin",
    Happening.REPINNED: "Repin",
    Happening.ADMISSION_LAPSED: "Admit",
    Happening.ADMISSION_REFUSED: "Admit",
    Happening.GANG_INVALID: "Plan",
    Happening.OPTION_IGNORED: "Plan",
}
_GOOD_NEWS = frozenset({Happening.REPINNED})

Tell: TypeAlias = Callable[[Pod, Happening, str], None]
"""Tell of a pod what happened, with a sentence for people. Must not raise and not wait."""


def tell_nobody(_pod: Pod, _what: Happening, _note: str) -> None:
    """A `Tell` for where nobody listens."""


@dataclass(frozen=True, slots=True)
class _Told:
    pod: Pod
    what: Happening
    note: str
    at_s: float
    """Unix seconds"""


class Events:
    """A queue of Events, and the task that posts them."""

    def __init__(
        self, api: ClusterApi, clock: Clock, telemetry: Telemetry, *, instance: str, per_s: float = _PER_S
    ) -> None:
        self._api = api
        self._clock = clock
        self._telemetry = telemetry
        self._instance = instance
        self._pause_s = 1.0 / per_s
        self._queue: asyncio.Queue[_Told] = asyncio.Queue(MOST_QUEUED)
        self._told: OrderedDict[tuple[PodUid, Happening], float] = OrderedDict()
        """(pod, what) → when it was told last, the oldest first"""

    def tell(self, pod: Pod, what: Happening, note: str) -> None:
        """Post an Event soon, unless the same was told of this pod less than `REPEAT_S` ago; see `Tell`."""
        now_s = self._clock.monotonic_s()
        while self._told and (
            len(self._told) > _MOST_REMEMBERED or now_s - next(iter(self._told.values())) >= REPEAT_S
        ):
            self._told.popitem(last=False)
        if (pod.uid, what) in self._told:
            return
        self._told[pod.uid, what] = now_s
        try:
            self._queue.put_nowait(_Told(pod, what, note, self._clock.now_s()))
        except asyncio.QueueFull:
            self._telemetry.event_dropped()

    async def run(self) -> None:
        """Post what is queued until cancelled."""
        while True:
            told = await self._queue.get()
            try:
                await self._api.create_event(told.pod.namespace, self._event(told))
            except (ApiError, ApiUnavailableError) as error:
                self._telemetry.event_dropped()
                _log.info("Event %s about %s not posted: %s", told.what, told.pod.key, error)
            await asyncio.sleep(self._pause_s)

    def _event(self, told: _Told) -> dict[str, Any]:
        pod = told.pod
        return {
            # A dash, because what is before it must be a name in itself; cut, because all of it must be one.
            "metadata": {"generateName": f"{pod.name[:200]}-", "namespace": pod.namespace},
            "eventTime": _micro_time(told.at_s),
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "reason": told.what.value,
            "action": _ACTIONS[told.what],
            "type": "Normal" if told.what in _GOOD_NEWS else "Warning",
            "note": clipped(told.note),
            "reportingController": REPORTER,
            "reportingInstance": self._instance,
        }


def clipped(note: str) -> str:
    """At most as many bytes as an Event's note may have, cut between characters.

    >>> clipped("é" * 600) == "é" * 510 + "…"
    True
    """
    if len(note.encode()) <= _NOTE_BYTES:
        return note
    return note.encode()[: _NOTE_BYTES - len("…".encode())].decode(errors="ignore") + "…"


def _micro_time(at_s: float) -> str:
    """RFC 3339 with microseconds, which is what the API wants of eventTime.

    >>> _micro_time(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
