"""The exchange with netgang as JSON: what the agent reports, and what it is assigned (docs/reference/probe-agent.md).

Rule: an assignment is taken whole or not at all, and has bounds of its own: whatever answers at netgang's address makes
the agent neither flood a network nor grow.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

MOST_PEERS: Final = 64
MOST_ADDRESSES: Final = 128
MOST_ANSWER_BYTES: Final = 64 << 10
_INTERVAL_S: Final = (1.0, 300.0)
_PACKET_INTERVAL_S: Final = (0.05, 60.0)
_BURST_S: Final = (1.0, 10.0)
_WAIT_S: Final = (1.0, 300.0)
MOST_BURST_BYTES: Final = 10_000_000_000
_NAME_LENGTH: Final = 253
_FIGURES: Final = 7
_MOST: Final = 600_000.0
_ID_LENGTH: Final = 64
MOST_BURSTS: Final = 128
_MOST_AGE_S: Final = 1e7
_MOST_BPS: Final = 1e15


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
    address: str
    """of the other agent"""
    port: int
    seconds: float
    size_bytes: int
    wait_s: float
    """so long the server waits for the client"""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What netgang wants measured. Seconds between reports, and between two packets to one peer."""

    interval_s: float = 10.0
    packet_interval_s: float = 0.1
    peers: tuple[Peer, ...] = ()
    reflect_for: tuple[str, ...] = ()
    known: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """peer → what netgang knows of the link: its age in seconds, and figures"""
    resend: bool = False
    """a new leader: go on as before, and report again, with what the last one knew"""
    throughput: bool = False
    """whether reports are to say `iperf3`"""
    burst: Burst | None = None
    known_bursts: Sequence[Mapping[str, Any]] = ()
    """bursts of this node that ended, for the next leader"""


def report(
    *,
    node: str,
    since_s: float,
    sequence: int,
    reflector_port: int,
    links: Sequence[Mapping[str, Any]],
    known: Mapping[str, Sequence[float]],
    known_bursts: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> bytes:
    """The body of a report; `since_s` is Unix time, `more` what netgang asked for besides (bursts)."""
    body = {"node": node, "since_s": since_s, "sequence": sequence, "reflector_port": reflector_port, "links": links}
    if known:
        body["known"] = [{"peer": peer, "known": figures} for peer, figures in known.items()]
    if known_bursts:
        body["known_bursts"] = known_bursts
    return json.dumps(body | more, separators=(",", ":")).encode()


def read_assignment(body: bytes) -> Assignment:
    """What an answer assigns; addresses in their usual form. Errors: AssignmentError.

    >>> read_assignment(b'{"peers": [{"node": "b", "address": "::0:1", "port": 8862}], "reflect_for": []}').peers
    (Peer(node='b', address='::1', port=8862),)
    """
    if len(body) > MOST_ANSWER_BYTES:
        raise AssignmentError(f"body: more than {MOST_ANSWER_BYTES} bytes")
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise AssignmentError(f"body: no JSON: {error}") from error
    if not isinstance(given, dict):
        raise AssignmentError("body: no object")
    peers = _list(given, "peers", MOST_PEERS)
    return Assignment(
        _seconds(given, "interval_s", 10.0, _INTERVAL_S),
        _seconds(given, "packet_interval_s", 0.1, _PACKET_INTERVAL_S),
        tuple(_peer(one, f"peers[{i}]") for i, one in enumerate(peers)),
        tuple(_address(one, "reflect_for") for one in _list(given, "reflect_for", MOST_ADDRESSES)),
        {one["node"]: _figures(one["known"], f"peers[{i}].known") for i, one in enumerate(peers) if one.get("known")},
        given.get("resend") is True,
        given.get("throughput") is True,
        _burst(given.get("burst")),
        tuple(map(_known_burst, _list({"known_bursts": [], **given}, "known_bursts", MOST_BURSTS))),
    )


def _known_burst(given: Any) -> Mapping[str, Any]:
    """As it is sent back: the fields that are known, each within its bounds."""
    if not isinstance(given, dict):
        raise AssignmentError("known_bursts: no object")
    name, peer, age_s = given.get("id"), given.get("peer"), given.get("age_s")
    rates = {way: given.get(way) for way in ("sent_bps", "received_bps")}
    if not isinstance(name, str) or not 0 < len(name) <= _ID_LENGTH:
        raise AssignmentError("known_bursts: no id")
    if not isinstance(peer, str) or not 0 < len(peer) <= _NAME_LENGTH:
        raise AssignmentError("known_bursts: no peer")
    if not _is_figure(age_s, _MOST_AGE_S) or not all(
        one is None or _is_figure(one, _MOST_BPS) for one in rates.values()
    ):
        raise AssignmentError("known_bursts: no age or no rate")
    return {"id": name, "peer": peer, "server": given.get("server") is True, "age_s": age_s, **rates}


def _is_figure(given: Any, most: float) -> bool:
    return type(given) in (int, float) and 0 <= given <= most


def _burst(given: Any) -> Burst | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise AssignmentError("burst: no object")
    name, port, size_bytes = given.get("id"), given.get("port"), given.get("size_bytes")
    if not isinstance(name, str) or not 0 < len(name) <= _ID_LENGTH:
        raise AssignmentError("burst.id: no id")
    if not isinstance(port, int) or isinstance(port, bool) or not 1024 <= port < 65536:
        raise AssignmentError("burst.port: no port from 1024 on")
    if not isinstance(size_bytes, int) or isinstance(size_bytes, bool) or not 0 < size_bytes <= MOST_BURST_BYTES:
        raise AssignmentError(f"burst.size_bytes: must be 1 to {MOST_BURST_BYTES}")
    return Burst(
        name, given.get("server") is True, _address(given.get("address"), "burst.address"), port,
        _seconds(given, "seconds", 0.0, _BURST_S, where="burst."), size_bytes,
        _seconds(given, "wait_s", 0.0, _WAIT_S, where="burst."),
    )  # fmt: skip


def _seconds(
    given: Mapping[str, Any], name: str, default: float, limits: tuple[float, float], *, where: str = ""
) -> float:
    value = given.get(name, default)
    low, high = limits
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise AssignmentError(f"{where}{name}: must be {low:g} to {high:g} s, not {repr(value)[:40]}")
    return float(value)


def _list(given: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = given.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise AssignmentError(f"{name}: must be a list of at most {most}")
    return value


def _peer(given: Any, where: str) -> Peer:
    if not isinstance(given, dict):
        raise AssignmentError(f"{where}: no object")
    node, port = given.get("node"), given.get("port")
    if not isinstance(node, str) or not 0 < len(node) <= _NAME_LENGTH:
        raise AssignmentError(f"{where}.node: no name")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise AssignmentError(f"{where}.port: no port")
    return Peer(node, _address(given.get("address"), f"{where}.address"), port)


def _figures(given: Any, where: str) -> tuple[float, ...]:
    figures = given if isinstance(given, list) else ()
    if len(figures) != _FIGURES or not all(_is_figure(one, _MOST) for one in figures):
        raise AssignmentError(f"{where}: must be {_FIGURES} numbers from 0 to {_MOST:g}")
    return tuple(figures)


def _address(given: Any, where: str) -> str:
    try:
        found = ip_address(given if isinstance(given, str) else "")
    except ValueError:
        found = None
    if found is None or found.is_multicast or found.is_unspecified or str(found) == "255.255.255.255":
        raise AssignmentError(f"{where}: no IP address of a node: {repr(given)[:60]}")
    return str(found)
