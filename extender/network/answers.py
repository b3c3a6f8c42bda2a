"""What the questions that a source asks its server gave, and the last good answer of each.

Why: an archive may answer for loss and fail for throughput, and a test that did not run leaves a hole in the next
answer. Rule: a question that fails keeps its last answer and is named in the batch's problems; a pair missing from an
answer keeps its last value, which ages, until `FORGET_S`, unless it is said to be silent; only when every question
fails is the source in error. Of two values of one pair that are about as old the worse counts (IPv4 and IPv6, two
tests); one-way delays and halves of round trips never appear in one batch.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from extender.errors import UNREADABLE, NetworkSourceError
from extender.ports import Batch, EndpointInfo
from scoring import EndpointId, Metric
from scoring.network.measurement import Measurement, MeasurementTable

DUPLICATE: Final = "duplicate"
FUTURE_TIME: Final = "future_time"
NEGATIVE_DELAY: Final = "negative_delay"
NO_VALUE: Final = "no_value"
OUT_OF_RANGE: Final = "out_of_range"
TOLERANCE_S: Final = 60.0  # Closer clocks are taken for equal: answers take time, and MaDDash counts in seconds
TWIN_WINDOW_S: Final = 1800.0  # Values of one link closer in time are equally new; the usual interval of checks
FORGET_S: Final = 172_800.0  # A pair that no answer has any more keeps its last value so long: the longest hard TTL
_SENTENCES: Final = {
    DUPLICATE: "some links are measured by several tests: the worse of two recent values counts",
    FUTURE_TIME: "some times lie in the future (clocks differ): they are taken as now",
    NEGATIVE_DELAY: "some one-way delays are negative (clocks differ): they are used as 0",
}
_MAX_PROBLEMS: Final = 20
_INLINE_ITEMS: Final = 5000  # Up to this many values are handled on the event loop (about 10 ms), more in a thread
_T = TypeVar("_T")
EndPair: TypeAlias = tuple[EndpointId, EndpointId]  # From, to
Question: TypeAlias = Callable[[], Awaitable["SourceAnswer"]]


async def off_loop(size: int, work: Callable[[], _T]) -> _T:
    """Do `work` over `size` values at once, or in a thread where it would hold the event loop up."""
    return work() if size <= _INLINE_ITEMS else await asyncio.to_thread(work)


def decoded(decoder: msgspec.json.Decoder[_T], body: bytes | bytearray | memoryview | msgspec.Raw, what: str) -> _T:
    """The document in `body`. Errors: NetworkSourceError, `what` is wrong and why."""
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise NetworkSourceError(f"{what}: {error}") from error


def merged(described: Iterable[EndpointInfo]) -> tuple[EndpointInfo, ...]:
    """Each endpoint once, by id, with the other names that any description gives it, in their order."""
    aliases: dict[EndpointId, dict[str, None]] = {}
    for endpoint in described:
        aliases.setdefault(endpoint.id, {}).update(dict.fromkeys(endpoint.aliases))
    return tuple(EndpointInfo(end, tuple(n for n in names if n != end)) for end, names in sorted(aliases.items()))


class SourceAnswer(msgspec.Struct, frozen=True):
    """What one question gave."""

    table: MeasurementTable
    # Loss where the pair has no other, halves of delays where the source knows no one-way delay at all
    round_trips: MeasurementTable = MeasurementTable()
    aliases: Mapping[EndpointId, tuple[str, ...]] = {}  # endpoint → other names of it
    host_of: Mapping[EndpointId, EndpointId] = {}  # one of several endpoints of a host → the host
    silent: Set[EndPair] = frozenset()  # Were tested and gave nothing: they have no last value, unless no pair gave any
    problems: tuple[str, ...] = ()
    rejected: Mapping[str, int] = {}


class Readings:
    """What an answer's entries gave so far; a value that cannot be used is counted under its reason."""

    def __init__(self, now_s: float) -> None:
        self.measurements: list[Measurement] = []
        self.round_trips: list[Measurement] = []
        self.silent: set[EndPair] = set()
        self.rejected = Counter[str]()
        self._now_s = now_s
        self._names: dict[EndpointId, dict[str, None]] = {}
        self._host_of: dict[EndpointId, EndpointId] = {}

    def end(self, *names: str | None) -> EndpointId | None:
        """The end of these names: the first that is not blank is its id, the others become aliases."""
        given = [name for name in names if name and name.strip()]
        if not given:
            return None
        others = (name.strip() for name in given[1:] if name != given[0])
        self._names.setdefault(EndpointId(given[0]), {}).update(dict.fromkeys(others))
        return EndpointId(given[0])

    def join(self, end: EndpointId, host: str | None) -> None:
        """The end is one address of this host, if it has a name, in all answers of the source."""
        if host and host.strip():
            self._host_of[end] = EndpointId(host.strip())

    def add(self, pair: EndPair, metric: Metric, value: float, at_s: float, *, round_trip: bool = False) -> None:
        """Take a value in our units over; a negative delay counts as 0, a time ahead of ours as now."""
        if metric is Metric.DELAY and value < 0.0:  # clocks differ; the other direction is too long by as much
            self.rejected[NEGATIVE_DELAY] += 1
            value = 0.0
        try:
            measurement = Measurement(*pair, metric, value, min(at_s, self._now_s))
        except ValueError:
            self.rejected[OUT_OF_RANGE] += 1
            return
        (self.round_trips if round_trip else self.measurements).append(measurement)
        self.rejected[FUTURE_TIME] += at_s > self._now_s + TOLERANCE_S

    def answer(self, *problems: str) -> SourceAnswer:
        """All of it. Cost: O(measurements)."""
        table, round_trips = (
            MeasurementTable.from_measurements(self.measurements),
            MeasurementTable.from_measurements(self.round_trips),
        )
        aliases = {end: tuple(names) for end, names in self._names.items()}
        for end, host in self._host_of.items():
            aliases[host] = (*aliases.get(host, ()), end, *aliases[end])
        return SourceAnswer(table, round_trips, aliases, self._host_of, self.silent, problems, dict(+self.rejected))


