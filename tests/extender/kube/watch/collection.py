"""A sink and a reduction for reflector tests: they remember every state that readers could have seen."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from extender.kube.calls import PODS, Resource
from extender.kube.watch.heads import object_key
from simulator.apiserver.store import ApiStore

UNREADABLE, UNWANTED = "unreadable", "unwanted"
"""Label `as` of pods that the reduction cannot read, or does not want"""


@dataclass(frozen=True, slots=True)
class Item:
    """What is kept of an object."""

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
    return Item(object_key(metadata.get("namespace", ""), metadata["name"]), metadata["resourceVersion"])


def state_of(store: ApiStore, resource: Resource = PODS) -> State:
    """What a sink should hold now."""
    found: set[Item] = set()
    for body in store.bodies(resource).values():
        try:
            item = reduce(body)
        except ValueError:
            continue
        if item is not None:
            found.add(item)
    return frozenset(found)


class RecordingSink:
    """Keeps items by key, and every state it was in."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.states: list[State] = []
        self.replaced = 0

    @property
    def state(self) -> State:
        """What it holds now."""
        return frozenset(self.items.values())

    def replace(self, items: Sequence[Item]) -> None:
        """Hold exactly these."""
        self.items = {item.key: item for item in items}
        self.replaced += 1
        self.states.append(self.state)

    def upsert(self, item: Item) -> None:
        """Hold this one in place of the one with its key."""
        self.items[item.key] = item
        self.states.append(self.state)

    def key(self, item: Item) -> str:
        """Its key."""
        return item.key

    def delete(self, key: str) -> None:
        """Forget this one."""
        self.items.pop(key, None)
        self.states.append(self.state)
