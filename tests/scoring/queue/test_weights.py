"""The KOD2 weight: exact, in the operator's hand where that is allowed (PAPERS K1)."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import Namespace, ResourceName
from scoring.model import Gang, Role
from scoring.model.pod import Resources
from scoring.model.policy import Policy, QueuePolicy, gang_options
from scoring.model.snapshot import NodeTable
from scoring.queue.weights import Scale, Weight
from tests.builders import bound, gang, node, pod

CLUSTER = Scale.from_table(NodeTable.from_nodes([node(f"n{i}", cpu="10", memory="100", gpu=1) for i in range(10)]))
"""100 CPUs, 1,000 bytes, 10 GPUs."""
FPGA = ResourceName("example.com/fpga")
Amounts = dict[ResourceName, int]


def tfjob(workers: int, *, ps: int = 1, least: int | None = None) -> Gang:
    members = [pod(f"ps{i}", role=Role.PS, index=i, cpu="1") for i in range(ps)]
    members += [pod(f"w{i}", role=Role.WORKER, index=i, cpu="2", memory="10") for i in range(workers)]
    return gang("job", members=members, min_member=least)


def asking(size: int, amounts: Amounts, *, name: str = "g") -> Gang:
    requests, usual = Resources.from_amounts(amounts), [pod(f"{name}-{i}", gang=name, index=i) for i in range(size)]
    return gang(name, members=[replace(p, member_class=replace(p.member_class, requests=requests)) for p in usual])


CASES: dict[str, tuple[Fraction, Gang]] = {  # case: (ω′, job)
    "two workers of 2/100 CPU and 10/1000 memory": (Fraction(2) / Fraction(3, 100), tfjob(2)),
    "workers beyond the minimum do not count": (Fraction(2) / Fraction(3, 100), tfjob(5, least=3)),
    "neither a ps nor a chief is a worker": (
        Fraction(2) / Fraction(3, 100),
        gang("g", members=[*tfjob(2).members, pod("c", role=Role.CHIEF)], min_member=4),
    ),
    "unknown roles are workers": (Fraction(3) / Fraction(1, 100), gang("g", 3)),
    "nothing but a ps": (Fraction(1) / Fraction(1, 100), tfjob(0, ps=1)),
    "unlike workers: their mean": (
        Fraction(2) / Fraction(3, 100),
        gang("g", members=[pod("a", cpu="2"), pod("b", cpu="4")]),
    ),
    "no request at all": (Fraction(0), gang("g", 2, cpu="0")),
    "GPUs count": (Fraction(2) / (Fraction(1, 100) + Fraction(1, 10)), gang("g", 2, gpu=1)),
    "GPUs alone": (Fraction(2) / Fraction(1, 10), gang("g", 2, cpu="0", gpu=1)),
    "a pod larger than any node": (Fraction(0), gang("g", 1, cpu="11")),
    "more GPUs than any node has": (Fraction(0), gang("g", 1, gpu=2)),
    "a minimum larger than the cluster": (Fraction(0), gang("g", 11, cpu="10")),
    "a resource that no node has": (Fraction(0), asking(1, {FPGA: 1})),
}


@pytest.mark.parametrize(("want", "job"), CASES.values(), ids=CASES)
def test_weight(want: Fraction, job: Gang) -> None:
    """ω′ = w_min / (cpu + mem + GPUs), as shares of the cluster."""
    assert want == CLUSTER.weight(job).prime


def test_a_cluster_without_nodes() -> None:
    assert Scale.from_table(NodeTable.from_nodes([])).weight(gang("g", 2, gpu=1)).prime == 0


def test_a_running_gang_weighs_what_it_weighed() -> None:
    waits = tfjob(4)
    ps, *workers = waits.members
    runs = replace(waits, members=(bound(ps, "n0"), *(bound(one, "n1") for one in workers)))
    assert CLUSTER.weight(waits) == CLUSTER.weight(runs)


AMOUNT = st.integers(1, 10**12)
NAMES = tuple(ResourceName(name) for name in ("cpu", "memory", "nvidia.com/gpu", "example.com/fpga"))


@given(st.integers(1, 50), AMOUNT, AMOUNT, st.integers(1, 7))
def test_equal_jobs_tie_exactly(workers: int, cpu: int, memory: int, factor: int) -> None:
    """Workers that ask for the same tie, and so do jobs whose requests and workers grow by one factor."""
    scale = Scale({NAMES[0]: (10**17 + 3, 10**17), NAMES[1]: (10**16 + 7, 10**16)})
    one, other = (scale.weight(asking(workers * by, {NAMES[0]: cpu * by, NAMES[1]: memory * by})) for by in (1, factor))
    assert one.key == other.key


@given(st.fractions(min_value=0, max_value=10**9), st.fractions(min_value=0, max_value=10**9))
def test_keys_order_as_fractions(one: Fraction, other: Fraction) -> None:
    """The float in front of the key never contradicts the fraction behind it, however close two weights are."""
    for left, right in ((one, other), (one, one + Fraction(1, 10**30))):
        keys = [Weight(*one.as_integer_ratio()).key for one in (left, right)]
        assert (keys[0] < keys[1]) == (left > right)
        assert (keys[0] == keys[1]) == (left == right)


REQUESTS = st.fixed_dictionaries({name: st.sampled_from([0, 1, 5, 10, 20]) for name in NAMES})
"""Against nodes of 10 of each but the FPGA, which none has: what no node could hold is among it."""
TEN = Resources.from_amounts(dict.fromkeys(NAMES[:3], 10))
FOUR = Scale.from_table(NodeTable.from_nodes([replace(node(f"n{i}"), allocatable=TEN) for i in range(4)]))


def could_start(size: int, amounts: Amounts) -> bool:
    return all(amounts[name] <= 10 and size * amounts[name] <= 40 for name in NAMES[:3]) and not amounts[FPGA]


@given(st.integers(1, 9), REQUESTS)
def test_a_weight_is_finite_and_least_for_what_asks_nothing_or_cannot_start(size: int, amounts: Amounts) -> None:
    """No gang leads permanently: without requests, or too large for the cluster, it weighs 0, the least."""
    weight = FOUR.weight(asking(size, amounts))
    assert 0.0 <= weight.omega_prime < math.inf
    assert 0.5 <= weight.omega <= 1.0
    if not any(amounts.values()) or not could_start(size, amounts):
        assert weight.prime == 0
        least = FOUR.weight(asking(1, {NAMES[0]: 10, NAMES[1]: 10, NAMES[2]: 10}))
        assert least.key < weight.key


@given(st.integers(1, 4), REQUESTS, st.sampled_from(NAMES))
def test_asking_for_more_never_makes_a_gang_heavier(size: int, amounts: Amounts, more: ResourceName) -> None:
    """Monotone: one unit more of any resource, known or unknown, raises no gang that asks for something."""
    before = FOUR.weight(asking(size, amounts)).prime
    after = FOUR.weight(asking(size, amounts | {more: amounts[more] + 1})).prime
    assert after <= before or before == 0 == sum(amounts[name] for name in NAMES)


@given(st.integers(1, 3), REQUESTS)
def test_more_workers_never_make_a_gang_lighter(size: int, amounts: Amounts) -> None:
    if could_start(size + 1, amounts):
        few, many = (FOUR.weight(asking(n, amounts)).prime for n in (size, size + 1))
        assert few <= many


@given(st.integers(1, 4), REQUESTS, st.tuples(*[st.integers(1, 2**30)] * 4))
def test_units_do_not_matter(size: int, amounts: Amounts, factors: tuple[int, ...]) -> None:
    by = dict(zip(NAMES, factors, strict=True))
    other = Scale({name: (total * by[name], most * by[name]) for name, (total, most) in FOUR.sizes.items()})
    scaled = asking(size, {name: amount * by[name] for name, amount in amounts.items()})
    assert FOUR.weight(asking(size, amounts)) == other.weight(scaled)


TRUSTED = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("ops")})))
ANYBODY = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("*")})))
GIVEN: dict[str, tuple[Fraction | None, str, Policy, str, str]] = {
    # case: (ω′, beginning of the problem, policy, namespace, annotation)
    "a fraction": (Fraction(1, 3), "", TRUSTED, "ops", " 1/3 "),
    "allowed to all": (Fraction(0), "", ANYBODY, "team", "0"),
    "allowed to nobody": (None, "netgang.io/weight: namespace ops may not set weights", Policy(), "ops", "9"),
    "no number": (None, "netgang.io/weight: 'heavy' is not a number", TRUSTED, "ops", "heavy"),
    "by zero": (None, "netgang.io/weight: '1/0' is not a number", TRUSTED, "ops", "1/0"),
    "negative": (None, "netgang.io/weight: '-1' is not a number", TRUSTED, "ops", "-1"),
    "without end": (None, "netgang.io/weight: '1e999999999' is not a number", TRUSTED, "ops", "1e999999999"),
}


@pytest.mark.parametrize(("want", "problem", "policy", "namespace", "text"), GIVEN.values(), ids=GIVEN)
def test_given_weight(want: Fraction | None, problem: str, policy: Policy, namespace: str, text: str) -> None:
    options = gang_options({"weight": text}, policy, namespace=namespace)
    assert want == options.weight
    assert len(options.problems) == bool(problem)
    assert all(said.startswith(problem) for said in options.problems)
