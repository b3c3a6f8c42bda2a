"""Find the pod that a token is bound to: the node it runs on and its address.

Why ask the API server and not believe the report: any holder of an agent's token could speak for any node. Rule: the
token's user names the pod (`authentication.kubernetes.io/pod-uid`), the pod is read once for each start of its agent,
and only that pod's `spec.nodeName` counts. What is remembered is bounded.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from extender.errors import NotFoundError
from extender.ports import Clock, Identity

POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_ACCOUNT: Final = "system:serviceaccount:"
_MOST: Final = 16_384  # Pods remembered, about 400 bytes each
_AGAIN_S: Final = 2.0  # A pod is read at most so often, whatever its agent says


class AgentPod(msgspec.Struct, frozen=True):
    """The pod of an agent."""

    uid: str
    node: str
    address: str


class AgentPods:
    """Pods by their uid; `get_pod` is that of the ClusterApi."""

    def __init__(self, get_pod: Callable[[str, str], Awaitable[bytes]], clock: Clock) -> None:
        self._get_pod = get_pod
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, float, AgentPod | None]] = OrderedDict()
        """uid → start of its agent, when it was read, what it was"""

    async def find(self, caller: Identity, *, since_s: float) -> AgentPod | None:
        """The pod of the token that `caller` showed, as of the agent's start; `None`: bound to none that runs.

        Errors: ApiError, ApiUnavailableError.
        """
        extra = {key: values[0] for key, values in caller.extra if values}
        uid, name = extra.get(POD_UID, ""), extra.get(POD_NAME, "")
        namespace = caller.username.removeprefix(_ACCOUNT).partition(":")[0]
        if not uid or not name or not caller.username.startswith(_ACCOUNT):
            return None
        now_s = self._clock.monotonic_s()
        known = self._known.get(uid)
        if known is not None:
            # A pod keeps its uid over a reboot of its node, and may get another address: read it again.
            began_s, read_s, pod = known
            if (began_s == since_s and pod is not None and pod.address) or now_s - read_s < _AGAIN_S:
                self._known.move_to_end(uid)
                return pod
        pod = await self._read(namespace, name, uid)
        self._known[uid] = since_s, now_s, pod
        self._known.move_to_end(uid)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return pod

    async def _read(self, namespace: str, name: str, uid: str) -> AgentPod | None:
        try:
            found = msgspec.json.decode(await self._get_pod(namespace, name), type=dict[str, Any])
        except NotFoundError:
            return None
        node = found["spec"].get("nodeName")
        if found["metadata"]["uid"] != uid or not node:
            return None
        return AgentPod(uid, node, found.get("status", {}).get("podIP", ""))