class LastAnswers:
    """The last good answers of one source, which is asked `at_once` questions at a time, all of them `within_s`."""

    def __init__(self, source: str, *, at_once: int = 1, within_s: float | None = None) -> None:
        self._source, self._at_once, self._within_s = source, at_once, within_s
        self._answers: dict[str, SourceAnswer] = {}
        self._failed_s: dict[str, float] = {}  # question → when it failed last, unless it was answered since
        self._reported: tuple[tuple[str, ...], dict[str, SourceAnswer]] | None = None

    async def ask(
        self, questions: Mapping[str, Question], *, now_s: float, problems: Sequence[str] = ()
    ) -> Batch | None:
        """Ask, those that failed last after the others; `None`: all is as it was; one task at a time.

        `problems`: others of the source. Errors: NetworkSourceError, when all fail or are not answered in time.
        """
        since_s, left = now_s - FORGET_S, iter(sorted(questions, key=lambda name: self._failed_s.get(name, 0.0)))
        answers = {
            name: last
            for name, last in self._answers.items()
            if name in questions or any((of.measured_at_s >= since_s).any() for of in (last.table, last.round_trips))
        }
        failures = dict.fromkeys(questions, f"was not reached within {self._within_s} s")

        async def work() -> None:
            for name in left:
                self._failed_s[name] = now_s  # until it is answered
                try:
                    answer = await questions[name]()
                except NetworkSourceError as error:
                    failures[name] = str(error)
                    continue
                if (last := self._answers.get(name)) is not None:
                    size = len(answer.table) + len(answer.round_trips)
                    answer = await off_loop(size, partial(_with_last, answer, last, since_s=since_s))
                answers[name] = answer
                del failures[name], self._failed_s[name]

        with suppress(TimeoutError):
            async with asyncio.timeout(self._within_s), asyncio.TaskGroup() as group:
                for _ in range(min(self._at_once, len(questions))):
                    group.create_task(work())
        self._answers = answers
        if len(failures) == len(questions):
            raise NetworkSourceError(f"{self._source}: {'; '.join(dict.fromkeys((*failures.values(), *problems)))}")
        note_of = dict.fromkeys(answers, ", its last values stay")
        sentences = [f"{name} failed{note_of.get(name, '')}: {text}" for name, text in failures.items()]
        sentences += [problem for name in questions if name in answers for problem in answers[name].problems]
        reported = ((*problems, *sentences), dict(answers))
        if reported == self._reported:
            return None
        self._reported = reported
        size = sum(len(answer.table) + len(answer.round_trips) for answer in answers.values())
        return await off_loop(size, partial(_batch, answers, reported[0], now_s))


