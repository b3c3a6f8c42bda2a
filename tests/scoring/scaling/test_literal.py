"""Algorithms 2 and 3 as published: their weaknesses are theirs (PAPERS K4, K5)."""

from dataclasses import replace

import pytest

from scoring.model import Gang, Role
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.scaling import literal
from scoring.scaling.options import Options
from scoring.scaling.shrink.scale_in import scale_in
from tests.builders import bound, node, pod, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers

NEW = waiting("new", 2, weight=9, created_s=5.0)


def cluster(*gangs: Gang, cpu: dict[str, str]) -> Snapshot:
    """Nodes with so many CPUs, all in one zone."""
    return snapshot([node(name, cpu=amount) for name, amount in cpu.items()], [*gangs, NEW])


def test_one_node_must_hold_the_whole_minimum() -> None:
    """One worker on each of two nodes could go and the gang would fit over both: the published test says no."""
    job = workers("l", ["n1", "n2"], ps="n3")
    found = literal.scale_in(
        cluster(job, cpu={"n1": "1", "n2": "1", "n3": "1"}), [elastic(job, least=0)], NEW.key, TRUSTING, decrement=None
    )
    assert not found.possible
    assert len(found.plan) == 2, "what did not help stays in the plan"


@pytest.mark.parametrize(
    ("places", "cpu", "as_published"),
    [(["n2"] * 3, {"n1": "4", "n2": "3"}, True), (["n2", "n2", "n3"], {"n1": "4", "n2": "2", "n3": "1"}, False)],
    ids=["one node is enough", "over two nodes"],
)
def test_the_example_of_the_page(places: list[str], cpu: dict[str, str], as_published: bool) -> None:
    """docs/explanation/elastic.md: 1 ps + 6 workers, a heavier gang of three: ours starts it in both cases."""
    job, gang = workers("l", ["n1", "n1", "n1", *places], ps="n1"), waiting("h", 3, weight=9, created_s=5.0)
    jobs = [elastic(job, least=2)]
    full = snapshot([node(name, cpu=amount) for name, amount in cpu.items()], [job, gang])
    found = literal.scale_in(full, jobs, gang.key, TRUSTING, decrement=3)
    assert (found.possible, len(found.plan)) == (as_published, 3)
    made = plan(full, TRUSTING, now_s=10.0)
    given = scale_in(full, made, jobs, TRUSTING, Options(decrement=3), now_s=10.0)
    assert [(change.before, change.after) for change in given.changes] == [(6, 3)]


def test_nodes_with_the_ps_come_last() -> None:
    """Both nodes would do; the one without the ps gives, whichever index is there."""
    job = workers("l", ["n2", "n2", "n1", "n1"], ps="n1")
    found = literal.scale_in(cluster(job, cpu={"n1": "3", "n2": "2"}), [elastic(job)], NEW.key, TRUSTING, decrement=2)
    assert (found.possible, found.node) == (True, "n2")
    assert [removal.pod for removal in found.plan] == ["uid-default-l-worker-1", "uid-default-l-worker-0"]


def test_removals_that_did_not_help_stay() -> None:
    """The first node is too small for the new job, its worker goes all the same."""
    job = workers("l", ["n1", "n2", "n2"])
    found = literal.scale_in(
        cluster(job, cpu={"n1": "1", "n2": "2"}), [elastic(job, least=0)], NEW.key, TRUSTING, decrement=None
    )
    assert found.possible
    assert [removal.node for removal in found.plan] == ["n1", "n2", "n2"]


def test_the_lightest_gives_first_and_equal_earlier_ones_are_skipped() -> None:
    """Of three jobs on one node: the lightest gives, one as heavy as the new job and earlier is passed over."""
    light, heavy = workers("l", ["n1"] * 2, weight=1), workers("m", ["n1"] * 2, weight=2)
    equal = workers("e", ["n1"] * 2, weight=9, created_s=1.0)
    jobs = [elastic(gang, least=0) for gang in (equal, heavy, light)]
    found = literal.scale_in(cluster(light, heavy, equal, cpu={"n1": "6"}), jobs, NEW.key, TRUSTING, decrement=None)
    assert [removal.job.name for removal in found.plan] == ["l", "l"]
    alone = literal.scale_in(cluster(equal, cpu={"n1": "2"}), jobs[:1], NEW.key, TRUSTING, decrement=None)
    assert alone == literal.LiteralScaleIn(possible=False, plan=())


def test_nothing_is_removed_when_it_fits() -> None:
    """The test comes before each removal."""
    job = workers("l", ["n1"])
    found = literal.scale_in(cluster(job, cpu={"n1": "3"}), [elastic(job, least=0)], NEW.key, TRUSTING, decrement=None)
    assert (found.possible, found.plan) == (True, ())


def test_l_dw_is_per_job_and_call() -> None:
    """Two are needed from one node; with l_dw = 1 only one may go."""
    job = workers("l", ["n1"] * 3)
    at_most_one = literal.scale_in(cluster(job, cpu={"n1": "3"}), [elastic(job)], NEW.key, TRUSTING, decrement=1)
    assert (at_most_one.possible, len(at_most_one.plan)) == (False, 1)


def test_a_job_that_must_not_be_resized_is_left_out() -> None:
    """What cannot be carried out is not planned, here either."""
    job = workers("l", ["n1"] * 2)
    unsafe = elastic(job, least=0, most=9, refusal="unsafe")
    assert literal.scale_in(cluster(job, cpu={"n1": "2"}), [unsafe], NEW.key, TRUSTING, decrement=None).plan == ()
    assert literal.scale_out(cluster(job, cpu={"n1": "9"}), [unsafe], TRUSTING, increment=None) == ()


def test_growth_takes_room_that_a_waiting_gang_could_use() -> None:
    """Algorithm 3 looks at idle resources alone: the two CPUs that the waiting gang fits into are gone."""
    job = workers("l", ["n1"])
    given = literal.scale_out(cluster(job, cpu={"n1": "3"}), [elastic(job, most=9)], TRUSTING, increment=None)
    assert [where for _, where in given] == ["n1", "n1"]


def test_what_no_node_has_is_neither_freed_nor_added() -> None:
    """A worker on a node that is gone frees nothing; one that asks for a GPU that no node has is not added."""
    job = workers("l", ["gone"])
    assert (
        literal.scale_in(cluster(job, cpu={"n1": "1"}), [elastic(job, least=0)], NEW.key, TRUSTING, decrement=9).plan
        == ()
    )
    gpu = bound(pod("l-worker-0", gang="l", role=Role.WORKER, index=0, gpu=1), "gone")
    asks = replace(job, members=(gpu,))
    assert literal.scale_out(cluster(asks, cpu={"n1": "9"}), [elastic(asks, most=4)], TRUSTING, increment=None) == ()
