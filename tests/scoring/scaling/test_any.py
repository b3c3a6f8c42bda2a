"""`condition: any`: every gang that waits may have workers that a job can do without (docs/explanation/elastic.md)."""

from dataclasses import replace
from functools import partial

import msgspec
from hypothesis import given

from scoring.ids import NodeName
from scoring.model import Role
from scoring.model.snapshot import Claim, Snapshot
from scoring.scaling.change import No, ScaleIn
from scoring.scaling.job import ElasticJob
from scoring.scaling.options import Condition, Options
from scoring.scaling.shrink.eligible import MOST_KINDS
from scoring.scaling.shrink.scale_in import scale_in
from tests.builders import node
from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers
from tests.scoring.scaling.test_properties import clusters, options_of
from tests.scoring.scaling.test_scale_in import GENEROUS
from tests.scoring.scaling.test_scale_in import decide as decide_by
from tests.scoring.scaling.test_settles import Cluster

ANY = replace(GENEROUS, condition=Condition.ANY)
decide = partial(decide_by, options=ANY)


def given_up(found: ScaleIn) -> tuple[str | None, dict[str, tuple[int, int]]]:
    """For whom, and job → workers before and after."""
    return found.beneficiary, {change.job.name: (change.before, change.after) for change in found.changes}


def test_a_heavier_job_gives_way_too() -> None:
    """By default it keeps its four workers; with `any` the light gang gets one of them."""
    heavy, small = workers("heavy", ["n1"] * 4, weight=9), waiting("small", 1)
    cluster = [node("n1", cpu="4")], [heavy, small], [elastic(heavy)]
    assert given_up(decide_by(*cluster, GENEROUS)) == (small.key, {})
    assert given_up(decide(*cluster)) == (small.key, {"heavy": (4, 3)})


def test_nobody_gives_below_the_minimum_nor_to_a_lower_priority() -> None:
    """Weights do not count; minimum and priority do, and the reasons say which."""
    reasons: dict[str, No] = {}
    for name, least, priority in (("minimum", 4, 0), ("priority", 1, 5)):
        job = workers(name, ["n1"] * 4, weight=9, priority=priority)
        found = decide([node("n1", cpu="4")], [job, waiting("small", 1)], [elastic(job, least=least)])
        assert found.changes == ()
        reasons |= {refusal.job.name: refusal.reason for refusal in found.refusals}
    assert reasons == {"minimum": No.AT_MINIMUM, "priority": No.HIGHER_PRIORITY}


def test_a_gang_that_cannot_be_helped_keeps_nobody_behind_it_waiting() -> None:
    """The heaviest does not fit even so; the one behind it, which does, is served. By default nobody is."""
    light = workers("l", ["n1"] * 4)
    gangs = [light, waiting("h", 4, weight=9), waiting("small", 1, weight=8)]
    cluster = [node("n1", cpu="4")], gangs, [elastic(light)]
    assert given_up(decide_by(*cluster, GENEROUS)) == ("default/h", {})
    assert given_up(decide(*cluster)) == ("default/small", {"l": (4, 3)})


def test_the_first_in_the_queue_that_can_start_is_served() -> None:
    """Both could start with what the job can do without: the heavier does."""
    job = workers("l", ["n1"] * 4, weight=9)
    gangs = [job, waiting("a", 1, weight=1), waiting("b", 2, weight=2)]
    assert given_up(decide([node("n1", cpu="4")], gangs, [elastic(job)])) == ("default/b", {"l": (4, 2)})


def test_when_nobody_can_be_helped_the_first_one_is_told_why() -> None:
    """Neither fits: the answer is that to the first, as without `any`."""
    light = workers("l", ["n1"] * 4)
    gangs = [light, waiting("h", 4, weight=9), waiting("i", 5, weight=8, cpu="0.9")]
    found = decide([node("n1", cpu="4")], gangs, [elastic(light)])
    assert (found.beneficiary, found.reason) == ("default/h", No.NOT_ENOUGH)
    assert decide([node("n1", cpu="4")], [light], [elastic(light)]).reason is No.NOBODY_WAITS


def test_while_others_leave_for_one_gang_nobody_else_is_served() -> None:
    """Room is on its way for the second: the first, which could be helped as well, waits until that is done."""
    light, first, second = workers("l", ["n1"] * 4), waiting("first", 1, weight=9), waiting("second", 2, weight=8)
    claim = Claim(second.key, {member.uid: NodeName("n1") for member in second.members})
    cluster = [node("n1", cpu="4")], [light, first, second], [elastic(light)]
    found = decide(*cluster, claims={second.key: claim})
    assert (found.beneficiary, found.reason, found.changes) == (second.key, No.ROOM_IS_COMING, ())
    leaving = replace(
        light, members=tuple(replace(p, deleting=p.index == 3) if p.role is Role.WORKER else p for p in light.members)
    )
    gangs = [leaving, waiting("large", 4, weight=10), first, second]
    found = decide([node("n1", cpu="4")], gangs, [elastic(leaving, wanted=3)])
    assert (found.beneficiary, found.reason) == (first.key, No.ROOM_IS_COMING)


def test_gangs_that_ask_for_the_same_are_tried_once() -> None:
    """Before the small one are many alike that cannot be helped: it is reached. Not behind too many unlike ones."""
    light = workers("l", ["n1"] * 4)
    small = waiting("small", 1)
    alike = [waiting(f"h{i:02}", 4, weight=9) for i in range(40)]
    unlike = [waiting(f"h{i:02}", 4, weight=9, cpu=f"{999 - i}m") for i in range(MOST_KINDS)]
    for ahead, served in ((alike, True), (unlike[1:], True), (unlike, False)):
        found = decide([node("n1", cpu="4")], [light, *ahead, small], [elastic(light)])
        assert (found.beneficiary == small.key) is served
        assert bool(found.changes) is served


@given(clusters(), options_of)
def test_everything_comes_to_rest(made: tuple[Snapshot, list[ElasticJob]], options: Options) -> None:
    """As with every condition: no job is shrunk and grown without end, and bounds hold all the way."""
    Cluster(*made).rest(replace(options, condition=Condition.ANY))


@given(clusters())
def test_nobody_waits_for_workers_that_a_job_can_do_without(made: tuple[Snapshot, list[ElasticJob]]) -> None:
    """At rest no single worker above a minimum could be taken away for a gang that then starts."""
    cluster = Cluster(*made)
    cluster.rest(ANY)
    again = cluster.pass_once(ANY)
    assert again.scale_in.changes == ()
    assert cluster.plan is not None
    for key in cluster.plan.waiting:
        alone = msgspec.structs.replace(cluster.plan, waiting={key: cluster.plan.waiting[key]})
        found = scale_in(cluster.snapshot, alone, list(cluster.jobs.values()), TRUSTING, ANY, now_s=10.0)
        assert found.changes == ()
