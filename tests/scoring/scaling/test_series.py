"""Reports, trends, curves and speeds: what metric policies are made from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats
from scoring.plan import Plan, PlannerCache, Waiting
from scoring.scaling.job import ElasticJob
from scoring.scaling.metrics import (
    Curve,
    Model,
    fit_curve,
    model_of,
    progress,
    sample_times_s,
    speed_at,
    stall_s,
    trend_of,
)
from scoring.scaling.series import NOTHING, Point, ReportHistory
from scoring.scaling.shrink import MOST_TRIALS, Taken, fewer, without_workers
from tests.scoring.scaling.cases import TRUSTING, reported
from tests.scoring.scaling.test_properties import clusters


@given(st.lists(st.integers(0, 60), max_size=120), st.integers(4, 20))
def test_a_series_stays_bounded_and_rises(steps: list[int], most: int) -> None:
    """Whatever is reported: strictly rising steps, at most `most` of them, the last report last, the top remembered."""
    history = ReportHistory(most)
    for i, step in enumerate(steps):
        history.undo(step)
        history.add(Point(step, float(i)))
    found = history.series()
    assert len(found) <= most
    assert (np.diff(found.step) > 0).all()
    assert not steps or (int(found.step[-1]), found.top_step) == (steps[-1], max(steps))
    assert history.last() == (history.points()[-1] if steps else None)


@given(st.integers(1, 600), st.integers(4, 40))
def test_a_series_keeps_its_start_and_its_newest_points(count: int, most: int) -> None:
    history = ReportHistory(most)
    for step in range(count):
        history.add(Point(step, float(step)))
    kept, newest = history.series().step.tolist(), min(count, most // 2)
    assert (kept[0], kept[-newest:]) == (0, list(range(count - newest, count)))


def test_a_history() -> None:
    """The same object until something is reported, so that a look is not repeated."""
    history = ReportHistory()
    assert history.series() is NOTHING
    history.add(Point(1, 1.0))
    assert history.series() is history.series()


TRENDS = {  # case: (values, what is sure)
    "falls": ([5.0, 4.0, 3.0, 2.0], -1),
    "rises": ([1.0, 2.0, 3.0, 4.0], 1),
    "level": ([2.0, 2.0, 2.0, 2.0], 0),
    "within the band": ([2.0, 1.99, 1.99, 1.98], 0),
    "noise": ([2.0, 1.0, 2.0, 1.0], 0),
    "nothing at all": ([0.0, 0.0, 0.0, 0.0], 0),
    "from below zero": ([-5.0, -4.0, -3.0, -2.0], 1),
}


@pytest.mark.parametrize(("values", "sure"), TRENDS.values(), ids=TRENDS)
def test_trend(values: list[float], sure: int) -> None:
    found = trend_of(np.arange(4.0), np.array(values), band_ratio=0.02, certainty=3.5)
    assert found is not None
    assert found[1] == sure


def test_no_fit() -> None:
    """A line through three points; a curve through a rising or constant loss, or too few reports."""
    assert trend_of(np.arange(3.0), np.ones(3), band_ratio=0.02, certainty=3.5) is None
    k = np.arange(100.0)
    for steps, losses in ((k, 1.0 + k), (k, np.ones(100)), (k[:7], 1.0 / (1.0 + k[:7]))):
        assert fit_curve(steps, losses) is None
    for history in (reported(*(Point(s, float(s), workers=2) for s in range(30))), NOTHING):
        assert model_of(history, expected_stall_s=41.0) is None, "no loss is reported"


@given(
    st.sampled_from(["inverse", "power", "exponential"]),
    st.floats(0.0, 2.0),
    st.floats(0.1, 5.0),
    st.floats(0.05, 2.0),
    st.booleans(),
)
def test_a_curve_is_found_again(family: str, floor: float, height: float, scale: float, many: bool) -> None:
    """Whichever family made the loss, the fit explains it and tells the loss a fifth further on to within 2 %."""
    k = np.linspace(0.0, 1000.0, 400 if many else 40)

    def made(at: Floats) -> Floats:
        x = at / (1000.0 * scale)
        falls = {"inverse": 1.0 / (1.0 + x), "power": (1.0 + x) ** -0.5, "exponential": np.exp(-x)}
        return np.asarray(floor + height * falls[family])

    found = fit_curve(k, made(k))
    assert found is not None
    assert found.explained > 0.99
    assert found.at(1200.0) == pytest.approx(float(made(np.array(1200.0))), rel=0.02, abs=0.02 * height)


def test_speed_is_what_was_measured() -> None:
    """Medians for each count; an outlier does not matter; without samples per second steps per second are taken."""
    history = reported(
        *(Point(s, float(s), samples_per_second=900.0 if s == 3 else 20.0, workers=2) for s in range(10)),
        *(Point(s, float(s), samples_per_second=30.0, workers=4) for s in range(10, 20)),
    )
    times_s = sample_times_s(history)
    assert [speed_at(n, times_s) for n in (2, 4)] == pytest.approx([20.0, 30.0])
    assert speed_at(8, times_s) == pytest.approx(40.0)  # half of t is not shortened: 1/20 = α + β/2, 1/30 = α + β/4
    bare = sample_times_s(reported(*(Point(s * 5, float(s), workers=2) for s in range(10))))
    assert speed_at(2, bare) == pytest.approx(5.0)
    assert sample_times_s(NOTHING) == {}


def test_a_stall_includes_the_steps_trained_again() -> None:
    """Step 500 at 500 s, back to the checkpoint of 490, going on at 541 s: 40 s of stall and ten steps."""
    points = [Point(step, float(step), workers=3) for step in range(480, 501)]
    again = [Point(step, 541.0 + step - 491, workers=6) for step in range(491, 520)]
    history = reported(*points, *again)
    assert stall_s(history) == pytest.approx(50.0)
    assert stall_s(reported(*points)) is None


def test_synchronous_steps_count_for_what_they_train() -> None:
    """With twice the workers and as many steps a second, a step trains twice as many samples."""
    history = reported(
        *(Point(s, float(s), samples_per_second=10.0 * (1 + (s > 4)), workers=1 + (s > 4)) for s in range(10))
    )
    assert np.diff(progress(history, sample_times_s(history))).tolist() == pytest.approx([10.0] * 4 + [20.0] * 5)


def test_a_search_that_is_cut_finds_nothing_rather_than_going_on() -> None:
    """After the bounded number of trials, or of counts that rule out; with hundreds of jobs none is gone through."""
    tried: list[Taken] = []

    def passes(taken: Taken) -> None:
        tried.append(taken)

    assert fewer([3] * 9, 99, lambda _: True, passes) is None
    assert len(tried) == MOST_TRIALS + 1
    assert fewer([4] * 15, 99, lambda _: False, passes) is None
    assert fewer([1] * 500, 9, lambda _: True, passes) is None
    assert len(tried) == MOST_TRIALS + 1


def test_a_speed_that_cannot_be_told_for_a_count_is_left_out() -> None:
    """One report with four workers, without a speed: the speed with two is all that is known, and no stall is."""
    history = reported(*(Point(s, float(s), workers=2) for s in range(5)), Point(9, 9.0, workers=4))
    times_s = sample_times_s(history)
    assert times_s.keys() == {2}
    frozen = reported(*(Point(s, 1.0, workers=2) for s in range(5)), Point(9, 9.0, workers=4))
    assert stall_s(frozen) is None
    assert progress(history, times_s)[-1] == pytest.approx(4.0 + 5 * speed_at(4, times_s) / 1.0)


def test_the_worked_example_of_the_page() -> None:
    """docs/explanation/elastic.md: L = 0.5 + 2·10⁴/(x + 10⁴), 50 samples/s with 3 workers, 80 with 6, stall 41 s."""
    curve = Curve("inverse", floor=0.5, height=2.0, begin=0.0, scale=1e4, explained=1.0)
    rows = []
    for workers, trained in ((3, 3e4), (6, 3e4), (6, 1e6)):
        model = Model(curve, {3: 1 / 50, 6: 1 / 80}, trained, 41.0)
        stay, grow, gain_ratio = model.forecast(workers, workers + 3, horizon_s=1800.0)
        rows.append((round(stay, 3), round(grow, 3), f"{gain_ratio:.2%}"))
    assert rows == [(0.654, 0.611, "1.44%"), (0.609, 0.593, "0.54%"), (0.517, 0.517, "0.03%")]


@given(clusters(), st.data())
def test_counting_is_never_wrongly_hopeless(made: tuple[Snapshot, list[ElasticJob]], data: st.DataObject) -> None:
    """Whichever pods go: what a placement finds room for, counting did not rule out."""
    cluster, _ = made
    waits = next((gang for key, gang in cluster.gangs.items() if key.startswith("default/w")), None)
    bound = [p for gang in cluster.gangs.values() for p in gang.members if p.node is not None]
    if waits is None or not bound:
        return
    gone = data.draw(st.lists(st.sampled_from(bound), unique_by=lambda p: p.uid))
    first = Plan(cluster.version, waiting={waits.key: Waiting(waits.key, 1, Reason.NO_ROOM)})
    trial = without_workers(cluster, first, waits, TRUSTING, now_s=10.0, cache=PlannerCache())
    assert trial.may_fit(gone) or trial.place(gone) is None
