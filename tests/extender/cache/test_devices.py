"""Devices in the cache: what nodes offer, what pods ask for, and what claims hold beside that."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cache import ClusterCache
from extender.cache.devices import CLAIMS_TO_COME
from scoring.ids import NodeName, PodUid, ResourceName
from scoring.model import Phase, Pod
from scoring.model.devices import IMPLICIT_PREFIX, Device, DeviceClaim, DeviceClass, DeviceSlice
from tests.builders import node, pod
from tests.fuzz.consistency import assert_consistent

POOL, OWN = ("x.io", "n1"), ResourceName(f"{IMPLICIT_PREFIX}gpu")
GPUS = tuple(Device(f"gpu-{i}", ('driver="x.io"', "x.io/gpu=true")) for i in range(4))
SLICE = DeviceSlice("s1", POOL, 1, 1, NodeName("n1"), (*GPUS, Device("nic", ('driver="x.io"',))))
ANY = DeviceClass("any", (ResourceName("x.io/any"),), ())
CLASS = DeviceClass("gpu", (OWN,), ("x.io/gpu=true",))
ASKS = DeviceClaim("default/c", (("gpu", 2),))
HELD = replace(ASKS, allocated=((POOL, "gpu-0"), (POOL, "gpu-1")))


def claiming(name: str = "p", *claims: str, gang: str | None = "g", **fields: object) -> Pod:
    made = pod(name, gang=gang, unmodelled=("resourceClaims",), **fields)  # type: ignore[arg-type]
    return replace(made, claims=claims or ("default/c",))


def cluster(*pods: Pod, claims: tuple[DeviceClaim, ...] = (), device_class: DeviceClass = CLASS) -> ClusterCache:
    cache = ClusterCache()
    cache.nodes.replace([node("n1"), node("n2")])
    cache.pods.replace(pods)  # Before their claims, as reflectors may
    cache.device_claims.replace(claims)
    cache.device_slices.replace([SLICE])
    cache.device_classes.replace([device_class])
    return cache


def free(cache: ClusterCache, resource: ResourceName = OWN) -> int:
    snapshot = cache.snapshot()
    if resource not in snapshot.table.axis:
        return 0
    at = snapshot.table.index[NodeName("n1")], snapshot.table.axis.index(resource)
    return int(snapshot.table.allocatable[at] - snapshot.used[at])


def test_offers_and_requests() -> None:
    """A node offers its devices, and a waiting member asks for its claim's; it is modelled then, and takes nothing."""
    cache = cluster(claiming(), claims=(ASKS,))
    assert free(cache) == 4
    [gang] = cache.snapshot().gangs.values()
    [member] = gang.members
    assert (member.requests.get(OWN), member.unmodelled, member.obstacle) == (2, (), "")
    assert cache.snapshot().table.uncounted == frozenset()


TAKEN = {  # case: (devices free of four, pods, claims)
    "a waiting pod that was allocated devices": (4, [claiming()], (HELD,)),
    "bound": (2, [claiming(node="n1")], (HELD,)),
    "bound, not allocated": (4, [claiming(node="n1")], (ASKS,)),
    "a plain pod, bound": (2, [claiming(gang=None, node="n1")], (HELD,)),
    "finished, not given back yet": (2, [claiming(node="n1", phase=Phase.SUCCEEDED)], (HELD,)),
    "of no pod": (2, [], (HELD,)),
    "shared by two pods": (2, [claiming("p", node="n1"), claiming("q", node="n1")], (HELD,)),
    "holds a GPU that its pod did not ask for by class": (
        3, [claiming(node="n1")], (replace(HELD, asks=(), allocated=((POOL, "gpu-3"), (POOL, "nic"))),)),
    "said to be for an extended resource, by a tenant": (
        2, [claiming("p", node="n1"), claiming("q", node="n1")], (replace(HELD, for_resource=True),)),
    "for an extended resource, which the pod asks for itself": (4, [], (replace(HELD, for_resource=True),)),
    "an unknown device": (4, [], (replace(HELD, allocated=((POOL, "gone"), (("y.io", "n1"), "gpu-0"))),)),
}  # fmt: skip


@pytest.mark.parametrize(("want", "pods", "claims"), TAKEN.values(), ids=TAKEN)
def test_what_is_taken(want: int, pods: list[Pod], claims: tuple[DeviceClaim, ...]) -> None:
    """Each allocated device is counted once: as its pod's, or as its claim's; and given back."""
    cache = cluster(*pods, claims=claims)
    assert free(cache) == want
    cache.pods.replace([])
    cache.device_claims.replace([])
    assert free(cache) == 4
    cache.pods.replace(pods)
    cache.device_claims.replace(claims)
    assert free(cache) == want


def test_a_claim_that_is_to_come() -> None:
    """A member whose claims do not exist yet is incomplete, with and without its status naming them."""
    cache = cluster(claiming("p", ""), claiming("q"))
    cache.snapshot()
    assert [cache.pod_by_name("default", one).obstacle for one in "pq"] == [CLAIMS_TO_COME] * 2  # type: ignore[union-attr]
    before = cache.version
    cache.pods.upsert(claiming("p", "default/d"))
    cache.device_claims.replace([ASKS, replace(ASKS, key="default/d")])
    assert cache.version > before
    assert [cache.pod_by_name("default", one).obstacle for one in "pq"] == ["", ""]  # type: ignore[union-attr]


