"""The API server's side of `bench.scale`: serves a big cluster's lists, and replays its changes through the watches.

Why a process of its own: what the service costs must not be mixed with what its server costs. Rule: commands come as
JSON lines on standard input, each is answered by one line; it ends when standard input closes.

    {"do": "churn", "rate": 1000, "seconds": 20}     pod events per second, beside the nodes' own
    {"do": "one", "what": "pod" | "node"}            a single event that can decide something
"""

import argparse
import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable
from itertools import count, cycle
from typing import Any

from extender.kube.calls import NODES, POD_GROUPS, PODS
from lab.bench.child import say
from lab.bench.scale import objects
from lab.bench.scale.objects import Shape
from lab.testbed.apiserver.server import LoopbackApi, serve
from lab.testbed.apiserver.store import ApiStore

_TICK_S = 0.01
_HEARTBEAT_S = 300.0
"""kubelets write a node's status at least this often."""
_NODE_LEAVES_EVERY_S = 12.0
_CORDON_EVERY_S = 2.0
_PATTERN = "sssssnsbssdsssnsbssdssfssgssxs"
"""What pod events are, by letter (see `Replay`); 20 of 30 change nothing that can decide."""


class Replay:
    """Changes of a cluster in an order that never varies.

    Letters: s a running pod's status, n a new foreign pod, b it is bound, d an older one is deleted, f a gang's member
    finishes, g the next pod of a new gang behind our gate, x the next pod of an old new gang goes.
    """

    def __init__(self, store: ApiStore, shape: Shape) -> None:
        self._store = store
        self._shape = shape
        self._letters = cycle(_PATTERN)
        self._number = count(shape.foreign)
        self._pending: deque[dict[str, Any]] = deque()
        self._bound: deque[tuple[str, str]] = deque()
        self._status = 0
        self._finished = 0
        self._fresh = count()
        self._gang_pods: deque[tuple[str, str]] = deque()
        self._away: deque[dict[str, Any]] = deque()
        self._beats = 0
        self._single = 0
        self.decided = 0
        """Events so far that could decide something."""
        self._make: dict[str, Callable[[], bool]] = {
            "s": self._status_changes,
            "n": self._foreign_comes,
            "b": self._foreign_bound,
            "d": lambda: self._oldest_goes(self._bound, 20),
            "f": self._member_finishes,
            "g": self._gang_grows,
            "x": lambda: self._oldest_goes(self._gang_pods, 10 * shape.size),
        }

    def pod_event(self) -> None:
        """The next one."""
        self.decided += self._make[next(self._letters)]()

    def heartbeat(self) -> None:
        """The next node's kubelet reports."""
        self._beats += 1
        node = self._node(self._beats)
        node["status"]["conditions"][0]["lastHeartbeatTime"] = f"2026-11-20T{self._beats % 24:02d}:00:00Z"
        self._store.put(NODES, node)

    def cordon(self) -> None:
        """A node is cordoned, or opened again."""
        node = self._node(11)
        node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        self._store.put(NODES, node)
        self.decided += 1

    def node_leaves_or_returns(self) -> None:
        """A node goes; the next time it comes back."""
        if self._away:
            self._store.put(NODES, self._away.popleft())
        else:
            self._away.append(self._node(17))
            self._store.remove(NODES, "", objects.node_name(17))
        self.decided += 1

    def one_pod(self) -> None:
        """A foreign pod comes to one of the empty nodes, or goes from it."""
        self._single += 1
        if self._single % 2:
            pod: dict[str, Any] = objects.foreign(900_000, objects.node_name(0))
            self._store.put(PODS, pod)
        else:
            self._store.remove(PODS, "shop-0", "web-900000")
        self.decided += 1

    def _node(self, i: int) -> dict[str, Any]:
        i = i % self._shape.nodes
        name = objects.node_name(i if i != 17 or not self._away else 18)
        return self._store.get(NODES, "", name)

    def _status_changes(self) -> bool:
        self._status = (self._status + 7919) % self._shape.foreign
        pod: dict[str, Any] = objects.foreign(self._status, None)
        pod = self._store.get(PODS, *_key(pod))
        pod["status"]["podIP"] = f"10.1.{self._status % 250}.{self.decided % 250}"
        self._store.put(PODS, pod)
        return False

    def _foreign_comes(self) -> bool:
        pod: dict[str, Any] = objects.foreign(next(self._number), None)
        self._pending.append(pod)
        self._store.put(PODS, pod)
        return False

    def _foreign_bound(self) -> bool:
        if not self._pending:
            return False
        i = int(self._pending.popleft()["metadata"]["uid"].removeprefix("web-"))
        node = i * 31 % self._shape.nodes
        pod: dict[str, Any] = objects.foreign(i, objects.node_name(node + objects.ZONES * 10 * objects.is_empty(node)))
        self._store.put(PODS, pod)
        self._bound.append(_key(pod))
        return True

    def _member_finishes(self) -> bool:
        if self._finished >= self._shape.members:
            return False
        pod: dict[str, Any] = objects.member(self._finished, objects.node_name(0))
        self._finished += 3
        pod = self._store.get(PODS, *_key(pod))
        pod["status"]["phase"] = "Succeeded"
        self._store.put(PODS, pod)
        return True

    def _gang_grows(self) -> bool:
        gang, index = divmod(next(self._fresh), self._shape.size)
        pod: dict[str, Any] = objects.waiting(self._shape, self._shape.waiting + gang, index)
        self._store.put(PODS, pod)
        self._gang_pods.append(_key(pod))
        return True

    def _oldest_goes(self, pods: deque[tuple[str, str]], least: int) -> bool:
        if len(pods) < least:
            return False
        self._store.remove(PODS, *pods.popleft())
        return True


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


