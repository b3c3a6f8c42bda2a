"""The agents of netgang's own probe: take their reports, answer which peers to measure and which addresses to reflect.

Rules:
- An agent is given a peer only after the peer's agent got the order to reflect for it, and that order stands until the
  agent got the order to stop measuring: otherwise the first and last packets of a link would look lost.
- A report is refused whole, and counted, where it repeats an earlier one, comes too soon, begins in the future, or says
  what no agent can have counted. What it says of a link that was not assigned is left out.
- Agents that have one address are not measured until the others are gone: a link would be taken for another one's.
- A window counts once the agent at the link's other end has reported after it (`scoring.probing.links.Attendance`).
  Until that agent and this one got a first answer, a link without any has no value: a NetworkPolicy that blocks the
  probe's port is no dead network.
- A new leader asks each agent to go on and to send again what it measured, with what the last leader gave it to keep:
  what was known of its links and bursts, signed, so that no agent can say anything else.
- Memory is bounded by the nodes of the cluster, each with at most `MOST_LINKS` links.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec.structs import replace

from extender.network.probe_bursts import Bursts
from extender.ports import Clock
from extender.schemas import MOST_MEMORY_CHARS, ProbedLink, ProbeOrders, ProbePeer, ProbeReport
from extender.signed_notes import Notes
from scoring import NodeName, ZoneName
from scoring.probing.bursts import PastBurst
from scoring.probing.links import SUSPECT_RATIO, Attendance, LinkState, LinkValue, LinkWindow, link_value
from scoring.probing.peers import SMALL, PeerTurn


class AgentPod(msgspec.Struct, frozen=True):
    """The pod of an agent."""

    uid: str
    node: str
    address: str


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
    iperf3: bool | None = None  # Whether it can run bursts; `None`: it did not say so far
    answered: bool = False  # A packet of its own was answered, by any peer
    answered_s: float = 0.0  # When that was last; before the first, when the agent began
    lossy_s: float = 0.0  # When it last reported more than `_LOSSY_RATIO` of its packets as lost
    packet_s: float = 0.1  # Between two packets of one link, by its last order
    measures: frozenset[NodeName] = frozenset()  # Peers that it was given in its last answer …
    measured: frozenset[NodeName] = frozenset()  # … and in the one before: its next report may still be about those
    answers: frozenset[str] = frozenset()  # Addresses in its last order to reflect
    measured_by: set[NodeName] = set()  # Nodes that were given it as a peer
    links: dict[NodeName, LinkReports] = {}  # peer → link


class AgentMemory(msgspec.Struct, frozen=True, array_like=True):
    """What a leader gives an agent to keep for the next one."""

    links: dict[NodeName, LinkState] = {}
    bursts: tuple[PastBurst, ...] = ()


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
    names = [link.peer for link in report.links]
    if len(set(names)) < len(names):
        return ReportRefusal(HTTPStatus.BAD_REQUEST, "links: a peer is there twice")
    if report.node in names:
        return ReportRefusal(HTTPStatus.BAD_REQUEST, "links: a node does not measure itself")
    for i, link in enumerate(report.links):
        if max(link.lost, (link.lost_out or 0) + (link.lost_back or 0)) > link.sent:
            detail = f"links[{i}].lost: more packets than were sent ({link.sent})"
            return ReportRefusal(HTTPStatus.BAD_REQUEST, detail)
    if agent is None or agent.pod.uid != pod.uid:
        return None
    if report.since_s in agent.ended:
        return ReportRefusal(HTTPStatus.CONFLICT, "since_s: this agent has started again since then")
    if report.since_s == agent.since_s and report.sequence <= agent.sequence:
        detail = f"sequence: {report.sequence} is not above {agent.sequence}, the last one of this agent"
        return ReportRefusal(HTTPStatus.CONFLICT, detail)
    wait_s = agent.attendance.last_s + _LEAST_S - now_s
    if wait_s > 0.0:
        return ReportRefusal(HTTPStatus.TOO_MANY_REQUESTS, f"at most one report in {_LEAST_S:g} s", wait_s)
    return None


EPOCH_S: Final = 60.0  # Pairs take turns so often
INTERVAL_S: Final = 10.0  # Between two reports of one agent; `Agents.interval_s` says more
_SILENT_INTERVALS: Final = 4.0  # An agent without a report for so long is called silent …
_GONE_INTERVALS: Final = 15.0  # … and for so long is given as a peer no more
_KNOWN_S: Final = 3600.0  # What an earlier leader knew counts so long
_MOST_ENDED: Final = 8
_REPORTS_PER_S: Final = 25.0  # Of all agents together: more of them report less often …
_LONGEST_S: Final = 60.0  # … but at least so often
_FIRST_S: Final = 30.0  # From its first report on an agent is asked to report oftener, to learn its peers soon …
_OFTEN_S: Final = 2.0  # … namely so
_PACKET_S: Final = 0.1  # Least time between two packets of one link
_FEW_PER_S, _MANY_PER_S = 9.0, 100.0  # Packets a second of one agent; many only in a small cluster, and only …
_NEW_S, _LOSSY_S = 300.0, 60.0  # … for so long after its first report, and after it or a peer of it lost …
_LOSSY_RATIO: Final = 1e-3  # … more than this: a stray one of the ninety of a slow report, two of a fast one


class Agents:
    """All agents that report, each every `interval_s` while they are few; one writer, on the loop."""

    def __init__(
        self, clock: Clock, notes: Notes, interval_s: float = INTERVAL_S, *, bursts: Bursts | None = None
    ) -> None:
        self._clock = clock
        self._notes = notes
        self.bursts = bursts
        self._interval_s = interval_s
        self._agents: dict[NodeName, AgentState] = {}
        self.peers: Mapping[NodeName, Sequence[NodeName]] = {}  # From now on: what `assign_peers` says of `question`
        self.shared: Sequence[NodeName] = ()  # Nodes whose agent has the address of another one

    @property
    def interval_s(self) -> float:
        """Seconds between two reports of one agent, longer with more than 250 agents, and 60 from 1,500 on."""
        return max(self._interval_s, min(round(len(self._agents) / _REPORTS_PER_S, 1), _LONGEST_S))

    @property
    def silent_after_s(self) -> float:
        """Seconds without a report after which an agent is called silent."""
        return _SILENT_INTERVALS * self.interval_s

    def take(self, report: ProbeReport, pod: AgentPod) -> ProbeOrders | ReportRefusal:
        """Keep a report of the agent in `pod`, which was checked, and say what to do next. Cost: O(links)."""
        now_s, node = self._clock.now_s(), NodeName(report.node)
        agent = self._agents.get(node)
        if (refusal := refusal_of(report, pod, agent, now_s=now_s)) is not None:
            return refusal
        suspect = sum(link.suspect for link in report.links)  # Packets that it sent or read too late
        suspect_ratio = suspect / max(suspect + sum(link.sent for link in report.links), 1)
        if agent is None or agent.pod.uid != pod.uid or agent.since_s != report.since_s:
            resumed, links = agent is not None, agent.links if agent is not None else {}
            ended = (*agent.ended, agent.since_s) if agent is not None and agent.pod.uid == pod.uid else ()
            for link_reports in links.values():
                link_reports.waiting = None
            agent = AgentState(
                pod, report.since_s, report.sequence, report.reflector_port, now_s, Attendance(now_s, now_s)
            )
            agent.answered_s, agent.ended, agent.resumed, agent.links = now_s, ended[-_MOST_ENDED:], resumed, links
            self._agents[node] = agent
        else:
            began_s, interval_s = agent.attendance.last_s, self.interval_s
            if not agent.resumed:
                began_s = self._resume(agent, report.memory, now_s=now_s)
                interval_s = max(interval_s, now_s - began_s)  # Whether it was late since then, it says itself
            agent.attendance = agent.attendance.after(now_s, interval_s=interval_s, suspect_ratio=suspect_ratio)
            agent.sequence, agent.port = report.sequence, report.reflector_port
            if any(link.lost < link.sent for link in report.links):
                agent.answered, agent.answered_s = True, now_s
            late, peers = suspect_ratio > SUSPECT_RATIO, agent.measures | agent.measured
            counted = [link for link in report.links if link.peer in peers and link.lost < link.sent]
            if not late and sum(link.lost for link in counted) > _LOSSY_RATIO * sum(link.sent for link in counted):
                agent.lossy_s = now_s  # no link that lost all: more packets would say no more
            for link in report.links:
                self._hear(agent, link, began_s=began_s, now_s=now_s, late=late)
        if self.bursts is not None:
            agent.iperf3 = report.iperf3
            if report.burst is not None:
                self.bursts.take(node, report.burst)
        return self._orders(node, agent, now_s=now_s)

    def question(
        self, zone_of: Mapping[NodeName, ZoneName], wanted: AbstractSet[NodeName], seed: str
    ) -> tuple[Mapping[NodeName, ZoneName], PeerTurn, AbstractSet[NodeName]]:
        """Nodes whose agent can be measured, and by what peers are assigned; nodes that left go. O(agents + links)."""
        now_s = self._clock.now_s()
        gone_s = _GONE_INTERVALS * self.interval_s
        for node in [node for node in self._agents if node not in zone_of]:
            del self._agents[node]
        for agent in self._agents.values():
            agent.measured_by &= self._agents.keys()
            links = agent.links.items()  # Those that are measured no more have long been read
            for peer in [peer for peer, link in links if peer not in zone_of or link.heard_s < now_s - gone_s]:
                del agent.links[peer]
        there = {node: agent for node, agent in self._agents.items() if now_s - agent.attendance.last_s < gone_s}
        at = Counter(agent.pod.address for agent in there.values())
        live = {node: zone_of[node] for node, agent in there.items() if at[agent.pod.address] == 1}
        self.shared = sorted(there.keys() - live.keys())
        return live, PeerTurn(int(now_s // EPOCH_S), seed), wanted & live.keys()

    @property
    def names(self) -> Sequence[NodeName]:
        """Nodes whose agent is known."""
        return tuple(self._agents)

    def values(self, node: NodeName, *, since_s: float) -> Iterator[tuple[NodeName, NodeName, LinkValue]]:
        """Each direction of this agent's links that was reported since then; a link of two agents is said by one."""
        agent = self._agents.get(node)
        for peer, link in agent.links.items() if agent is not None else ():
            other = self._agents.get(peer)
            back = other.links.get(node) if other is not None else None
            if back is not None and peer < node:
                continue
            if link.heard_s < since_s and (back is None or back.heard_s < since_s):
                continue
            far = back.state if back is not None else None
            if (there := link_value(link.state, far)) is not None:
                yield node, peer, there
            if (again := link_value(far, link.state)) is not None:
                yield peer, node, again

    def in_trouble(self) -> tuple[Mapping[NodeName, float], Mapping[NodeName, float]]:
        """Nodes whose agent is silent, and whose agent gets no answers, each → since when. Cost: O(agents)."""
        since_s = self._clock.now_s() - self.silent_after_s
        agents = sorted(self._agents.items())
        silent = {node: agent.attendance.last_s for node, agent in agents if agent.attendance.last_s < since_s}
        measuring = [(node, agent) for node, agent in agents if node not in silent and agent.measured]
        return silent, {node: agent.answered_s for node, agent in measuring if agent.answered_s < since_s}

    def with_iperf3(self) -> AbstractSet[NodeName]:
        """Nodes whose agent reports and says that it has iperf3. Cost: O(agents)."""
        since_s = self._clock.now_s() - self.silent_after_s
        return {node for node, agent in self._agents.items() if agent.iperf3 and agent.attendance.last_s >= since_s}

    def reset(self) -> None:
        """Forget everything: another replica leads now, or we begin to."""
        self._agents.clear()
        self.peers = {}
        if self.bursts is not None:
            self.bursts.reset()

    def _hear(self, agent: AgentState, probed: ProbedLink, *, began_s: float, now_s: float, late: bool) -> None:
        """One link of a report, and what was said of it before, if the peer's agent has reported since."""
        peer = NodeName(probed.peer)
        if peer not in agent.measures and peer not in agent.measured:
            return
        other = self._agents.get(peer)
        link = agent.links.setdefault(peer, LinkReports())
        link.heard_s = now_s
        if link.waiting is not None and other is not None and other.attendance.covers(link.waiting):
            link.state = (link.state or LinkState(link.waiting.ended_s)).with_window(link.waiting)
        link.waiting = None
        blocked = probed.lost == probed.sent and not (agent.answered and other is not None and other.answered)
        if probed.sent > 0 and not blocked and not late:
            counts = (probed.sent, probed.lost, probed.lost_out, probed.lost_back)
            weight = agent.packet_s / _PACKET_S
            link.waiting = LinkWindow(began_s, now_s, *counts, probed.rtt_ms, probed.one_way_ms, weight)

    def _resume(self, agent: AgentState, text: str, *, now_s: float) -> float:
        """Take what the last leader knew, once; when what the agent reports with it began, in Unix seconds."""
        agent.resumed = True
        content = self._notes.unseal(agent.pod.node, text)
        memory = AgentMemory()
        if content is not None:
            with suppress(msgspec.ValidationError):  # of another version of netgang
                memory = msgspec.json.decode(content, type=AgentMemory)
        for peer, state in memory.links.items():
            if now_s - state.at_s <= _KNOWN_S:
                state = state._replace(at_s=min(state.at_s, now_s))  # The last leader's clock may be ahead
                agent.links.setdefault(peer, LinkReports(state, heard_s=now_s))
        if self.bursts is not None:
            self.bursts.resume(memory.bursts)
        at_s = {peer: link.state.at_s for peer, link in agent.links.items() if link.state is not None}
        if not at_s:
            return agent.attendance.last_s
        fresh_s = now_s - _GONE_INTERVALS * self.interval_s
        agent.measures = frozenset(peer for peer in at_s if at_s[peer] > fresh_s)
        began_s = max(at_s.values())
        agent.attendance = Attendance(began_s - 2.0 * self.interval_s, began_s)
        return began_s

    def _orders(self, node: NodeName, agent: AgentState, *, now_s: float) -> ProbeOrders:
        """Peers that answer already, and the addresses of all that measure this node or are about to."""
        is_new, often_s = now_s - agent.known_since_s < _FIRST_S, min(_OFTEN_S, self._interval_s)
        if not agent.resumed or (is_new and agent.measures and not self.peers.get(node)):
            return ProbeOrders(often_s, _PACKET_S, (), (), resend=True, throughput=self.bursts is not None)
        assigned = [(peer, self._agents[peer]) for peer in self.peers.get(node, ()) if peer in self._agents]
        answers = {other.pod.address for _, other in assigned}
        answers |= {self._agents[peer].pod.address for peer in agent.measured_by if peer in self._agents}
        agent.answers = frozenset(answers)
        ready = [(peer, other) for peer, other in assigned if agent.pod.address in other.answers]
        agent.measured, agent.measures = agent.measures, frozenset(peer for peer, _ in ready)
        for peer in agent.measured - agent.measures:
            if peer in self._agents:
                self._agents[peer].measured_by.discard(node)
        for _, other in ready:
            other.measured_by.add(node)
        learning = is_new and (len(ready) < len(assigned) or not self.peers.get(node))
        lossy_s = max([agent.lossy_s, *(other.lossy_s for _, other in ready)])
        closely = now_s - agent.known_since_s < _NEW_S or now_s - lossy_s < _LOSSY_S
        per_s = _MANY_PER_S if closely and len(self.peers) <= SMALL else _FEW_PER_S
        agent.packet_s = max(_PACKET_S, math.ceil(1000.0 * len(ready) / per_s) / 1000.0)
        orders = ProbeOrders(
            interval_s=often_s if learning else self.interval_s,
            packet_interval_s=agent.packet_s,
            peers=tuple(ProbePeer(peer, other.pod.address, other.port) for peer, other in ready),
            reflect_for=tuple(sorted(agent.answers)),
            memory=self._memory(node, agent),
        )
        if (bursts := self.bursts) is None:
            return orders
        agents = self._agents
        burst = bursts.order(node, lambda peer: agents[peer].pod.address if peer in agents else None)
        interval_s = min(orders.interval_s, bursts.due_in_s(node) or orders.interval_s)
        return replace(orders, interval_s=interval_s, throughput=True, burst=burst)

    def _memory(self, node: NodeName, agent: AgentState) -> str:
        states = {peer: link.state for peer, link in agent.links.items() if link.state is not None}
        links = {peer: LinkState(*(round(figure, 3) for figure in state)) for peer, state in states.items()}
        memory = AgentMemory(links, self.bursts.known(node) if self.bursts is not None else ())
        text = self._notes.seal(node, msgspec.json.encode(memory).decode())
        return text if len(text) <= MOST_MEMORY_CHARS else ""
