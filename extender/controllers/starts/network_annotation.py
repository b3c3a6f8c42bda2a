"""Write on a gang's owner, or its first pod, what network it got: to be read when it has ended or netgang is gone.

Rules: written once for each start, by the leader that saw it, and never read back: a tenant may change it. No right is
asked for it: on the owner where restarts or elastic jobs give the right to patch owners of its kind anyway, and the
whole gang has that one owner; else, or where the API server refuses that, on the first pod, which netgang may annotate
always; not on a pod where no link is measured, as its node shows the zone. Not on a PodGroup: netgang may write its
status alone, and a request for the status changes no metadata. Nothing waits for it, few are written in a second, and
what fails is not tried again: `/v1/explain` has it while the gang runs.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from extender.controllers.context import ControllerContext
from extender.controllers.removal.removals import owner_subject
from extender.convert.pod.pod import NETWORK_ANNOTATION
from extender.errors import ApiError, ApiUnavailableError
from scoring.explain.running_network import RunningNetwork
from scoring.ids import PodUid
from scoring.model import Controller, Gang

MOST_QUEUED: Final = 1000
_A_LOOK: Final = 64
_TOGETHER: Final = 4
_MOST_ZONES: Final = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Due:
    pod: PodUid
    owner: Controller | None  # `None`: the pod is to have it
    text: str


class NetworkAnnotations:
    """Annotations that are to be written. Bounded by `MOST_QUEUED`: in a storm of starts the oldest are left out."""

    def __init__(self, context: ControllerContext, owners: AbstractSet[tuple[str, str]] = frozenset()) -> None:
        """`owners`: API group and kind of owners that netgang has the right to patch."""
        self._context = context
        self._owners = owners
        self._due: deque[_Due] = deque(maxlen=MOST_QUEUED)
        self._writing = context.background("network annotations")

    def started(self, gang: Gang, network: RunningNetwork, at_s: float) -> None:
        """Write this soon; `at_s`: when it was computed, Unix seconds."""
        if not gang.placed:
            return
        owner = gang.placed[0].owner
        alone = owner is not None and all(pod.owner == owner for pod in gang.members)
        ours = owner if owner is not None and alone and owner.group_kind in self._owners else None
        if ours is None and not self._context.cache.snapshot().network.origins:
            return
        self._due.append(_Due(gang.placed[0].uid, ours, network_text(network, at_s)))

    def look(self) -> None:
        """Once a second: write some."""
        if self._due and not self._writing.busy and self._context.acting():
            some = [self._due.popleft() for _ in range(min(_A_LOOK, len(self._due)))]
            self._writing.start(self._write(some), "annotate networks")

    def forget(self) -> None:
        """Write nothing more of what is queued."""
        self._due.clear()

    async def _write(self, some: list[_Due]) -> None:
        for begin in range(0, len(some), _TOGETHER):
            await asyncio.gather(*map(self._annotate, some[begin : begin + _TOGETHER]))

    async def _annotate(self, due: _Due) -> None:
        pod = self._context.cache.pod(due.pod)
        if pod is None or pod.deleting:
            return
        if due.owner is not None and await self._annotate_owner(pod.namespace, due.owner, due.text):
            return
        try:
            await self._context.api.annotate_pod(pod.namespace, pod.name, due.pod, {NETWORK_ANNOTATION: due.text})
        except (ApiError, ApiUnavailableError) as error:
            _log.info("the network of the gang of pod %s is not written on it: %s", pod.key, error)

    async def _annotate_owner(self, namespace: str, owner: Controller, text: str) -> bool:
        """Whether the very owner `owner.uid` has it now; the API server answers 409 for another one of its name."""
        patch = msgspec.json.encode({"metadata": {"uid": owner.uid, "annotations": {NETWORK_ANNOTATION: text}}})
        try:
            await self._context.disruptions.restore_owner(owner_subject(namespace, owner), patch)
        except (ApiError, ApiUnavailableError, ValueError) as error:
            _log.info("the network of the gang of %s %s/%s is on its pod: %s", owner.kind, namespace, owner.name, error)
            return False
        return True


def network_text(network: RunningNetwork, at_s: float) -> str:
    """The annotation: JSON of at most about 1 KiB."""
    worst = network.worst
    document: dict[str, Any] = {
        "at": datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "zones": network.zones[:_MOST_ZONES],
        "nodes": network.of_nodes,
        "score": network.score,
    }
    if worst is not None:
        values = ("points", "loss_ratio", "delay_ms", "throughput_bps", "oldest_s")
        link = {name: value for name in values if (value := getattr(worst, name)) is not None}
        document["worst"] = {"source": worst.source, "target": worst.target, **link}
    return msgspec.json.encode(document).decode()