NOT_COUNTED: dict[str, Callable[[ClusterCache], None]] = {
    "a selector of the claim's own": lambda cache: cache.device_claims.upsert(replace(ASKS, counted=False)),
    "two pods share the claim": lambda cache: cache.pods.upsert(claiming("q")),
    "a class of which a selector is not read": lambda cache: cache.device_classes.upsert(replace(CLASS, facts=None)),
    "another class has the devices, too": lambda cache: cache.device_classes.upsert(
        DeviceClass("any", (ResourceName("x.io/any"),), ())
    ),
    "no such class": lambda cache: cache.device_classes.delete("gpu"),
    "its devices are in the network": lambda cache: cache.device_slices.upsert(replace(SLICE, node=None)),
    "no devices": lambda cache: cache.device_slices.delete("s1"),
}


@pytest.mark.parametrize("change", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_what_cannot_be_counted(change: Callable[[ClusterCache], None]) -> None:
    """Then the pod keeps its unmodelled claim and is admitted by zone; and back, when it can be counted again."""
    cache = cluster(claiming(), claims=(ASKS,))
    counted = cache.snapshot()
    change(cache)
    assert cache.snapshot().version > counted.version
    assert cache.pod_by_name("default", "p").unmodelled == ("resourceClaims",)  # type: ignore[union-attr]
    cache.pods.delete("default/q")
    cache.device_claims.replace([ASKS])
    cache.device_slices.replace([SLICE])
    cache.device_classes.replace([CLASS])
    cache.snapshot()
    assert cache.pod_by_name("default", "p").unmodelled == ()  # type: ignore[union-attr]


def test_extended_resources() -> None:
    """A class's extendedResourceName is what its devices are counted as; a node's own allocatable stays as it is."""
    name = ResourceName("nvidia.com/gpu")
    cache = cluster(device_class=replace(CLASS, resources=(OWN, name)), claims=(ASKS,))
    cache.pods.upsert(claiming())
    assert (free(cache, name), free(cache)) == (4, 0)
    assert cache.pod_by_name("default", "p").requests.get(name) == 2  # type: ignore[union-attr]
    assert cache.snapshot().table.uncounted == {OWN}
    cache.nodes.upsert(node("n1", gpu=8))
    assert free(cache, name) == 8
    cache.device_slices.delete("s1")
    assert free(cache, name) == 8


def test_what_changes_nothing() -> None:
    """A slice written again with other attributes, or another claim's label, is no reason to plan."""
    cache = cluster(claiming(), claims=(ASKS,))
    before = cache.snapshot()
    *gpus, nic = SLICE.devices
    hotter = [replace(one, facts=(*one.facts, "x.io/celsius=60")) for one in gpus]
    cache.device_slices.upsert(replace(SLICE, devices=(*hotter, nic)))
    cache.device_claims.upsert(ASKS)
    cache.device_classes.upsert(CLASS)
    cache.device_claims.upsert(replace(ASKS, key="other/x"))
    assert cache.snapshot() is before


def test_nodes_come_and_go() -> None:
    """Slices may come before their node and stay behind it."""
    cache = cluster()
    cache.nodes.delete("n1")
    assert OWN not in cache.snapshot().table.axis
    cache.nodes.upsert(node("n1"))
    assert free(cache) == 4


WRITTEN = {  # sink → records, of which those of one key replace each other
    "device_classes": (CLASS, replace(CLASS, facts=None), ANY, replace(ANY, resources=(*ANY.resources, OWN))),
    "device_slices": (
        SLICE, replace(SLICE, generation=2, devices=GPUS[:1]), replace(SLICE, name="s2", generation=2, slices=2),
    ),
    "device_claims": (ASKS, HELD, replace(HELD, key="default/d"), replace(HELD, key="default/d", for_resource=True)),
    "pods": (
        claiming(), claiming(node="n1"), replace(claiming(), uid=PodUid("again")),
        claiming(node="n1", phase=Phase.FAILED), claiming("q", "default/c", "default/d"), claiming("r", "", gang=None),
        claiming("r", "default/d", gang=None, node="n2"),
    ),
    "nodes": (node("n1"), node("n1", gpu=1), node("n2")),
}  # fmt: skip
EVENTS = [(sink, one) for sink, records in WRITTEN.items() for one in records]


HAPPENS = st.tuples(st.sampled_from(EVENTS), st.sampled_from(["put", "put", "gone"]), st.booleans())


@given(st.lists(HAPPENS, max_size=25))
def test_order_is_irrelevant(events: list[tuple[tuple[str, object], str, bool]]) -> None:
    """After whatever came in whatever order, all is counted as by a cache that reads the same objects at once."""
    cache = ClusterCache()
    left: dict[tuple[str, str], object] = {}
    for (name, record), what, looked in events:
        sink = getattr(cache, name)
        key = sink.key(record)
        if what == "put":
            sink.upsert(record)
            left[name, key] = record
        else:
            sink.delete(key)
            left.pop((name, key), None)
        if looked:
            cache.snapshot()
    fresh = ClusterCache()
    for (name, _), record in left.items():
        getattr(fresh, name).upsert(record)
    kept, made = cache.snapshot(), fresh.snapshot()
    assert_consistent(cache)
    assert (kept.table.uncounted, kept.table.axis) == (made.table.uncounted, made.table.axis)
    assert (kept.table.nodes, kept.used.tolist()) == (made.table.nodes, made.used.tolist())
    assert {one.key: one for one in cache.all_pods()} == {one.key: one for one in fresh.all_pods()}
