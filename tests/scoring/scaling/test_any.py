"""`condition: any`: every gang that waits may have workers that a job can do without (docs/explanation/elastic.md)."""

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given

from scoring.ids import NodeName
from scoring.model import Gang
from scoring.model.snapshot import Claim, Snapshot
from scoring.scaling.job import ElasticJob
from scoring.scaling.options import Condition, Options
from scoring.scaling.shrink.candidates import MOST_KINDS
from scoring.scaling.shrink.scale_in import scale_in
from tests.scoring.scaling.cases import TRUSTING, waiting, workers
from tests.scoring.scaling.test_properties import clusters, options_of
from tests.scoring.scaling.test_scale_in import FOUR, GENEROUS, LEAVING, decide, heavy, summary
from tests.scoring.scaling.test_settles import Cluster

ANY = replace(GENEROUS, condition=Condition.ANY)
HEAVY = workers("heavy", ["n1"] * 4, weight=9)
SMALL = waiting("small", 1, weight=8)
FIRST, SECOND = waiting("first", 1, weight=9), waiting("second", 2, weight=8)
CLAIM = Claim(SECOND.key, {member.uid: NodeName("n1") for member in SECOND.members})
ALIKE = [waiting(f"h{i:02}", 4, weight=9) for i in range(40)]
UNLIKE = [waiting(f"h{i:02}", 4, weight=9, cpu=f"{999 - i}m") for i in range(MOST_KINDS)]

CASES: dict[str, tuple[dict[str, Any], list[Gang], dict[str, Any]]] = {  # sentence: (decided, gangs on 4 CPUs, how)
    "by default a heavier job keeps its workers": ({"given": {}}, [HEAVY, SMALL], {"options": GENEROUS}),
    "with `any` it gives one to a lighter gang": ({"given": {"heavy": (4, 3)}}, [HEAVY, SMALL], {}),
    "not below its minimum": ({"given": {}, "refused": {"heavy": "AT_MINIMUM"}}, [HEAVY, SMALL], {"least": 4}),
    "not to a lower priority": ({"given": {}, "refused": {"l": "HIGHER_PRIORITY"}},
        [workers("l", ["n1"] * 4, priority=5), SMALL], {}),
    "by default the first gang, which cannot be helped, keeps those behind it waiting": (
        {"to": "default/h", "given": {}}, [FOUR, heavy(4), SMALL], {"options": GENEROUS}),
    "with `any` the one behind it is served": ({"to": "default/small", "given": {"l": (4, 3)}}, [FOUR, heavy(4), SMALL],
        {}),
    "of two that could start the heavier is served": ({"to": "default/b", "given": {"heavy": (4, 2)}},
        [HEAVY, waiting("a", 1, weight=1), waiting("b", 2, weight=2)], {}),
    "when no gang can be helped the answer is that to the first": ({"to": "default/h", "reason": "NOT_ENOUGH"},
        [FOUR, heavy(4), waiting("i", 5, weight=8, cpu="0.9")], {}),
    "no gang waits": ({"reason": "NOBODY_WAITS"}, [FOUR], {}),
    "while others leave for one gang no other is served": ({"to": SECOND.key, "reason": "ROOM_IS_COMING", "given": {}},
        [FOUR, FIRST, SECOND], {"claims": {SECOND.key: CLAIM}}),
    "nor while pods go whose room suffices for one": ({"to": FIRST.key, "reason": "ROOM_IS_COMING"},
        [LEAVING, waiting("large", 4, weight=10), FIRST, SECOND], {"wanted": 3}),
    "of many gangs that ask for the same one is tried": ({"to": SMALL.key}, [FOUR, *ALIKE, SMALL], {}),
    "of different ones all but one too many": ({"to": SMALL.key}, [FOUR, *UNLIKE[1:], SMALL], {}),
    "behind too many different ones no gang is served": ({"given": {}}, [FOUR, *UNLIKE, SMALL], {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "gangs", "how"), CASES.values(), ids=CASES)
def test_any(want: dict[str, Any], gangs: list[Gang], how: dict[str, Any]) -> None:
    """Weights do not count, the queue's order does: the first gang that can then start is served."""
    found = summary(partial(decide, options=ANY)("n1:4", *gangs, **how))
    assert {name: found[name] for name in want} == want


@given(clusters(), options_of)
def test_everything_comes_to_rest(made: tuple[Snapshot, list[ElasticJob]], options: Options) -> None:
    """As with every condition: no job is shrunk and grown without end, and bounds hold all the way."""
    Cluster(*made).rest(replace(options, condition=Condition.ANY))


@given(clusters())
def test_no_gang_waits_for_workers_that_a_job_can_do_without(made: tuple[Snapshot, list[ElasticJob]]) -> None:
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
