"""What ranks do: the chief serves the parameters or leads a ring; the others give a gradient for what comes.

Rules: the chief's parameters are the truth. A synchronous step counts when the gradients of all its members have come,
else it is done again. An asynchronous step is one gradient, its *staleness* the steps between its pull and its push.
"""

import json
import signal
import socket
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, Final

import numpy as np

from lab.papers.train.model import Floats, Learner, saved

Address = tuple[str, int]
Message = tuple[dict[str, Any], Floats]
_EMPTY: Final = np.empty(0, np.float32)
_NOTICE: Final = {"KEEPIDLE": 10, "KEEPINTVL": 3, "KEEPCNT": 5, "USER_TIMEOUT": 30_000}  # within half a minute


class Peer:
    """A connection to a rank; a message is a line of JSON and a vector, perhaps an empty one."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, value in _NOTICE.items():
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # finds a host that is lost without a word
        with suppress(OSError):  # a kernel without it; some kernels' default, bbr, takes loss for no congestion
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        self._connection, self._incoming = connection, connection.makefile("rb")
        self.host, self.rank = connection.getpeername()[0], 0

    def send(self, vector: Floats = _EMPTY, **head: Any) -> None:
        """A message."""
        self._connection.sendall(json.dumps({**head, "size": vector.size}).encode() + b"\n" + vector.tobytes())

    def receive(self) -> Message:
        """Wait for the next message."""
        line = self._incoming.readline()
        head = dict(json.loads(line)) if line.endswith(b"\n") else {"size": 1}
        vector = np.empty(head["size"], np.float32)
        if self._incoming.readinto(vector.data.cast("B")) < vector.nbytes:
            raise ConnectionResetError("the other end is gone")
        return head, vector

    def close(self) -> None:
        """Both ends know at once, and a thread that waits here too."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def work(learner: Learner, rank: int, address: Address) -> None:
    """Be a member until the job is over; a chief that is gone is waited for."""
    options = learner.options
    signal.setitimer(signal.ITIMER_REAL, options.peers_s + options.limit_s)
    while saved(options)[0] < options.steps:
        with suppress(OSError), closing(Peer(socket.create_connection(address, options.peers_s))) as chief:
            chief.send(rank=rank)
            while True:
                with socket.create_server(("", 0)) as door:  # a new one each time: no call for an older ring comes in
                    if options.mode == "ring":
                        chief.send(port=door.getsockname()[1])
                    head, parameters = chief.receive()
                    learner.state = head["step"], parameters
                    if options.mode == "ring":
                        after = (head["after"][0] or address[0], head["after"][1])
                        go_around(learner, door, after, head["place"], head["world"])
                        continue
                vector = learner.gradient(place=head["place"], world=head["world"])
                chief.send(vector)
                learner.tell(vector, step=head["step"] + 1, world=head["world"])
        Event().wait(0.1)


def go_around(learner: Learner, door: socket.socket, after: Address, place: int, world: int) -> None:
    """Steps of a ring, all ranks alike, until one is lost, or the chief has a newcomer and hangs up."""
    door.settimeout(10.0)  # neighbours were there a moment ago
    with (
        suppress(OSError),
        ThreadPoolExecutor(1) as helper,
        closing(Peer(socket.create_connection(after, 10.0))) as ahead,
        closing(Peer(door.accept()[0])) as behind,
    ):
        while not learner.done and not learner.newcomers:
            vector = learner.gradient(place=place, world=world)
            parts = np.array_split(vector, world)
            for turn in range(2 * (world - 1)):  # in the first half parts are summed, in the second handed on
                sent = helper.submit(ahead.send, parts[(place - turn) % world])
                into, (_, came) = parts[(place - turn - 1) % world], behind.receive()
                into[:] = into + came if turn < world - 1 else came
                sent.result()
            learner.advance(vector / np.float32(world), world=world)


