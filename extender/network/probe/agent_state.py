"""What is known of one agent of the probe and of its links, and which of its reports are not taken.

Why: reports come over the network from pods that an account with rights on a node can change. Rule: a report is refused
whole, for what no agent can have counted, and for what was sent before.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from extender.network.probe.agent_pods import AgentPod
from extender.schemas.probe import ProbeReport
from scoring.ids import NodeName
from scoring.probing.links import Attendance, LinkState, Window

_AHEAD_S: Final = 60.0
_LEAST_S: Final = 1.0  # Between two reports of one agent


class Link(msgspec.Struct):
    """What one agent says of one link."""

    state: LinkState | None = None
    waiting: Window | None = None  # Counts once the peer's agent has reported after it
    heard_s: float = 0.0


class Agent(msgspec.Struct):
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
    links: dict[NodeName, Link] = {}  # peer → link


class Refusal(msgspec.Struct, frozen=True):
    """Why a report was not taken."""

    status: HTTPStatus
    detail: str
    retry_after_s: float = 0.0


def refusal_of(report: ProbeReport, pod: AgentPod, agent: Agent | None, *, now_s: float) -> Refusal | None:
    """Why the report of the agent in `pod` is not taken; `agent`: what is known of its node's. Cost: O(links)."""
    if report.node != pod.node:
        return Refusal(HTTPStatus.FORBIDDEN, f"node: the agent's pod runs on {pod.node}")
    if not pod.address:
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the agent's pod has no address yet", 1.0)
    if report.since_s > now_s + _AHEAD_S:
        return Refusal(HTTPStatus.BAD_REQUEST, f"since_s: is ahead of netgang's clock ({now_s:.0f})")
    if (wrong := _wrong_link(report)) is not None:
        return Refusal(HTTPStatus.BAD_REQUEST, wrong)
    if agent is None or agent.pod.uid != pod.uid:
        return None
    if report.since_s in agent.ended:
        return Refusal(HTTPStatus.CONFLICT, "since_s: this agent has started again since then")
    if report.since_s == agent.since_s and report.sequence <= agent.sequence:
        said = f"sequence: {report.sequence} is not above {agent.sequence}, the last one of this agent"
        return Refusal(HTTPStatus.CONFLICT, said)
    wait_s = agent.attendance.last_s + _LEAST_S - now_s
    if wait_s > 0.0:
        return Refusal(HTTPStatus.TOO_MANY_REQUESTS, f"at most one report in {_LEAST_S:g} s", wait_s)
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
