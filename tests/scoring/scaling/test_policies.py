"""Reports, trends, curves and speeds; and metric policies made from them: PAPERS E2's shapes, `curve`'s end, noise."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.settings.settings import Settings
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats
from scoring.plan import Plan, PlannerCache, Waiting
from scoring.records import Point
from scoring.scaling.job import NOTHING, ElasticJob, MetricOptions, Options, ReportHistory, Series, Wants
from scoring.scaling.metrics import (
    Curve,
    Model,
    WorkerDemand,
    fit_curve,
    model_of,
    progress,
    sample_times_s,
    speed_at,
    stall_s,
    trend_of,
    worker_demand,
)
from scoring.scaling.metrics import DemandReason as R
from scoring.scaling.shrink import MOST_TRIALS, Taken, fewer, without_workers
from tests.example_counts import FEW
from tests.scoring.scaling.cases import TRUSTING, elastic, reported, workers
from tests.scoring.scaling.test_properties import clusters

QUICK = MetricOptions(min_interval_s=0.0)
Loss = Callable[[float], float]


class Training(msgspec.Struct, dict=True):
    """A job that trains, reports every `every` steps, and gets each demand at once, after a stall."""

    wants: Wants
    loss: Loss  # Of the samples trained so far, in units of a thousand
    options: MetricOptions = QUICK
    speedup: Callable[[int], float] = float  # Samples per second with so many workers, in tens
    batch: int = 10  # Samples per step
    every: int = 10
    stall_s: float = 40.0
    noise_ratio: float = 0.0
    seed: int = 0
    computes: Callable[[int], float] = lambda _: 1.0  # Share of its time that each of so many workers computes
    least: int = 3
    most: int = 12
    first: int = 3
    history: ReportHistory = msgspec.field(default_factory=ReportHistory)
    demand: WorkerDemand | None = None
    time_s: float = 0.0
    demands: list[tuple[int, WorkerDemand]] = msgspec.field(default_factory=list)  # Each change, with its step
    jobs: dict[int, ElasticJob] = msgspec.field(default_factory=dict)  # Workers → the job with as many

    def __post_init__(self) -> None:
        self.workers = self.first

    def job(self) -> ElasticJob:
        if self.workers not in self.jobs:
            gang = workers("g", ["n1"] * self.workers)
            self.jobs[self.workers] = elastic(gang, least=self.least, most=self.most, wants=self.wants)
        return self.jobs[self.workers]

    def run(self, steps: int) -> "Training":
        random = np.random.default_rng(self.seed)
        begin = self.history.series().top_step
        for step in range(begin, begin + steps + 1, self.every):
            loss = self.loss(step * self.batch / 1000) * (1.0 + self.noise_ratio * float(random.standard_normal()))
            speed = 10.0 * self.speedup(self.workers)
            self.time_s += self.every * self.batch / speed
            busy = self.computes(self.workers)
            point = Point(step, self.time_s, loss, samples_per_second=speed, compute_ratio=busy, workers=self.workers)
            self.history.undo(step)  # a run begins at the step with which the last one ended
            self.history.add(point)
            found = worker_demand(self.job(), self.history.series(), self.demand, self.options, now_s=self.time_s)
            before = self.demand.workers if self.demand is not None else self.workers
            self.demand = found
            if found.workers is not None and found.workers != before:
                self.demands.append((step, found))
                self.workers = found.workers
                self.time_s += self.stall_s
        return self

    @property
    def counts(self) -> list[int]:
        return [self.first, *(found.workers or 0 for _, found in self.demands)]


def turns_rarely(found: Training) -> bool:
    """At most one change of direction in any 1,000 steps."""
    signs = [b > a for a, b in pairwise(found.counts)]
    at = [found.demands[i][0] for i in range(1, len(signs)) if signs[i] != signs[i - 1]]
    return all(b - a >= 1000 for a, b in pairwise(at))


def test_loss_has_the_published_shape() -> None:
    """E2 (b), k = 500: 3 → 6 → 9 → 12 while the loss falls, 12 → 9 when it rises."""
    found = Training(Wants.LOSS, lambda k: 2.0 - k / 20 if k < 20 else 1.0 + (k - 20) / 8).run(2800)
    assert found.counts == [3, 6, 9, 12, 9]
    assert [step for step, _ in found.demands] == [500, 1010, 1520, 2530]
    assert [str(found.reason) for _, found in found.demands] == ["the loss falls"] * 3 + ["the loss rises"]


@pytest.mark.parametrize("k", [50, 200, 500, 1000])
def test_iterations_has_the_published_shape(k: int) -> None:
    found = Training(Wants.ITERATIONS, lambda _: 1.0, replace(QUICK, every_steps=k)).run(5 * k)
    assert found.counts == [3, 6, 9, 12, 3, 6]
    assert [step for step, _ in found.demands] == [k * i for i in range(1, 6)]


def test_iterations_do_not_go_back_with_a_checkpoint() -> None:
    """After a restart from step 490 the count due from step 500 on stays: else the job would be resized without end."""
    found = Training(Wants.ITERATIONS, lambda _: 1.0).run(500)
    assert found.workers == 6
    found.history.undo(490)
    found.history.add(Point(490, found.time_s + 50.0, loss=1.0, workers=6))
    again = worker_demand(found.job(), found.history.series(), found.demand, QUICK, now_s=found.time_s + 50.0)
    assert again.workers == 6


USAGE = {  # case: (workers at first, share of its time that each computes, worker counts)
    "a ps that is the bottleneck": (3, lambda n: min(0.9, 4.5 / n), [3, 4, 5, 6]),
    "workers that wait for the ps": (12, lambda n: 4.5 / n, [12, 11, 10, 9]),
    "between the two nothing changes": (6, lambda _: 0.6, [6]),
    "up to the maximum": (11, lambda _: 1.0, [11, 12]),
    "one alone, which would wait as one of two": (1, lambda n: 0.9 / n, [1]),
}  # fmt: skip


@pytest.mark.parametrize(("first", "computes", "counts"), USAGE.values(), ids=USAGE)
def test_usage_follows_what_workers_do_with_their_time(first: int, computes: Loss, counts: list[int]) -> None:
    found = Training(Wants.USAGE, lambda _: 1.0, first=first, least=min(first, 3), computes=computes).run(3000)
    assert found.counts == counts


def test_curve_adds_while_it_pays_and_stops_when_it_does_not() -> None:
    """The loss flattens: the gain a worker was good for at first no longer pays the stall, long before the maximum."""
    found = Training(Wants.CURVE, lambda k: 0.5 + 2.0 / (1.0 + k), replace(QUICK, horizon_s=300.0), most=60).run(8000)
    assert (found.counts, found.counts[-1] < 60) == (sorted(found.counts), True)
    assert 0 < max(step for step, _ in found.demands) < 4000
    assert found.demand is not None
    again = replace(found.demand, looked_at=0)
    last = worker_demand(found.job(), found.history.series(), again, found.options, now_s=found.time_s)
    assert last.reason is R.NO_GAIN


def falling(of: float) -> Loss:
    """A loss that falls by half of its height after so many thousand samples."""
    return lambda k: 0.5 + 2.0 / (1.0 + k / of)


CURVES: dict[str, tuple[list[int], Training, int]] = {  # sentence: (worker counts, training, steps)
    "the ps is the bottleneck from six workers on: a ninth is known to bring nothing": (
        [3, 6, 9], Training(Wants.CURVE, falling(50), speedup=lambda n: min(n, 6) / 3), 6000),
    "an expected stall that pays": ([3, 6], Training(Wants.CURVE, falling(10), replace(QUICK, stall_s=40.0)), 1000),
    "an expected stall longer than the horizon": (
        [3], Training(Wants.CURVE, falling(10), replace(QUICK, stall_s=4000.0)), 1000),
    "a measured stall of an hour": ([3, 6], Training(Wants.CURVE, falling(10), stall_s=3600.0), 3000),
    "three workers go when the loss rises (E3)": ([6, 3], Training(Wants.CURVE, lambda k: 1.0 + k / 20, first=6), 1100),
    "a loss that goes up and down is no curve": (
        [3], Training(Wants.CURVE, lambda k: 1.0 + 0.1 * float(np.sin(k * 7))), 3000),
}  # fmt: skip


@pytest.mark.parametrize(("counts", "training", "steps"), CURVES.values(), ids=CURVES)
def test_curve(counts: list[int], training: Training, steps: int) -> None:
    assert replace(training, history=ReportHistory()).run(steps).counts == counts


SHAPES: dict[str, Loss] = {
    "flat": lambda _: 1.0,
    "falling": lambda k: 0.3 + 2.0 / (1.0 + k / 5),
    "falling, then flat": lambda k: max(2.0 - k / 8, 1.0),
    "falling, then rising": lambda k: 1.0 + abs(k - 12) / 12,
    "slowly rising": lambda k: 1.0 + k / 400,
}


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("steps", [50, 500])
@pytest.mark.parametrize("wants", [Wants.LOSS, Wants.CURVE])
@pytest.mark.parametrize("shape", SHAPES)
def test_noise_of_5_percent_makes_nothing_oscillate(shape: str, wants: Wants, steps: int, every: int) -> None:
    for seed in range(2):
        options = replace(QUICK, every_steps=steps)
        found = Training(wants, SHAPES[shape], options, noise_ratio=0.05, seed=seed, every=every).run(3000)
        assert turns_rarely(found), (seed, found.counts)


def test_noise_alone_asks_for_nothing() -> None:
    """A flat loss with 5 % of noise: of 40 looks none takes it for a trend."""
    for seed in range(3):
        found = Training(Wants.LOSS, SHAPES["flat"], noise_ratio=0.05, seed=seed).run(20_000)
        assert found.demands == []


@FEW
@given(st.lists(st.floats(0.0, 10.0), min_size=60, max_size=100), st.sampled_from([Wants.LOSS, Wants.CURVE]))
def test_no_series_makes_anything_oscillate(losses: list[float], wants: Wants) -> None:
    """Whatever is reported: bounds hold, too."""
    options = replace(QUICK, every_steps=50, settle_steps=0, min_points=4, certainty=0.01, band_ratio=0.0)
    found = Training(wants, lambda k: losses[min(int(k * 4), len(losses) - 1)], options, every=25)
    found.run(len(losses) * 25)
    assert all(3 <= count <= 12 for count in found.counts)
    assert turns_rarely(found)


def history(until: int, *, now_workers: int = 3, loss: Loss = lambda k: 2.0 - k / 10) -> Series:
    steps = range(0, until + 1, 10)
    return reported(*(Point(step, float(step), loss=loss(step / 100), workers=now_workers) for step in steps))


KEPT = WorkerDemand(6, R.FALLS, looked_at=0, changed_s=0.0, direction=1)
TURNED = WorkerDemand(6, R.FALLS, looked_at=0, changed_s=0.0, direction=-1, turned_at=100)
SIX, NEW = history(600, now_workers=6), replace(KEPT, looked_at=400)
FALLS = (Point(step, float(step), loss=2.0 - step / 1000, workers=3) for step in range(0, 401, 10))
SINCE = reported(*FALLS, *(Point(step, float(step), loss=1.6, workers=6) for step in range(410, 1001, 10)))
LINE = replace(QUICK, min_points=1, settle_steps=0, every_steps=20)
LOOKS: dict[str, tuple[int | None, R, Series, WorkerDemand, MetricOptions, int, float]] = {
    # case: (demand, reason, series, last demand, options, the job's workers, moment)
    "no report": (None, R.NO_SIGNAL, NOTHING, KEPT, QUICK, 3, 0.0),
    "another count runs": (6, R.RESIZING, history(600, now_workers=4), KEPT, QUICK, 3, 600.0),
    "an old report": (6, R.STALE, history(600), KEPT, QUICK, 3, 1501.0),
    "too few seconds": (6, R.TOO_SOON, history(600), KEPT, replace(QUICK, min_interval_s=601.0), 3, 600.0),
    "too few steps": (6, R.TOO_SOON, history(490), KEPT, QUICK, 3, 490.0),
    "too few reports": (6, R.SETTLING, history(600), KEPT, replace(QUICK, min_points=60), 3, 600.0),
    "too few for a line": (6, R.SETTLING, history(600), KEPT, LINE, 3, 600.0),
    "level": (6, R.LEVEL, history(600, loss=lambda _: 1.0), KEPT, QUICK, 3, 600.0),
    "level since the change, before which it fell": (6, R.LEVEL, SINCE, NEW, QUICK, 6, 1000.0),
    "at its maximum": (12, R.AT_BOUND, history(600), replace(KEPT, workers=12), QUICK, 3, 600.0),
    "six asked for and not granted are not asked for twice": (6, R.AT_BOUND, history(600), KEPT, QUICK, 3, 600.0),
    "a turn too soon after the last": (6, R.TURNED, SIX, TURNED, QUICK, 6, 600.0),
    "a turn late enough": (9, R.FALLS, SIX, replace(TURNED, turned_at=-400), QUICK, 6, 600.0),
}  # fmt: skip


@pytest.mark.parametrize(("workers_", "reason", "series", "last", "options", "has", "now_s"), LOOKS.values(), ids=LOOKS)
def test_looks(
    workers_: int | None, reason: R, series: Series, last: WorkerDemand, options: MetricOptions, has: int, now_s: float
) -> None:
    """What was asked for stays unless reports that count say otherwise; the reason is a constant of the closed set."""
    job = elastic(workers("g", ["n1"] * has), least=3, most=12, wants=Wants.LOSS)
    found = worker_demand(job, series, last, options, now_s=now_s)
    assert (found.workers, found.reason) == (workers_, reason)
    off = replace(job, wants=Wants.OFF)
    assert worker_demand(off, series, last, options, now_s=now_s) == WorkerDemand(None, R.OFF)


def test_every_setting_reaches_its_option() -> None:
    """Nested names, null for no limit, and `off` as YAML reads it; jobs that declare so are resized by default."""
    assert Settings().elastic == Options()
    chosen = {"enabled": False, "decrement": None, "increment": 5}
    nested = {"elastic.metrics.default": False, "elastic.condition": "levels"}
    found = Settings.load(overrides={"elastic": chosen, **nested}).elastic
    assert {name: getattr(found, name) for name in chosen} == chosen
    assert (found.condition, found.metrics.default) == ("levels", Wants.OFF)


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
    curve = Curve("inverse", floor=0.5, height=2.0, scale=1e4, explained=1.0)
    rows = []
    for count, trained in ((3, 3e4), (6, 3e4), (6, 1e6)):
        model = Model(curve, {3: 1 / 50, 6: 1 / 80}, trained, 41.0)
        stay, grow, gain_ratio = model.forecast(count, count + 3, horizon_s=1800.0)
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
