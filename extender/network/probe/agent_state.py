"""What is known of one agent of the probe and of its links, between two of its reports."""

from dataclasses import dataclass, field

from extender.network.probe.agent_pods import AgentPod
from scoring.ids import NodeName
from scoring.probing.links import Attendance, LinkState, Window


@dataclass(slots=True)
class Link:
    """What one agent says of one link."""

    state: LinkState | None = None
    waiting: Window | None = None  # Counts once the peer's agent has reported after it
    heard_s: float = 0.0


@dataclass(slots=True)
class Agent:
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
    measured_by: set[NodeName] = field(default_factory=set)  # Nodes that were given it as a peer
    links: dict[NodeName, Link] = field(default_factory=dict)  # peer → link
