"""The exchange with netgang as JSON: what the agent reports, and what it is assigned (docs/reference/probe.md).

Rule: an assignment is taken whole or not at all, and has bounds of its own: whatever answers at netgang's address makes
the agent neither flood a network nor grow.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, TypeAlias, TypeVar

MOST_PEERS: Final = 64
MOST_ADDRESSES: Final = 128
MOST_ANSWER_BYTES: Final = 80 << 10
MOST_MEMORY_CHARS: Final = 48 << 10
MOST_BURST_BYTES: Final = 10_000_000_000
_NAME_LENGTH: Final = 253
_ID_LENGTH: Final = 64
_Object: TypeAlias = Mapping[str, Any]
_Limit = TypeVar("_Limit", int, float)


class AssignmentError(Exception):
    """An answer that is no assignment; begins with the field."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An agent that packets go to."""

    node: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Burst:
    """A measurement of throughput to be run now, as the server or as its client."""

    id: str
    server: bool
    address: str  # Of the other agent
    port: int
    seconds: float
    size_bytes: int
    wait_s: float  # So long the server waits for the client


@dataclass(frozen=True, slots=True)
class Assignment:
    """What netgang wants measured. Seconds between reports, and between two packets to one peer."""

    interval_s: float = 10.0
    packet_interval_s: float = 0.1
    peers: tuple[Peer, ...] = ()
    reflect_for: tuple[str, ...] = ()
    resend: bool = False  # A new leader: go on as before, and report again, with what the last one knew
    throughput: bool = False  # Whether reports are to say `iperf3`
    burst: Burst | None = None
    memory: str = ""  # To be kept for the next leader


def report(**body: Any) -> bytes:
    """The body of a report."""
    return json.dumps(body, separators=(",", ":")).encode()


def read_assignment(body: bytes) -> Assignment:
    """What an answer assigns; addresses in their usual form. Errors: AssignmentError.

    >>> read_assignment(b'{"peers": [{"node": "b", "address": "::0:1", "port": 8862}], "reflect_for": []}').peers
    (Peer(node='b', address='::1', port=8862),)
    """
    if len(body) > MOST_ANSWER_BYTES:
        raise AssignmentError(f"body: more than {MOST_ANSWER_BYTES} bytes")
    try:
        given = _object(json.loads(body), "body")
    except (ValueError, RecursionError) as error:
        raise AssignmentError(f"body: no JSON: {error}") from error
    peers = _list(given, "peers", MOST_PEERS)
    return Assignment(
        _number(given.get("interval_s", 10.0), 1.0, 300.0, "interval_s"),
        _number(given.get("packet_interval_s", 0.1), 0.05, 60.0, "packet_interval_s"),
        tuple(_peer(peer, f"peers[{i}]") for i, peer in enumerate(peers)),
        tuple(_address(address, "reflect_for") for address in _list(given, "reflect_for", MOST_ADDRESSES)),
        given.get("resend") is True,
        given.get("throughput") is True,
        None if given.get("burst") is None else _burst(_object(given["burst"], "burst")),
        _text(given.get("memory", ""), MOST_MEMORY_CHARS, "memory", least=0),
    )


def _burst(burst: _Object) -> Burst:
    return Burst(
        _text(burst.get("id"), _ID_LENGTH, "burst.id"),
        burst.get("server") is True,
        _address(burst.get("address"), "burst.address"),
        _number(burst.get("port"), 1024, 65535, "burst.port"),
        _number(burst.get("seconds"), 1.0, 10.0, "burst.seconds"),
        _number(burst.get("size_bytes"), 1, MOST_BURST_BYTES, "burst.size_bytes"),
        _number(burst.get("wait_s"), 1.0, 300.0, "burst.wait_s"),
    )


def _peer(given: Any, where: str) -> Peer:
    peer = _object(given, where)
    node = _text(peer.get("node"), _NAME_LENGTH, f"{where}.node")
    address = _address(peer.get("address"), f"{where}.address")
    return Peer(node, address, _number(peer.get("port"), 1, 65535, f"{where}.port"))


def _object(given: Any, where: str) -> _Object:
    if not isinstance(given, dict):
        raise AssignmentError(f"{where}: no object")
    return given


def _text(given: Any, most: int, where: str, *, least: int = 1) -> str:
    if not isinstance(given, str) or not least <= len(given) <= most:
        raise AssignmentError(f"{where}: must be a text of {least} to {most} characters")
    return given


def _number(given: Any, low: _Limit, high: _Limit, where: str) -> _Limit:
    """Of the kind of its limits: between whole numbers only a whole number is one."""
    if type(given) not in (int, type(low)) or not low <= given <= high:
        raise AssignmentError(f"{where}: must be {low:.12g} to {high:.12g}, not {repr(given)[:40]}")
    return type(low)(given)


def _list(given: _Object, name: str, most: int) -> list[Any]:
    value = given.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise AssignmentError(f"{name}: must be a list of at most {most}")
    return value


def _address(given: Any, where: str) -> str:
    try:
        address = ip_address(given if isinstance(given, str) else "")
    except ValueError:
        address = None
    if address is None or address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        raise AssignmentError(f"{where}: no IP address of a node: {repr(given)[:60]}")
    return str(address)