def _batch(answers: Mapping[str, SourceAnswer], problems: Sequence[str], now_s: float) -> Batch:
    rejected = sum((Counter(answer.rejected) for answer in answers.values()), Counter[str]())
    best: dict[tuple[EndpointId, EndpointId, Metric], Measurement] = {}  # One of each pair and metric
    pairs = [(answer.table, answer.round_trips) for _, answer in sorted(answers.items())]
    host_of = {end: host for _, answer in sorted(answers.items()) for end, host in answer.host_of.items()}
    tables = [[of.renamed({end: host_of.get(end, end) for end in of.ends}) for of in both] for both in pairs]
    one_way = any(answer.table.measured_ends(Metric.DELAY) for answer in answers.values())
    for row in (row for table, _ in tables for row in table):
        if (before := best.setdefault((row.source, row.target, row.metric), row)) is not row:
            rejected[DUPLICATE] += 1
            younger_s = row.measured_at_s - before.measured_at_s
            worse = row.value < before.value if row.metric is Metric.THROUGHPUT else row.value > before.value
            if younger_s > TWIN_WINDOW_S or (worse and younger_s >= -TWIN_WINDOW_S):
                best[row.source, row.target, row.metric] = row
    for row in (row for _, table in tables for row in table):
        if row.metric is Metric.DELAY and one_way:
            rejected["round_trip"] += 1
        else:
            best.setdefault((row.source, row.target, row.metric), row)
    table = MeasurementTable.from_measurements(best.values())
    ends = merged(EndpointInfo(end, answer.aliases.get(end, ())) for answer in answers.values() for end in table.ends)
    sentences = [*dict.fromkeys(problems), *(text for reason, text in _SENTENCES.items() if rejected[reason])]
    more = len(sentences) - _MAX_PROBLEMS
    shown = sentences if more <= 0 else [*sentences[:_MAX_PROBLEMS], f"and {more} more"]
    return Batch(table, ends, now_s, tuple(shown), dict(+rejected))


def _with_last(answer: SourceAnswer, last: SourceAnswer, *, since_s: float) -> SourceAnswer:
    silent = answer.silent if len(answer.table) + len(answer.round_trips) else frozenset()
    tables = []
    for new, old in ((answer.table, last.table), (answer.round_trips, last.round_trips)):
        if silent:
            old = old.where(np.array([(row.source, row.target) not in silent for row in old], np.bool_))
        tables.append(carried(new, old, since_s=since_s))
    table, round_trips = tables
    ends = {*table.ends, *round_trips.ends}
    host_of = {end: host for end, host in {**last.host_of, **answer.host_of}.items() if end in ends}
    named = {*ends, *host_of.values()}
    aliases = {end: names for end, names in {**last.aliases, **answer.aliases}.items() if end in named}
    return replace(answer, table=table, round_trips=round_trips, aliases=aliases, host_of=host_of)


def carried(new: MeasurementTable, old: MeasurementTable, *, since_s: float) -> MeasurementTable:
    """`new`, and rows of `old` for other pairs, unless from before `since_s`. Cost: O((n + o) log n)."""
    number = {end: i for i, end in enumerate({*new.ends, *old.ends})}
    rows = ~np.isin(old.keys(number), new.keys(number)) & (old.measured_at_s >= since_s)
    return new.joined(old.where(rows)) if rows.any() else new
