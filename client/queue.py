"""Ask a running netgang for its queue: the document /v1/queue.

Rule: as `client.network`: what is not netgang's document is one NetworkSourceError that names the address.
"""

from typing import Any

import httpx
import msgspec

from client.explain import Weight
from client.jobs import _asked


class Members(msgspec.Struct):
    """How many pods there are, by what they do."""

    min_available: int
    pending: int
    running: int
    succeeded: int = 0
    failed: int = 0


class Queued(msgspec.Struct):
    """The parts of a gang's entry that are shown to people."""

    gang: str
    queue: str
    state: str
    rank: int | None
    priority: int
    weight: Weight
    members: Members
    admitted: bool
    waited_s: float | None = None
    starves_in_s: float | None = None
    running_since_s: float | None = None
    zone: str | None = None
    held_nodes: list[str] = []
    makes_room: list[str] = []
    leaves_for: str | None = None
    reason: str | None = None
    detail: str = ""


class Share(msgspec.Struct):
    """What the gangs of a limited namespace have."""

    namespace: str
    cap: float
    cpu: float
    memory: float


class RunningQueue(msgspec.Struct):
    """The document of the whole queue; `gangs` are those that wait first, in the order of their turns."""

    at_s: float
    order: str
    counts: dict[str, int]
    gangs: list[Queued]
    shares: list[Share] = []


async def ask_queue(
    url: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[RunningQueue, dict[str, Any]]:
    """The queue, and the whole document. Errors: ConfigError for a bad address, NetworkSourceError."""
    found, body = await _asked(url, "/v1/queue", {}, RunningQueue, transport)
    return found, msgspec.json.decode(body, type=dict[str, Any])