async def churn(replay: Replay, shape: Shape, *, rate: float, seconds: float) -> dict[str, float]:
    """Replay so many pod events per second, and the nodes' own; says how many there were."""
    loop = asyncio.get_running_loop()
    begun_s, decided = loop.time(), replay.decided
    pods = beats = 0
    next_cordon_s, next_leave_s = _CORDON_EVERY_S / 2, _NODE_LEAVES_EVERY_S / 4
    while (now_s := loop.time() - begun_s) < seconds:
        while pods < rate * now_s:
            replay.pod_event()
            pods += 1
        while beats < shape.nodes / _HEARTBEAT_S * now_s:
            replay.heartbeat()
            beats += 1
        if now_s >= next_cordon_s:
            next_cordon_s += _CORDON_EVERY_S
            replay.cordon()
        if now_s >= next_leave_s:
            next_leave_s += _NODE_LEAVES_EVERY_S / 2
            replay.node_leaves_or_returns()
        await asyncio.sleep(_TICK_S)
    return {"pod_events": pods, "heartbeats": beats, "deciding_events": replay.decided - decided}


async def _main(shape: Shape) -> None:
    store = ApiStore()
    store.load(NODES, objects.nodes(shape))
    store.load(PODS, objects.pods(shape))
    store.load(POD_GROUPS, {})
    replay = Replay(store, shape)
    async with serve(LoopbackApi(store)) as api:
        say({"ok": {"url": api.url}})
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            answer: dict[str, float] = {}
            match command["do"], command.get("what"):
                case "churn", _:
                    answer = await churn(replay, shape, rate=command["rate"], seconds=command["seconds"])
                case "one", "pod":
                    replay.one_pod()
                case "one", "node":
                    replay.cordon()
                case other:
                    raise ValueError(f"unknown command {other}")
            say({"ok": answer})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A loopback API server with a big cluster whose changes it replays.")
    for name in ("nodes", "pods", "waiting"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(_main(Shape(given.nodes, given.pods, given.waiting)))
