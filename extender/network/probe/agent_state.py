"""What is known of one agent of the probe: its pod, its links, and which of its reports are not taken.

Why: reports come over the network from pods that an account with rights on a node can change, and any holder of an
agent's token could speak for any node. Rules: the token's user names the pod (`authentication.kubernetes.io/pod-uid`),
the pod is read once for each start of its agent, and only that pod's `spec.nodeName` counts; a report is refused whole,
for what no agent can have counted, and for what was sent before. What is remembered is bounded.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from extender.errors import NotFoundError
from extender.ports import Clock, Identity
from extender.schemas.probe import ProbeReport
from scoring.ids import NodeName
from scoring.probing.links import Attendance, LinkState, LinkWindow

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


_AHEAD_S: Final = 60.0
_LEAST_S: Final = 1.0  # Between two reports of one agent


class LinkReports(msgspec.Struct):
    """What one agent says of one link."""

    state: LinkState | None = None
    waiting: LinkWindow | None = None  # Counts once the peer's agent has reported after it
    heard_s: float = 0.0


class AgentState(msgspec.Struct):
    """One start of the agent in one pod."""

    pod: AgentPod
    since_s: float
    sequence: int
    port: int
    known_since_s: float
    attendance: Attendance
    ended: tuple[float, ...] = ()  # `since_s` of the pod's earlier starts, of the last `_MOST_ENDED`
    resumed: bool = True  # What the last leader knew is here
    bursts_given: tuple[int, int] = (0, 0)  # The last number of bursts in the answer before the last one, and in that
    iperf3: bool | None = None  # Whether it can run bursts; `None`: it did not say so far
    answered: bool = False  # A packet of its own was answered, by any peer
    answered_s: float = 0.0  # When that was last; before the first, when the agent began
    measures: frozenset[NodeName] = frozenset()  # Peers that it was given in its last answer …
    measured: frozenset[NodeName] = frozenset()  # … and in the one before: its next report may still be about those
    answers: frozenset[str] = frozenset()  # Addresses in its last order to reflect
    measured_by: set[NodeName] = set()  # Nodes that were given it as a peer
    links: dict[NodeName, LinkReports] = {}  # peer → link


class ReportRefusal(msgspec.Struct, frozen=True):
    """Why a report was not taken."""

    status: HTTPStatus
    detail: str
    retry_after_s: float = 0.0


def refusal_of(report: ProbeReport, pod: AgentPod, agent: AgentState | None, *, now_s: float) -> ReportRefusal | None:
    """Why the report of the agent in `pod` is not taken; `agent`: what is known of its node's. Cost: O(links)."""
    if report.node != pod.node:
        return ReportRefusal(HTTPStatus.FORBIDDEN, f"node: the agent's pod runs on {pod.node}")
    if not pod.address:
        return ReportRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "the agent's pod has no address yet", 1.0)
    if report.since_s > now_s + _AHEAD_S:
        return ReportRefusal(HTTPStatus.BAD_REQUEST, f"since_s: is ahead of netgang's clock ({now_s:.0f})")
    if (wrong := _wrong_link(report)) is not None:
        return ReportRefusal(HTTPStatus.BAD_REQUEST, wrong)
    if agent is None or agent.pod.uid != pod.uid:
        return None
    if report.since_s in agent.ended:
        return ReportRefusal(HTTPStatus.CONFLICT, "since_s: this agent has started again since then")
    if report.since_s == agent.since_s and report.sequence <= agent.sequence:
        said = f"sequence: {report.sequence} is not above {agent.sequence}, the last one of this agent"
        return ReportRefusal(HTTPStatus.CONFLICT, said)
    wait_s = agent.attendance.last_s + _LEAST_S - now_s
    if wait_s > 0.0:
        return ReportRefusal(HTTPStatus.TOO_MANY_REQUESTS, f"at most one report in {_LEAST_S:g} s", wait_s)
    return None


def _wrong_link(report: ProbeReport) -> str | None:
    """What no agent can have counted; `None`: nothing."""
    names = [link.peer for link in report.links]
    if len(set(names)) < len(names):
        return "links: a peer is there twice"
    if report.node in names:
        return "links: a node does not measure itself"
    for i, link in enumerate(report.links):
        out, back = link.lost_out or 0, link.lost_back or 0
        if link.lost > link.sent or out + back > link.sent:
            return f"links[{i}].lost: more packets than were sent ({link.sent})"
    return None
