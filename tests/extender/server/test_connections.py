"""Which connection of a port ends for another one, and when (docs/safety.md S28)."""

import asyncio
from collections import Counter

import pytest

from extender.server.connections import Connection, Connections, PortLimits, State
from tests.fakes.transport import FakeTransport

pytestmark = pytest.mark.looptime


class Client(FakeTransport):
    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(asyncio.Protocol())

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.address, 40000) if name == "peername" else default


class Port:
    def __init__(self, **limits: float) -> None:
        self.why: Counter[str] = Counter()
        self.connections = Connections(PortLimits(**limits), counted=lambda why: self.why.update([why]))  # type: ignore[arg-type]
        self.ended: list[int] = []
        self.all: list[Connection] = []

    def open(self, state: State = State.HEAD, *, peer: str = "127.0.0.1") -> Connection:
        number = len(self.all)
        one = self.connections.opened(Client(peer), lambda: self.ended.append(number))
        self.all.append(one)
        self.connections.move(one, state, now_s=asyncio.get_running_loop().time())
        return one


async def test_what_calls_verbs_ends_last() -> None:
    port = Port(per_peer=6)
    for state in (State.CALL, State.KEPT, State.ASKED, State.IDLE, State.UNREAD, State.BODY, State.HEAD):
        port.open(state)
    for _ in range(6):
        port.open(State.CALL)
        port.open(State.KEPT)
    assert port.ended[:6] == [6, 5, 4, 3, 2, 1]
    assert port.ended == sorted(port.ended, key=lambda one: (one > 6, -one if one <= 6 else one))


async def test_at_the_ports_bound_the_greediest_peer_loses() -> None:
    port = Port(connections=8, per_peer=5)
    for peer in ("modest", *["greedy"] * 5, "other", "third", "new"):
        port.open(State.IDLE if peer == "greedy" else State.HEAD, peer=peer)
    assert (port.ended, port.why) == ([1], {"ended for another": 1})


TIMES = {  # state → seconds after which it ends, with the times that are shipped
    State.HEAD: 5.0,
    State.BODY: 15.0,
    State.UNREAD: 60.0,
    State.IDLE: 60.0,
    State.KEPT: 120.0,
    State.ASKED: None,
    State.CALL: None,
}


@pytest.mark.parametrize(("state", "limit_s"), TIMES.items(), ids=[state.name for state in TIMES])
async def test_each_state_has_its_time(state: State, limit_s: float | None) -> None:
    port = Port()
    one = port.open(state)
    await asyncio.sleep((limit_s or 500.0) - 1.0)
    if state is not State.KEPT:  # which is another call
        port.connections.move(one, state, now_s=asyncio.get_running_loop().time())
    assert not port.why
    await asyncio.sleep(2.1)
    assert bool(port.why) is (limit_s is not None)


async def test_nothing_is_left_of_what_is_closed() -> None:
    port = Port()
    for state in State:
        one = port.open(state)
        port.connections.keep(one, 1000)
        port.connections.closed(one)
        port.connections.closed(one)
        port.connections.move(one, State.HEAD, now_s=0.0)
    loop = asyncio.get_running_loop()
    assert (len(port.connections), port.connections.kept_bytes) == (0, 0)
    assert not [one for one in loop._scheduled if not one.cancelled()]  # type: ignore[attr-defined]
