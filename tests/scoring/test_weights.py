"""The KOD2 weight: exact, in both readings, in the operator's hand where that is allowed (PAPERS K1)."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import Namespace, ResourceName
from scoring.model import Gang, Role
from scoring.policy import Policy, QueuePolicy, Reading, WeightForm, gang_options
from scoring.snapshot import NodeTable
from scoring.weights import Load, Scale, Weight, exact_key, totals_of, weight_of
from tests.builders import bound, gang, node, pod

GPU = ResourceName("nvidia.com/gpu")
TABLE = NodeTable.of([node(f"n{i}", cpu="10", memory="100", gpu=1) for i in range(10)])
"""100 CPUs, 1,000 bytes, 10 GPUs."""
PER_WORKER = QueuePolicy()
WHOLE_JOB = QueuePolicy(reading=Reading.WHOLE_JOB)


def tfjob(workers: int, *, ps: int = 1, least: int | None = None, cpu: str = "2", memory: str = "10") -> Gang:
    """A job of ps (1 CPU each) and equal workers."""
    members = [pod(f"ps{i}", role=Role.PS, index=i, cpu="1") for i in range(ps)]
    members += [pod(f"w{i}", role=Role.WORKER, index=i, cpu=cpu, memory=memory) for i in range(workers)]
    return gang("job", members=members, min_member=least)


CASES: dict[str, tuple[Fraction | None, Gang, QueuePolicy]] = {
    # case: (ω′, job, reading)
    "two workers of 2/100 CPU and 10/1000 memory": (Fraction(2) / Fraction(3, 100), tfjob(2), PER_WORKER),
    "workers beyond the minimum do not count": (Fraction(2) / Fraction(3, 100), tfjob(5, least=3), PER_WORKER),
    "the whole job, its ps included": (Fraction(2) / (Fraction(5, 100) + Fraction(20, 1000)), tfjob(2), WHOLE_JOB),
    "of the whole job only the minimum": (
        Fraction(2) / (Fraction(5, 100) + Fraction(20, 1000)),
        tfjob(5, least=3),
        WHOLE_JOB,
    ),
    "unknown roles are workers": (Fraction(3) / Fraction(1, 100), gang("g", 3), PER_WORKER),
    "nothing but a ps": (Fraction(1) / Fraction(1, 100), tfjob(0, ps=1), PER_WORKER),
    "unlike workers: their mean": (
        Fraction(2) / Fraction(3, 100),
        gang("g", members=[pod("a", cpu="2"), pod("b", cpu="4")]),
        PER_WORKER,
    ),
    "no request at all": (None, gang("g", 2, cpu="0"), PER_WORKER),
    "GPUs are left out": (Fraction(2) / Fraction(1, 100), gang("g", 2, gpu=1), PER_WORKER),
    "GPUs by option": (
        Fraction(2) / (Fraction(1, 100) + Fraction(1, 10)),
        gang("g", 2, gpu=1),
        QueuePolicy(extended=(GPU,)),
    ),
}


@pytest.mark.parametrize(("want", "job", "policy"), CASES.values(), ids=CASES)
def test_weight(want: Fraction | None, job: Gang, policy: QueuePolicy) -> None:
    """ω′ = w_min / (cpu + mem), as shares of the cluster."""
    assert want == weight_of(job, totals_of(TABLE, policy), policy).prime


def test_asking_for_what_no_node_has_is_lightest() -> None:
    """A cluster without nodes, or without the resource: 0, whatever is asked for."""
    empty = totals_of(NodeTable.of([]), PER_WORKER)
    assert weight_of(gang("g", 2), empty, PER_WORKER).prime == 0
    no_gpu = QueuePolicy(extended=(ResourceName("example.com/fpga"),))
    wish = gang("g", members=[pod("p", gpu=1)])
    assert weight_of(wish, totals_of(TABLE, no_gpu), no_gpu).prime == Fraction(100)


def test_a_running_gang_weighs_what_it_weighed() -> None:
    """Once on nodes, with a worker that ended and one that is replaced, the weight is the same."""
    waits = tfjob(4)
    ps, *workers = waits.members
    runs = replace(waits, members=(bound(ps, "n0"), *(bound(one, "n1") for one in workers)))
    totals = totals_of(TABLE, PER_WORKER)
    assert weight_of(waits, totals, PER_WORKER) == weight_of(runs, totals, PER_WORKER)


AMOUNT = st.integers(1, 10**15)


@given(st.integers(1, 500), AMOUNT, AMOUNT, st.integers(1, 7))
def test_equal_jobs_tie_exactly(workers: int, cpu: int, memory: int, factor: int) -> None:
    """Workers that ask for the same tie, and so do jobs whose requests and workers grow by one factor."""
    totals = ((ResourceName("cpu"), 10**17 + 3), (ResourceName("memory"), 10**16 + 7))

    def one(count: int, times: int) -> Weight:
        share = Fraction(cpu * times, totals[0][1]) + Fraction(memory * times, totals[1][1])
        return Weight(Fraction(count) / share)

    assert one(workers, 1).key(WeightForm.EXACT) == one(workers * factor, factor).key(WeightForm.EXACT)


@given(st.fractions(min_value=0, max_value=10**9), st.fractions(min_value=0, max_value=10**9))
def test_keys_order_as_fractions(one: Fraction, other: Fraction) -> None:
    """The float in front of the key never contradicts the fraction behind it, however close two weights are."""
    for left, right in ((one, other), (one, one + Fraction(1, 10**30))):
        keys = Weight(left).key(WeightForm.EXACT), Weight(right).key(WeightForm.EXACT)
        assert (keys[0] < keys[1]) == (left > right)
        assert (keys[0] == keys[1]) == (left == right)
        assert Weight(None).key(WeightForm.EXACT) < keys[0]


LOADS = st.builds(
    Load, st.integers(1, 500), st.tuples(*[st.sampled_from([0, 1, 7, 10**9, 10**15 + 1])] * 3), st.integers(1, 9)
)


@given(st.lists(LOADS, min_size=2, max_size=6), st.tuples(*[st.sampled_from([0, 3, 10**12, 10**17 + 3])] * 3))
def test_loads_are_ordered_as_their_weights(loads: list[Load], sizes: tuple[int, ...]) -> None:
    """Without a fraction being reduced: the same order, the same ties, the same float, in any cluster."""
    totals = tuple((ResourceName(name), size) for name, size in zip(("cpu", "memory", "gpu"), sizes, strict=True))
    scale = Scale.of(totals)
    for form in WeightForm:
        for one in loads:
            mine = scale.key(one, form), one.weight(totals).key(form)
            assert mine[0][0] == mine[1][0]
            assert mine[0] == exact_key(one.weight(totals), form)
            for other in loads:
                its = scale.key(other, form), other.weight(totals).key(form)
                assert (mine[0] < its[0]) == (mine[1] < its[1])
                assert (mine[0] == its[0]) == (mine[1] == its[1])


def test_the_published_weight_saturates() -> None:
    """Compared as published, ω of 40 and of 4,000 tie; ω′ does not."""
    heavy, light = Weight(Fraction(4000)), Weight(Fraction(40))
    assert heavy.omega == light.omega == 1.0
    assert heavy.key(WeightForm.LITERAL) == light.key(WeightForm.LITERAL)
    assert heavy.key(WeightForm.EXACT) < light.key(WeightForm.EXACT)


TRUSTED = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("ops")})))
ANYBODY = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("*")})))
GIVEN: dict[str, tuple[Fraction | None, str, Policy, str, str]] = {
    # case: (ω′, beginning of the problem, policy, namespace, annotation)
    "allowed": (Fraction(5, 2), "", TRUSTED, "ops", "2.5"),
    "a fraction": (Fraction(1, 3), "", TRUSTED, "ops", " 1/3 "),
    "allowed to all": (Fraction(0), "", ANYBODY, "team", "0"),
    "not allowed": (None, "netgang.io/weight: namespace team may not set weights", TRUSTED, "team", "9"),
    "allowed to nobody": (None, "netgang.io/weight: namespace ops may not set weights", Policy(), "ops", "9"),
    "no number": (None, "netgang.io/weight: 'heavy' is not a number", TRUSTED, "ops", "heavy"),
    "negative": (None, "netgang.io/weight: '-1' is not a number", TRUSTED, "ops", "-1"),
    "infinite": (None, "netgang.io/weight: 'inf' is not a number", TRUSTED, "ops", "inf"),
    "by zero": (None, "netgang.io/weight: '1/0' is not a number", TRUSTED, "ops", "1/0"),
}


@pytest.mark.parametrize(("want", "problem", "policy", "namespace", "text"), GIVEN.values(), ids=GIVEN)
def test_given_weight(want: Fraction | None, problem: str, policy: Policy, namespace: str, text: str) -> None:
    """The annotation counts where the operator allows it; elsewhere it is a problem that people are told."""
    options = gang_options({"weight": text}, policy, namespace=namespace)
    assert want == options.weight
    assert len(options.problems) == bool(problem)
    assert all(said.startswith(problem) for said in options.problems)