class Chief:
    """Rank 0. `lead` is all of it."""

    def __init__(self, learner: Learner, port: int) -> None:
        self._learner, self._mode = learner, learner.options.mode
        self._changed, self._here = Condition(), dict[int, Peer]()  # the one guards the other
        self._asked: dict[Peer, tuple[int, Future[Message | None]]] = {}
        self._door, self._pool = socket.create_server(("", port), backlog=64), ThreadPoolExecutor(64)
        Thread(target=self._take_calls, daemon=True).start()

    def lead(self, ranks: int) -> None:
        """All steps; whatever ends it, the last one is saved. So many ranks are awaited, but not after a kill."""
        learner = self._learner
        try:
            self._gather(0 if learner.resumed else ranks - 1, learner.options.peers_s)
            signal.setitimer(signal.ITIMER_REAL, learner.options.limit_s)
            learner.since_s = monotonic()
            while not learner.done:
                self._lead_ring(self._gather(0)) if self._mode == "ring" else self._serve(self._gather(1))
        finally:
            learner.save()
            for peer in list(self._here.values()):
                peer.close()  # how they learn that it is over: by the checkpoint

    def _gather(self, least: int, limit_s: float | None = None) -> list[Peer]:
        """Who is here, by rank."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._here) >= least, limit_s)
            self._learner.newcomers = False
            return [self._here[rank] for rank in sorted(self._here)]

    def _serve(self, team: list[Peer]) -> None:
        """One step of all members, or, asynchronous, one of each whose gradient has come."""
        learner, (step, parameters), alone = self._learner, self._learner.state, self._mode == "async"
        for place, peer in enumerate(team):
            if peer not in self._asked:
                asked = self._pool.submit(self._ask, peer, parameters, step=step, place=place, world=len(team))
                self._asked[peer] = step, asked
        futures = [future for _, future in self._asked.values()]
        done = wait(futures, 0.5 if alone else None, FIRST_COMPLETED if alone else ALL_COMPLETED).done
        ended = [(self._asked.pop(peer)[0], future) for peer, (_, future) in [*self._asked.items()] if future in done]
        came = [(pulled, answer[1]) for pulled, future in ended if (answer := future.result())]
        for pulled, vector in came if alone else []:
            if not learner.done:
                learner.advance(vector, world=len(team), staleness=learner.state[0] - pulled)
        if not alone and len(came) == len(team):
            learner.advance(np.mean([vector for _, vector in came], axis=0), world=len(team))

    def _lead_ring(self, members: list[Peer]) -> None:
        """One ring: steps until a member comes or goes."""
        asked = [(peer, self._ask(peer)) for peer in members]  # they have hung up the old ring, and want a new one
        team = [(peer, (peer.host, int(answer[0]["port"]))) for peer, answer in asked if answer]
        (step, parameters), world = self._learner.state, len(team) + 1
        with socket.create_server(("", 0)) as door:
            addresses: list[Address] = [*(address for _, address in team), ("", door.getsockname()[1])]
            for place, (peer, _) in enumerate(team, 1):
                with suppress(OSError):
                    peer.send(parameters, step=step, place=place, world=world, after=addresses[place])
            go_around(self._learner, door, addresses[0] if team else ("localhost", addresses[0][1]), 0, world)

    def _ask(self, peer: Peer, parameters: Floats = _EMPTY, **head: int) -> Message | None:
        """A message for an answer, or an answer that comes of itself; None: the member is lost, and no member now."""
        with suppress(OSError):
            if head:
                peer.send(parameters, **head)
            return peer.receive()
        peer.close()
        with self._changed:
            if self._here.get(peer.rank) is peer:
                del self._here[peer.rank]
        return None

    def _take_calls(self) -> None:
        while True:
            Thread(target=self._greet, args=(self._door.accept()[0],), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError, KeyError):  # who says nothing of use is no member
            peer = Peer(connection)
            peer.rank = int(peer.receive()[0]["rank"])
            with self._changed:
                if before := self._here.get(peer.rank):  # re-created before its end was noticed
                    before.close()
                self._here[peer.rank], self._learner.newcomers = peer, True
                self._changed.notify_all()
