"""Counting devices by class: which are counted, which only bound from above, which not at all."""

from collections.abc import Set as AbstractSet
from dataclasses import replace

import pytest

from scoring.feasibility.devices import Matcher, PoolCount, count_pool, facts_of
from scoring.ids import NodeName, ResourceName
from scoring.model.devices import Device, DeviceSlice

N1, GPU, ANY = NodeName("n1"), ResourceName("x.io/gpu"), ResourceName("x.io/any")
WANTED = {GPU: ('driver="x.io"', 'x.io/type="gpu"')}
ONE = Device("gpu-0", ('driver="x.io"', 'x.io/type="gpu"', 'x.io/uuid="1"'))
OTHER = Device("nic-0", ('driver="x.io"', 'x.io/type="nic"'))
SLICE = DeviceSlice("s", ("x.io", "n1"), 1, 1, N1, (ONE, replace(ONE, name="gpu-1"), OTHER))

EXPRESSIONS = {  # case: (facts, expression)
    "driver": (('driver="x.io"',), "device.driver == 'x.io'"),
    "number": (("x.io/n=-4", 'driver="x"'), 'device.attributes["x.io"].n == -4&&device.driver=="x"'),
    "bool": (("x.io/a=true", "x.io/b=false"), "device.attributes['x.io'].a && device.attributes['x.io'].b == false"),
    "an and inside a text": (None, 'device.driver == "a && b"'),
    "or": (None, 'device.driver == "a" || device.driver == "b"'),
    "not equal": (None, 'device.driver != "a"'),
    "a driver alone": (None, "device.driver"),
    "a version": (None, 'device.attributes["x.io"].v.isGreaterThan(semver("1.0.0"))'),
    "too long": (None, " && ".join(['device.driver == "a"'] * 1000)),
}


@pytest.mark.parametrize(("want", "expression"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_selectors(want: tuple[str, ...] | None, expression: str) -> None:
    """Equalities joined by && are read, everything else is not guessed."""
    assert want == facts_of(expression)


POOLS = {  # case: (GPUs counted on n1, slices)
    "two of three devices are GPUs": (2, [SLICE]),
    "no slice": (0, []),
    "a slice of the pool is missing": (0, [replace(SLICE, slices=2)]),
    "both are there": (4, [replace(SLICE, slices=2), replace(SLICE, name="t", slices=2)]),
    "an old generation": (2, [SLICE, replace(SLICE, name="old", generation=0, slices=3)]),
    "one is tainted": (1, [replace(SLICE, devices=(ONE, replace(ONE, name="gpu-1", tainted=True)))]),
    "of no single node": (0, [replace(SLICE, node=None)]),
}


@pytest.mark.parametrize(("want", "slices"), POOLS.values(), ids=POOLS)
def test_pools(want: int, slices: list[DeviceSlice]) -> None:
    """What kube-scheduler would allocate from is counted: the newest generation, complete, at one node."""
    assert want == count_pool(slices, Matcher(WANTED)).offers.get(N1, {}).get(GPU, 0)


UNCLEAR = {  # case: (uncounted, ceilings, wanted, slices)
    "plain": (set(), set(), WANTED, [SLICE]),
    "of no single node": ({GPU}, set(), WANTED, [replace(SLICE, node=None)]),
    "shared by claims": ({GPU}, set(), WANTED, [replace(SLICE, devices=(replace(ONE, shareable=True),))]),
    "partitions of one device": (set(), {GPU}, WANTED, [replace(SLICE, devices=(replace(ONE, partial=True),))]),
    "of two classes": (set(), {GPU, ANY}, WANTED | {ANY: ()}, [SLICE]),
}


@pytest.mark.parametrize(("uncounted", "ceilings", "wanted", "slices"), UNCLEAR.values(), ids=UNCLEAR)
def test_what_cannot_be_counted(
    uncounted: AbstractSet[ResourceName],
    ceilings: AbstractSet[ResourceName],
    wanted: dict[ResourceName, tuple[str, ...]],
    slices: list[DeviceSlice],
) -> None:
    """A number that would be wrong, or only an upper bound, is named."""
    found = count_pool(slices, Matcher(wanted))
    assert (uncounted, ceilings) == (found.uncounted, found.ceilings)


def test_devices_by_name() -> None:
    """An allocation names a device: where it is, and as what it counts."""
    devices = {"gpu-0": (N1, (GPU,)), "gpu-1": (N1, (GPU,)), "nic-0": (N1, ())}
    assert count_pool([SLICE], Matcher(WANTED)).devices == devices
    assert count_pool([], Matcher(WANTED)) == PoolCount()
