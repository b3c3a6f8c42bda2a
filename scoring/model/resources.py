"""Amounts of resources: exact integers, as kube-scheduler counts them.

Rule (k8s.io/apimachinery resource.Quantity): CPU counts in millicores, all else in whole units, and a fraction of the
unit is rounded **up**, for requests and for allocatable alike.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

import msgspec

from scoring import ResourceName

CPU = ResourceName("cpu")
MEMORY = ResourceName("memory")
PODS = ResourceName("pods")

_SUFFIX = {unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)}
_SUFFIX |= {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(?P<suffix>n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)|[eE](?P<exponent>[+-]?\d{1,3}))?"
)
LARGEST = 2**62 - 1  # Amounts are kept in the range of int64, with room to add two; more is not a machine that exists
QUANTITY_CHARS = 64  # Longest text that is read as a quantity; the API server writes less than half of it
NAME_CHARS = 317  # Longest name of a resource: a domain of 253 characters and a name of 63 (qualified names)
MOST_RESOURCES = 64  # Most resources of which a tenant's object may ask for any; nodes with a dozen are rare
_SHOWN_CHARS = 40


def parse_quantity(text: str, *, millis: bool = False) -> int:
    """Read a Kubernetes quantity as whole units, or as thousandths with `millis`; fractions round up.

    More than ±`LARGEST` counts as that much, as in the API server. Raises ValueError when `text` is not a quantity; one
    that is longer than any is not looked at, nor remembered (docs/safety.md S21).
    """
    if len(text) > QUANTITY_CHARS:
        raise ValueError(f"{text[:_SHOWN_CHARS]!r}… is not a quantity such as 500m, 2 or 4Gi: too long")
    return _parsed(text, millis)


@lru_cache(maxsize=8192)
def _parsed(text: str, millis: bool) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 4Gi")
    value, exponent = Decimal(match["number"]), match["exponent"]
    value = value.scaleb(int(exponent)) if exponent is not None else value * _SUFFIX[match["suffix"] or ""]
    value = max(min(value * 1000 if millis else value, Decimal(LARGEST)), -Decimal(LARGEST))
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amount(name: str, quantity: str | int | float) -> int:
    """Read the quantity of resource `name` in its own unit: millicores for cpu, whole units for all others."""
    return parse_quantity(str(quantity), millis=name == CPU)


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: named by its vendor's domain (core/v1/helper, IsExtendedResourceName).

    >>> [is_extended(name) for name in ("nvidia.com/gpu", "cpu", "hugepages-2Mi", "example.kubernetes.io/x")]
    [True, False, False, False]
    """
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


class Resources(msgspec.Struct, frozen=True, weakref=True):
    """Amounts by resource name, sorted by name, without zeros: equal amounts are equal and hash alike."""

    items: tuple[tuple[ResourceName, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[ResourceName, int] | Iterable[tuple[ResourceName, int]]) -> "Resources":
        """Build from amounts; later entries of the same name win."""
        return cls(tuple(sorted((n, a) for n, a in dict(amounts).items() if a)))

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float]) -> "Resources":
        """Build from Kubernetes quantities; ValueError names the resource."""
        amounts: dict[ResourceName, int] = {}
        for name, quantity in quantities.items():
            if len(name) > NAME_CHARS:
                raise ValueError(f"{name[:_SHOWN_CHARS]}… is not the name of a resource: too long")
            try:
                amounts[ResourceName(name)] = amount(name, quantity)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return cls.of(amounts)

    def get(self, name: ResourceName) -> int:
        """Amount of `name`, 0 when it is not there."""
        return next((a for n, a in self.items if n == name), 0)

    def __iter__(self) -> Iterator[tuple[ResourceName, int]]:
        return iter(self.items)

    def __add__(self, other: "Resources") -> "Resources":
        total = dict(self.items)
        for name, more in other.items:
            total[name] = total.get(name, 0) + more
        return Resources.of(total)


NO_RESOURCES = Resources()
