"""Count devices (Dynamic Resource Allocation) so that they are room like any other resource.

Rules: a DeviceClass's devices are one resource, under the class's `extendedResourceName` or else its implicit name.
Only devices of a complete pool that belong to one node are counted. A class is *uncounted* where a number would be
wrong: a selector that is not read here, devices that are no single node's or that claims share, none at all. It is a
*ceiling* where a number is only an upper bound: its devices belong to another class too, or share counters.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from scoring.ids import NodeName, ResourceName
from scoring.model.devices import DeviceClass, DeviceSlice

_TERM = re.compile(
    r"device\.(?:driver|attributes\[(?:\"(?P<a>[^\"\\]+)\"|'(?P<b>[^'\\]+)')\]\.(?P<name>\w+))"
    r"(?:\s*==\s*(?:\"(?P<c>[^\"\\]*)\"|'(?P<d>[^'\\]*)'|(?P<bare>-?\d{1,18}|true|false)))?"
)
EXPRESSION_CHARS = 10 * 1024  # As the API server limits it


def facts_of(expression: str) -> tuple[str, ...] | None:
    r"""The facts that a CEL selector asks for; `None`: it is more than equalities joined by &&.

    >>> facts_of('device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"')
    ('driver="gpu.example.com"', 'gpu.example.com/type="gpu"')
    >>> facts_of('device.attributes["x.io"].whole'), facts_of('device.capacity["x.io"].memory.isGreaterThan(q)')
    (('x.io/whole=true',), None)
    """
    if len(expression) > EXPRESSION_CHARS:
        return None
    found = []
    for part in expression.split("&&"):
        term = _TERM.fullmatch(part.strip())
        if term is None:
            return None
        name = term["name"]
        text = term["c"] if term["c"] is not None else term["d"]
        if name is None and text is None:  # a driver is a text
            return None
        key = f"{term['a'] or term['b']}/{name}" if name is not None else "driver"
        found.append(f'{key}="{text}"' if text is not None else f"{key}={term['bare'] or 'true'}")
    return tuple(found)


def resource_names(classes: Iterable[DeviceClass]) -> dict[str, ResourceName]:
    """Class → the resource that its devices are counted as.

    Two classes with one `extendedResourceName` are counted by their own names: kube-scheduler takes the newest for it.

    >>> a, b = (DeviceClass(n, (ResourceName(f"implicit/{n}"), ResourceName("x.io/gpu"))) for n in ("a", "b"))
    >>> resource_names([a]), resource_names([a, b])
    ({'a': 'x.io/gpu'}, {'a': 'implicit/a', 'b': 'implicit/b'})
    """
    classes = list(classes)
    named = Counter(one.resources[-1] for one in classes)
    return {one.name: one.resources[-1 if named[one.resources[-1]] == 1 else 0] for one in classes}


class Matcher:
    """As which resources a device counts. Remembers answers, at most one for each set of wanted facts it met."""

    def __init__(self, wanted: Mapping[ResourceName, tuple[str, ...]]) -> None:
        self._wanted = {name: frozenset(facts) for name, facts in wanted.items()}  # resource → facts of its class
        self._facts = frozenset(fact for facts in wanted.values() for fact in facts)
        self._known: dict[frozenset[str], tuple[ResourceName, ...]] = {}

    def names(self, facts: tuple[str, ...]) -> tuple[ResourceName, ...]:
        """The resources all of whose facts are among `facts`."""
        met = self._facts.intersection(facts)
        known = self._known.get(met)
        if known is None:
            known = self._known[met] = tuple([name for name, asked in self._wanted.items() if asked <= met])
        return known


@dataclass(frozen=True, slots=True)
class PoolCount:
    """The devices of one pool."""

    offers: Mapping[NodeName, Mapping[ResourceName, int]] = field(default_factory=dict)
    devices: Mapping[str, tuple[NodeName, tuple[ResourceName, ...]]] = field(default_factory=dict)
    """Device → its node, and as what it is counted there."""
    uncounted: frozenset[ResourceName] = frozenset()
    ceilings: frozenset[ResourceName] = frozenset()


def count_pool(slices: Collection[DeviceSlice], matcher: Matcher) -> PoolCount:
    """Count a pool's devices. Cost: O(their attributes).

    Only the newest generation counts, and only if all its slices are there, as kube-scheduler allocates.
    """
    newest = max((one.generation for one in slices), default=0)
    current = [one for one in slices if one.generation == newest]
    if len(current) < max((one.slices for one in current), default=1):
        return PoolCount()
    offers: dict[NodeName, Counter[ResourceName]] = {}
    devices: dict[str, tuple[NodeName, tuple[ResourceName, ...]]] = {}
    uncounted: set[ResourceName] = set()
    ceilings: set[ResourceName] = set()
    for part in current:
        for device in part.devices:
            names = matcher.names(device.facts)
            if part.node is None or device.shareable:
                uncounted.update(names)
                continue
            if len(names) > 1 or device.partial:
                ceilings.update(names)
            devices[device.name] = part.node, names
            if names and not device.tainted:
                offered = offers.setdefault(part.node, Counter())
                for name in names:
                    offered[name] += 1
    return PoolCount(offers, devices, frozenset(uncounted), frozenset(ceilings))
