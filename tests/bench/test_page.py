"""What the page costs: how the figures come about, and which of them are judged."""

from typing import Any

import pytest

from lab.bench.page import figures, missed, painted
from lab.bench.paint import Paint
from lab.bench.results.tables import page

WITHOUT = [{"cpu": 0.10, "p99": 10.0, "p50": 2.0, "stall": 9.0}, {"cpu": 0.12, "p99": 30.0, "p50": 3.0, "stall": 5.0}]
SENT = [{"bytes": 400_000, "first_bytes": 60_000, "pages": 20}, {"bytes": 600_000, "first_bytes": 70_000, "pages": 20}]
GIVEN = {"viewers": 20, "nodes": 5000, "gangs": 200, "seconds": 10.0}


def beside(**more: float) -> dict[str, Any]:
    with_them = [{name: value + more.get(name, 0.0) for name, value in one.items()} for one in WITHOUT]
    return figures({False: WITHOUT, True: with_them}, SENT, **GIVEN)


def test_each_phase_is_compared_with_the_one_before_it() -> None:
    found = beside(cpu=0.02, p99=10.0)
    assert found["cpu_for_viewers"] == pytest.approx(0.02)
    assert found["filter_p99_ratio"] == pytest.approx((20 / 10 + 40 / 30) / 2)
    assert (found["first_bytes"], found["bytes_per_viewer_s"]) == (70_000, 2_500.0)
    assert missed(found) == []


MISSES = {  # case: (what is more, or changed in what was sent, what is said)
    "cpu": ({"cpu": 0.06}, {}, "of a core"),
    "filter": ({"p99": 40.0}, {}, "/filter p99"),
    "payload": ({}, {"first_bytes": 600_000}, "first picture"),
    "pages": ({}, {"pages": 19}, "only 19 pages"),
}


def test_a_late_picture_is_said() -> None:
    found = beside()
    assert missed(found) == []
    looks = [Paint(100.0, 1200.0), Paint(90.0, 1100.0), Paint(80.0, 900.0)]
    [only] = missed(found | painted(looks))
    assert "1100 ms, goal 1000" in only
    assert painted(looks)["picture_spread_ms"] == [900.0, 1200.0]


def test_the_table_says_what_no_browser_showed() -> None:
    found = beside(cpu=0.02)
    assert "not measured: no browser" in str(page([found | {"not_painted": "no browser"}]))
    head, rows = page([found | painted([Paint(100.0, 1200.0)])])
    assert {len(row) for row in rows} == {len(head)}
    assert rows[-1][1:] == ["1200 ms (1200–1200)", "1000 ms", "**misses**"]
    assert rows[-2][3] == "holds"


@pytest.mark.parametrize(("more", "sent", "said"), MISSES.values(), ids=MISSES)
def test_a_missed_goal_is_said(more: dict[str, float], sent: dict[str, int], said: str) -> None:
    with_them = [{name: value + more.get(name, 0.0) for name, value in one.items()} for one in WITHOUT]
    [only] = missed(figures({False: WITHOUT, True: with_them}, [one | sent for one in SENT], **GIVEN))
    assert said in only
