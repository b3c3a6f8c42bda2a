"""Keep the last good answer of each question that a source asks its server.

Why: an archive may answer for loss and fail for throughput, and a test that did not run leaves a hole in the next
answer. Rule: a question that fails keeps its last answer and is named in the batch's problems; a pair missing from an
answer keeps its last value, which ages, until `forget_s`; only when every question fails is the source in error.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from extender.errors import NetworkSourceError
from extender.network.batches import bounded, merged, off_loop
from extender.ports import Batch, EndpointInfo
from scoring.ids import EndpointId
from scoring.network.measurement import METRICS, Ints, MeasurementTable

FORGET_S = 172_800.0
"""How long a pair that no answer has any more keeps its last value: the longest hard TTL that is the default."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question gave."""

    table: MeasurementTable
    aliases: Mapping[EndpointId, tuple[str, ...]] = field(default_factory=dict)
    """endpoint → other names of it"""
    problems: tuple[str, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)


Question = Callable[[], Awaitable[Answer]]
Choose = Callable[[Mapping[str, Answer]], MeasurementTable]


def all_of(answers: Mapping[str, Answer]) -> MeasurementTable:
    """Every value of every answer; of several for one pair and metric the newest will count."""
    return MeasurementTable.of(one for _, answer in sorted(answers.items()) for one in answer.table)


class Parts:
    """The last good answers of one source. `ask` is called by one task at a time."""

    def __init__(self, source: str, *, choose: Choose = all_of, forget_s: float = FORGET_S) -> None:
        """`choose` makes one table of the answers, by question."""
        self._source = source
        self._choose = choose
        self._forget_s = forget_s
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
            last = self._answers.get(name)
            if last is not None:
                since_s = now_s - self._forget_s
                answer = await off_loop(len(answer.table), partial(_with_last, answer, last, since_s=since_s))
            self._answers[name] = answer
        if len(failures) == len(questions):
            raise NetworkSourceError(f"{self._source}: {'; '.join(dict.fromkeys(failures.values()))}")
        problems = [f"{name} failed{self._kept(name)}: {text}" for name, text in failures.items()]
        problems += [problem for name in questions if name in self._answers for problem in self._answers[name].problems]
        reported = (tuple(problems), dict(self._answers))
        if reported == self._reported:
            return None
        self._reported = reported
        rejected = Counter[str]()
        for answer in self._answers.values():
            rejected.update(answer.rejected)
        size = sum(len(answer.table) for answer in self._answers.values())
        table = await off_loop(size, partial(self._choose, dict(self._answers)))
        answers = self._answers.values()
        ends = merged(EndpointInfo(end, one.aliases.get(end, ())) for one in answers for end in table.ends)
        return Batch(table, ends, now_s, bounded(problems), dict(rejected))

    def _kept(self, name: str) -> str:
        return ", its last values stay" if name in self._answers else ""


def _with_last(answer: Answer, last: Answer, *, since_s: float) -> Answer:
    table = carried(answer.table, last.table, since_s=since_s)
    ends = set(table.ends)
    aliases = {end: names for end, names in {**last.aliases, **answer.aliases}.items() if end in ends}
    return replace(answer, table=table, aliases=aliases)


def carried(new: MeasurementTable, old: MeasurementTable, *, since_s: float) -> MeasurementTable:
    """`new`, and the rows of `old` for pairs that it does not have, unless they are from before `since_s`.

    Cost: O((n + o) log n) for their rows.
    """
    ends = tuple(dict.fromkeys((*new.ends, *old.ends)))
    number = {end: i for i, end in enumerate(ends)}
    place = np.array([number[end] for end in old.ends], np.int32)
    source, target = (place[column] if len(place) else column for column in (old.source, old.target))

    def keys(table: MeasurementTable, from_: NDArray[np.int32], to: NDArray[np.int32]) -> Ints:
        return np.asarray((from_.astype(np.int64) * len(ends) + to) * len(METRICS) + table.metric, np.int64)

    rows = ~np.isin(keys(old, source, target), keys(new, new.source, new.target)) & (old.measured_at_s >= since_s)
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
