"""`condition: levels`: jobs that had more of the cluster give up workers for gangs that had less."""

from dataclasses import replace
from typing import Any

import pytest

from scoring.ids import GangKey
from scoring.model import Gang
from scoring.model.policy import Policy, ServicePolicy
from scoring.plan import plan
from scoring.queue.service_levels import hours_of
from scoring.scaling.adjust import Adjustment, adjust
from scoring.scaling.change import No
from scoring.scaling.job import Condition, ElasticJob, Options
from scoring.scaling.shrink.candidates import MOST_KINDS
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.scaling.cases import elastic, waiting, workers

HOUR_S = 3600.0
POLICY = Policy(service=ServicePolicy(wide_share=1.0))
LEVELS = Options(condition=Condition.LEVELS, cool_down_s=0.0, decrement=None, increment=None, changes_per_hour=None)
FOUR = workers("four", ["n1"] * 4)
ALIKE = [waiting(f"h{i:02}", 4, weight=9) for i in range(40)]
UNLIKE = [waiting(f"h{i:02}", 4, weight=9, cpu=f"{999 - i}m") for i in range(MOST_KINDS)]


def one_pass(
    cpu: str,
    gangs: list[Gang],
    *jobs: ElasticJob,
    now_s: float = HOUR_S,
    options: Options = LEVELS,
    policy: Policy = POLICY,
    **had_h: float,
) -> Adjustment:
    attained_h = {GangKey(f"default/{name}"): hours for name, hours in had_h.items()}
    cluster = replace(snapshot([node("n1", cpu=cpu)], gangs), attained_h=attained_h)
    made = plan(cluster, policy, now_s=now_s)
    return adjust(cluster, made, jobs, {}, policy, options, now_s=now_s)


def after(found: Adjustment) -> dict[str, int]:
    """job → workers that it is to have."""
    return {change.job.name: change.after for change in found.changes}


CASES: dict[str, tuple[dict[str, int], list[Gang], dict[str, Any]]] = {  # case: (workers then, gangs, how)
    "one that had an hour gives what a new one asks for": ({"four": 2}, [FOUR, waiting("new", 2)], {}),
    "not before it is of a higher level": ({}, [FOUR, waiting("new", 2)], {"now_s": 224.0}),
    "from then on": ({"four": 2}, [FOUR, waiting("new", 2)], {"now_s": 226.0}),
    "not to one of its own level": ({}, [FOUR, waiting("was", 2)], {"was": 1.0}),
    "nor to one of a lower priority": ({}, [workers("four", ["n1"] * 4, priority=5), waiting("new", 2)], {}),
    "all that it asked for, not its minimum alone": ({"four": 1}, [FOUR, gang("new", 3, min_member=1)], {}),
    "or nothing": ({}, [FOUR, gang("new", 4, min_member=1)], {}),
    "for the one behind a gang that cannot be helped": (
        {"four": 3},
        [FOUR, waiting("large", 4, weight=9), waiting("new", 1, weight=1)],
        {},
    ),
    "of many gangs that ask for the same one is tried": ({"four": 3}, [FOUR, *ALIKE, waiting("new", 1, weight=1)], {}),
    "of different ones all but one too many": ({"four": 3}, [FOUR, *UNLIKE[1:], waiting("new", 1, weight=1)], {}),
    "behind too many different ones no gang is served": ({}, [FOUR, *UNLIKE, waiting("new", 1, weight=1)], {}),
    "whatever they weigh": ({"four": 3}, [workers("four", ["n1"] * 4, weight=9), waiting("new", 1, weight=1)], {}),
}


@pytest.mark.parametrize(("want", "gangs", "how"), CASES.values(), ids=CASES)
def test_who_shrinks(want: dict[str, int], gangs: list[Gang], how: dict[str, Any]) -> None:
    assert after(one_pass("4", gangs, elastic(gangs[0], least=1), **how)) == want


def test_no_job_shrinks_for_a_wide_gang_before_it_is_starving() -> None:
    """Of four CPUs a quarter is one."""
    policy = replace(POLICY, service=ServicePolicy())
    found = {
        (size, now_s): one_pass("4", [FOUR, waiting("new", size)], elastic(FOUR, least=1), now_s=now_s, policy=policy)
        for size, now_s in ((1, 500.0), (2, 500.0), (2, 601.0))
    }
    assert [after(one) for one in found.values()] == [{"four": 3}, {}, {"four": 2}]
    assert found[2, 500.0].scale_in.reason is No.TOO_WIDE


def test_the_one_that_had_most_shrinks_first() -> None:
    most, less = workers("most", ["n1"] * 2), workers("less", ["n1"] * 2, created_s=1000.0)
    found = one_pass("4", [less, most, waiting("new", 1)], elastic(less), elastic(most))
    assert after(found) == {"most": 1}


def test_jobs_grow_while_no_gang_waits() -> None:
    job = elastic(FOUR, most=8)
    assert after(one_pass("8", [FOUR], job)) == {"four": 8}
    held = one_pass("8", [FOUR, waiting("large", 9)], job)
    assert after(held) == {"four": 8}, "one that no cluster of this size can hold keeps no job small"
    held = one_pass("8", [FOUR, waiting("large", 7, priority=-1)], job)
    assert (after(held), held.scale_out.reason) == ({}, No.GANGS_WAIT)


def test_jobs_grow_by_a_quarter_at_least() -> None:
    five = workers("five", ["n1"] * 5)
    assert after(one_pass("6", [five], elastic(five, most=8))) == {}
    assert after(one_pass("7", [five], elastic(five, most=8))) == {"five": 7}


def test_without_an_increment_jobs_get_back_what_they_gave_and_no_more() -> None:
    """`elastic.increment: 0`; a job that gave nothing keeps its size, and says why."""
    options = replace(LEVELS, increment=0)
    assert after(one_pass("8", [FOUR], elastic(FOUR, most=8, grow_back_to=6), options=options)) == {"four": 6}
    kept = one_pass("8", [FOUR], elastic(FOUR, most=8), options=options)
    assert after(kept) == {}
    assert [(one.reason, one.detail) for one in kept.scale_out.refusals] == [(No.AT_MAXIMUM, "elastic.increment is 0")]


def test_hours_count_worker_by_worker() -> None:
    """A worker that came later has had less, and what leaves takes its hours along."""
    early, late = pod("g-0", gang="g"), pod("g-1", gang="g")
    members = [replace(bound(one, "n1"), scheduled_s=at_s) for one, at_s in ((early, 0.0), (late, 1800.0))]
    cluster = snapshot([node("n1", cpu="2")], [gang("g", members=members)])
    for some, hours in ((members, 0.75), (members[:1], 0.5)):
        assert hours_of(gang("g", members=some), cluster, now_s=HOUR_S) == hours
