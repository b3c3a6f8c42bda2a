"""Reflectors for tests, whose sinks remember every state that readers could have seen."""

import json
import random
from collections.abc import Callable, Set
from typing import Any

import msgspec

from extender.convert.decode import Head
from extender.kube.calls import PODS
from extender.kube.reflector import Reflector
from extender.ports import ClusterApi
from lab.testbed.apiserver.store import ApiStore
from tests.fakes.clock import LoopClock

UNREADABLE, UNWANTED = "unreadable", "unwanted"  # label `as` of pods that the reduction cannot read, or does not want


class Item(msgspec.Struct, frozen=True):
    key: str
    version: str


State = frozenset[Item]


def reduce(raw: bytes) -> Item | None:
    """Key and version; by the label `as` the object is unwanted or cannot be read."""
    metadata = json.loads(raw)["metadata"]
    label = metadata.get("labels", {}).get("as")
    if label == UNREADABLE:
        raise ValueError("requests.cpu is not a quantity")
    if label == UNWANTED:
        return None
    return Item(Head(metadata["name"], metadata.get("namespace", "")).key, metadata["resourceVersion"])


def state_of(store: ApiStore) -> State:
    found: set[Item] = set()
    for body in store.bodies(PODS).values():
        try:
            item = reduce(body)
        except ValueError:
            continue
        if item is not None:
            found.add(item)
    return frozenset(found)


class RecordingSink:
    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.states: list[State] = []
        self.replaced = self.steps = 0
        self._lists = False

    @property
    def state(self) -> State:
        return frozenset(self.items.values())

    def key(self, item: Item) -> str:
        return item.key

    def put(self, item: Item) -> None:
        self.items[item.key] = item
        self._shown()

    def remove(self, key: str) -> None:
        self.items.pop(key, None)
        self._shown()

    def list_begun(self, keys: Set[str]) -> None:
        self._lists = True
        self.items = {key: item for key, item in self.items.items() if key in keys}

    def list_ended(self) -> None:
        self._lists = False
        self.replaced += 1
        self._shown()

    def _shown(self) -> None:
        if self._lists:
            self.steps += 1
        else:
            self.states.append(self.state)


def reflector_of(
    api: ClusterApi,
    sink: RecordingSink,
    *,
    path: str = PODS.collection(),
    reduced: Callable[[bytes], Item | None] = reduce,
    seed: int = 1,
    **more: Any,
) -> Reflector[Item]:
    rng = random.Random(seed)
    return Reflector(api, path=path, reduce=reduced, sink=sink, clock=LoopClock(), rng=rng, **more)
