"""POST /v1/probe: what a probe's agent reports about its links, and what it is answered."""

from typing import Annotated

import msgspec
from msgspec import Meta, field

MOST_LINKS = 128
_Name = Annotated[str, Meta(min_length=1, max_length=253)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Ms = Annotated[float, Meta(ge=0.0, le=600_000.0)]
_Bps = Annotated[float, Meta(ge=0.0, le=1e15)]
_Port = Annotated[int, Meta(ge=1, le=65535)]


class ProbedLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link since the agent's last report that was taken; suspect packets are in no other field."""

    peer: _Name  # Node at the other end.
    sent: _Count
    lost: _Count  # Of those sent, without an answer.
    lost_out: _Count | None = None  # On the way to the peer; null: not known.
    lost_back: _Count | None = None  # On the way back; null: not known.
    rtt_ms: Annotated[list[_Ms], Meta(min_length=2, max_length=2)] | None = None  # Round trip, p50 and p95; null: none.
    one_way_ms: _Ms | None = None  # To the peer; null: clocks are not known to be synchronised.
    jitter_ms: _Ms | None = None
    suspect: _Count = 0  # Packets that the agents themselves may have spoilt.


class KnownLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a leader answered of a link in `known`, sent back to the next one."""

    peer: _Name
    known: Annotated[list[_Ms], Meta(min_length=7, max_length=7)]  # As answered, the first with today's age.


class KnownBurst(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A burst that ended, as a leader answers it, and as both of its agents send it back to the next one."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    peer: _Name
    server: bool  # Whether this agent was the server.
    age_s: Annotated[float, Meta(ge=0.0, le=1e7)]  # Seconds since it began; as sent back, with today's age.
    sent_bps: _Bps | None = None  # To the peer, bits a second; null: not measured.
    received_bps: _Bps | None = None  # From the peer.


class BurstResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the client of a burst found; taken once, from the agent that the burst was assigned to."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    sent_bps: _Bps | None = None  # To the server, bits a second; null: not known.
    received_bps: _Bps | None = None  # From the server.
    retransmits: _Count | None = None  # Segments that the client sent again.
    error: Annotated[str, Meta(max_length=200)] = ""


class ProbeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent sends every `interval_s`."""

    node: _Name  # That of the agent's own pod.
    since_s: Annotated[float, Meta(ge=0.0, le=1e11)]  # Unix seconds: when the agent began.
    sequence: Annotated[int, Meta(ge=0, le=2**53)]  # Grows with each report of this `since_s`.
    reflector_port: _Port  # UDP port at which the agent answers.
    links: Annotated[list[ProbedLink], Meta(max_length=MOST_LINKS)] = field(default_factory=list)
    known: Annotated[list[KnownLink], Meta(max_length=MOST_LINKS)] = field(default_factory=list)  # If `resend`.
    known_bursts: Annotated[list[KnownBurst], Meta(max_length=MOST_LINKS)] = field(default_factory=list)
    iperf3: bool | None = None  # Whether the agent can run bursts; null: netgang did not ask for it.
    burst: BurstResult | None = None


class ProbePeer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node to measure."""

    node: str
    address: str
    port: int  # UDP port of its reflector.
    known: list[float] | None = None  # Age s, sent, lost there, lost back, answered, delay there ms, delay back ms.


class ProbeBurst(msgspec.Struct, frozen=True):
    """One measurement of throughput by iperf3, both directions at once, between this agent and one other."""

    id: str
    server: bool  # Whether this agent is the server, which waits for the other.
    address: str  # Of the other agent, the only one that the server takes.
    port: int  # TCP port of the server.
    seconds: float  # Longest time of the burst.
    size_bytes: int  # Most bytes of each direction.
    wait_s: float  # So long the server waits for the client.


class ProbeOrders(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the agent is to do until its next report."""

    interval_s: float  # Seconds until the next report.
    packet_interval_s: float  # Seconds between two packets to one peer.
    peers: tuple[ProbePeer, ...]
    reflect_for: tuple[str, ...]  # Addresses whose packets are answered, and no others.
    resend: bool = False  # This leader is new: go on as before, and send links again, with what is `known`.
    throughput: bool = False  # Whether netgang gives out bursts: then reports say `iperf3`.
    burst: ProbeBurst | None = None  # To be run now.
    known_bursts: tuple[KnownBurst, ...] = ()  # Of this node, that ended: to be kept for the next leader.
