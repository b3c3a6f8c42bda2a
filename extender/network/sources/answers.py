"""What the questions that a source asks its server gave, and the last good answer of each.

Why: an archive may answer for loss and fail for throughput, and a test that did not run leaves a hole in the next
answer. Rule: a question that fails keeps its last answer and is named in the batch's problems; a pair missing from an
answer keeps its last value, which ages, until `FORGET_S`; only when every question fails is the source in error.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from extender.errors import NetworkSourceError
from extender.network import batches
from extender.ports import Batch, EndpointInfo
from scoring.ids import EndpointId
from scoring.network.measurement import Measurement, MeasurementTable, Metric

FORGET_S: Final = 172_800.0  # A pair that no answer has any more keeps its last value so long: the longest hard TTL
_FUTURE_SAID: Final = "some times lie in the future (clocks differ): they are taken as now"


class Answer(msgspec.Struct, frozen=True):
    """What one question gave."""

    table: MeasurementTable
    aliases: Mapping[EndpointId, tuple[str, ...]] = {}  # endpoint → other names of it
    problems: tuple[str, ...] = ()
    rejected: Mapping[str, int] = {}


class Found:
    """What an answer's entries gave so far; a value that cannot be used is counted under its reason."""

    def __init__(self, now_s: float) -> None:
        self.measurements: list[Measurement] = []
        self.rejected = Counter[str]()
        self._now_s = now_s
        self._names: dict[EndpointId, dict[str, None]] = {}

    def end(self, *names: str | None) -> EndpointId | None:
        """The end of these names: the first that is not blank is its id, the others become aliases."""
        known = [name.strip() for name in names if name and name.strip()]
        if not known:
            return None
        self._names.setdefault(EndpointId(known[0]), {}).update(dict.fromkeys(known[1:]))
        return EndpointId(known[0])

    def add(self, source: EndpointId, target: EndpointId, metric: Metric, value: float, at_s: float) -> None:
        """Take a value in our units over; a negative delay counts as 0, a time ahead of ours as now."""
        if metric is Metric.DELAY and value < 0.0:  # clocks differ; the other direction is too long by as much
            self.rejected[batches.NEGATIVE_DELAY] += 1
            value = 0.0
        try:
            self.measurements.append(Measurement(source, target, metric, value, min(at_s, self._now_s)))
        except ValueError:
            self.rejected[batches.OUT_OF_RANGE] += 1
            return
        self.rejected[batches.FUTURE_TIME] += at_s > self._now_s + batches.TOLERANCE_S

    def answer(self, *problems: str) -> Answer:
        """All of it. Cost: O(measurements)."""
        said = list(problems)
        said += [batches.NEGATIVE_DELAYS_SAID] if self.rejected[batches.NEGATIVE_DELAY] else []
        said += [_FUTURE_SAID] if self.rejected[batches.FUTURE_TIME] else []
        aliases = {end: tuple(names) for end, names in self._names.items()}
        return Answer(MeasurementTable.of(self.measurements), aliases, tuple(said), dict(+self.rejected))


Question = Callable[[], Awaitable[Answer]]
Choose = Callable[[Mapping[str, Answer]], MeasurementTable]


def all_of(answers: Mapping[str, Answer]) -> MeasurementTable:
    """Every value of every answer; of several for one pair and metric the newest will count."""
    return MeasurementTable.of(one for _, answer in sorted(answers.items()) for one in answer.table)


class LastAnswers:
    """The last good answers of one source; `choose` makes one table of them. `ask` is called by one task at a time."""

    def __init__(self, source: str, *, choose: Choose = all_of) -> None:
        self._source = source
        self._choose = choose
        self._answers: dict[str, Answer] = {}
        self._reported: tuple[tuple[str, ...], dict[str, Answer]] | None = None

    async def ask(self, questions: Mapping[str, Question], *, now_s: float) -> Batch | None:
        """Ask one after the other; `None`: all is as it was. Errors: NetworkSourceError, when all fail."""
        failures: dict[str, str] = {}
        for name, question in questions.items():
            try:
                answer = await question()
            except NetworkSourceError as error:
                failures[name] = str(error)
                continue
            if (last := self._answers.get(name)) is not None:
                since_s = now_s - FORGET_S
                answer = await batches.off_loop(len(answer.table), partial(_with_last, answer, last, since_s=since_s))
            self._answers[name] = answer
        if len(failures) == len(questions):
            raise NetworkSourceError(f"{self._source}: {'; '.join(dict.fromkeys(failures.values()))}")
        kept = dict.fromkeys(self._answers, ", its last values stay")
        problems = [f"{name} failed{kept.get(name, '')}: {text}" for name, text in failures.items()]
        problems += [problem for name in questions if name in self._answers for problem in self._answers[name].problems]
        reported = (tuple(problems), dict(self._answers))
        if reported == self._reported:
            return None
        self._reported = reported
        answers = self._answers.values()
        table = await batches.off_loop(sum(len(one.table) for one in answers), partial(self._choose, reported[1]))
        ends = batches.merged(EndpointInfo(end, one.aliases.get(end, ())) for one in answers for end in one.table.ends)
        rejected = sum((Counter(one.rejected) for one in answers), Counter[str]())
        return Batch(table, ends, now_s, batches.bounded(problems), dict(rejected))


def _with_last(answer: Answer, last: Answer, *, since_s: float) -> Answer:
    table = carried(answer.table, last.table, since_s=since_s)
    ends = set(table.ends)
    aliases = {end: names for end, names in {**last.aliases, **answer.aliases}.items() if end in ends}
    return replace(answer, table=table, aliases=aliases)


def carried(new: MeasurementTable, old: MeasurementTable, *, since_s: float) -> MeasurementTable:
    """`new`, and rows of `old` for other pairs, unless from before `since_s`. Cost: O((n + o) log n)."""
    ends = tuple(dict.fromkeys((*new.ends, *old.ends)))
    number = {end: i for i, end in enumerate(ends)}
    place = np.array([number[end] for end in old.ends], np.int32)
    source, target = (place[column] if len(place) else column for column in (old.source, old.target))
    there = batches.row_keys(new.metric, new.source, new.target, of=len(ends))
    rows = ~np.isin(batches.row_keys(old.metric, source, target, of=len(ends)), there) & (old.measured_at_s >= since_s)
    if not rows.any():
        return new
    joined = MeasurementTable(
        ends,
        np.concatenate([new.metric, old.metric[rows]]),
        np.concatenate([new.source, source[rows]]),
        np.concatenate([new.target, target[rows]]),
        np.concatenate([new.value, old.value[rows]]),
        np.concatenate([new.measured_at_s, old.measured_at_s[rows]]),
    )
    return joined.compact()
