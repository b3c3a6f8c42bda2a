"""Read loss, delay and throughput from an esmond archive: perfSONAR 4, or elmond before a perfSONAR 5 archive.

Why one request per pair and metric: esmond has no bulk query. Rule: the list of tests says which series exist and where
they are; series are read a few at a time, at most `max_series` of them, and their newest values of the last window are
averaged. `time-updated` is not believed (elmond gives the time of adding); only the values' own times are.
"""

import asyncio
import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from extender.errors import NetworkSourceError
from extender.network.batches import NO_VALUE, decoded, off_loop
from extender.network.sources.answers import Answer, Found, LastAnswers
from extender.network.sources.http import HttpClient
from extender.ports import Batch
from extender.settings.sources import EsmondSource as EsmondSettings
from scoring.ids import EndpointId
from scoring.network.measurement import Metric

_TYPES: Final = {  # event type → metric
    "packet-loss-rate": Metric.LOSS,
    "histogram-owdelay": Metric.DELAY,
    "throughput": Metric.THROUGHPUT,
}
_MAX_PAGES: Final = 100
FAILED: Final = "failed"


class _Summary(msgspec.Struct):
    kind: str = msgspec.field(name="summary-type", default="")
    window: str | int = msgspec.field(name="summary-window", default="")
    uri: str = ""


class _EventType(msgspec.Struct):
    kind: str = msgspec.field(name="event-type", default="")
    base_uri: str | None = msgspec.field(name="base-uri", default=None)
    summaries: list[_Summary] = []


class _Test(msgspec.Struct):
    source: str | None = None
    destination: str | None = None
    input_source: str | None = msgspec.field(name="input-source", default=None)
    input_destination: str | None = msgspec.field(name="input-destination", default=None)
    width_s: float | str | None = msgspec.field(name="sample-bucket-width", default=None)
    event_types: list[_EventType] = msgspec.field(name="event-types", default_factory=list)
    total: int | None = msgspec.field(name="metadata-count-total", default=None)


class _Value(msgspec.Struct):
    ts: float
    val: Any


_TESTS: Final = msgspec.json.Decoder(list[_Test])
_VALUES: Final = msgspec.json.Decoder(list[_Value])


_Series: TypeAlias = tuple[EndpointId, EndpointId, str, float]
"""source, target, path of the values, and the unit of a latency test's figures in seconds"""


class EsmondSource:
    """A NetworkSource over one archive. `fetch` is called by one task at a time."""

    def __init__(self, client: HttpClient, settings: EsmondSettings, *, name: str = "esmond") -> None:
        self.name = name
        self.client = client
        self.aclose = client.aclose
        self._settings = settings
        self._root_path = urlsplit(client.url).path
        self._answers = LastAnswers(name)

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read the list of tests and their values; `None`: nothing new. Errors: NetworkSourceError."""
        questions = {str(metric): partial(self._ask, kind, metric, now_s) for kind, metric in _TYPES.items()}
        return await self._answers.ask(questions, now_s=now_s)

    async def _ask(self, kind: str, metric: Metric, now_s: float) -> Answer:
        settings = self._settings
        window_s = settings.throughput_window_s if metric is Metric.THROUGHPUT else settings.latency_window_s
        found = Found(now_s)
        tests = await self._tests(kind, window_s)
        listed = [series for test in tests if (series := self._series(test, kind, found)) is not None]
        most = settings.max_series
        problems = [f"{len(listed)} series of {metric}: only {most} are read"] if len(listed) > most else []
        failures: list[str] = []

        async def read(series: _Series) -> None:
            try:
                await self._read(series, metric, window_s, found)
            except NetworkSourceError as error:
                failures.append(str(error))

        async with asyncio.TaskGroup() as group:  # the client asks a few at a time
            for series in listed[:most]:
                group.create_task(read(series))
        if failures and not found.measurements:
            raise NetworkSourceError(failures[0])
        if failures:
            problems.append(f"{len(failures)} series of {metric} failed, such as {failures[0]}")
            found.rejected[FAILED] += len(failures)
        found.measurements.sort(key=lambda one: (one.source, one.target, one.measured_at_s))
        return await off_loop(len(found.measurements), partial(found.answer, *problems))

    async def _tests(self, kind: str, window_s: float) -> list[_Test]:
        tests: list[_Test] = []
        for _ in range(_MAX_PAGES):
            params = {"format": "json", "event-type": kind, "time-range": f"{window_s:.0f}", "offset": str(len(tests))}
            body = await self.client.ask("GET", "/", params=params)
            page = decoded(_TESTS, body, f"{self.client.url}: the answer is no list of tests")
            tests += page
            total = page[0].total if page else None
            if not page or total is None or len(tests) >= total or len(tests) >= self._settings.max_series * 2:
                break
        return tests

    def _series(self, test: _Test, kind: str, found: Found) -> _Series | None:
        uri = next((_uri(event) for event in test.event_types if event.kind == kind), None)
        path = urlsplit(uri or "").path
        if not path.startswith(f"{self._root_path}/"):
            return None  # nothing is asked at another place than the archive's own
        source = found.end(test.input_source, test.source)
        target = found.end(test.input_destination, test.destination)
        if source is None or target is None:
            return None
        return source, target, path.removeprefix(self._root_path), _width_s(test.width_s)

    async def _read(self, series: _Series, metric: Metric, window_s: float, found: Found) -> None:
        source, target, path, width_s = series
        body = await self.client.ask("GET", path, params={"format": "json", "time-range": f"{window_s:.0f}"})
        listed = decoded(_VALUES, body, f"{self.client.url}: the answer is no list of values")
        values = [(one.ts, number) for one in listed if (number := _number(one.val)) is not None]
        if not values:
            found.rejected[NO_VALUE] += 1
            return
        average = statistics.median if metric is Metric.THROUGHPUT else statistics.fmean
        unit = width_s * 1000.0 if metric is Metric.DELAY else 1.0
        value = average([number for _, number in values]) * unit
        found.add(source, target, metric, value, max(ts for ts, _ in values))


def _uri(event: _EventType) -> str | None:
    """Where the values are: of a histogram the statistics, one for each test, else the values themselves."""
    if event.kind != "histogram-owdelay":
        return event.base_uri
    statistics = [one for one in event.summaries if one.kind == "statistics"]
    return min(statistics, key=lambda one: float(one.window or 0)).uri if statistics else None


def _width_s(width: float | str | None) -> float:
    """The unit of a latency test's figures: a positive number, else milliseconds.

    >>> _width_s("0.0001"), _width_s(None), _width_s("-")
    (0.0001, 0.001, 0.001)
    """
    number = _number(width)
    return number if number is not None and number > 0.0 else 0.001


def _number(value: object) -> float | None:
    """A finite number, also as a text, also as the median of a histogram's statistics.

    >>> _number("0.5"), _number({"median": 2, "minimum": "1"}), _number(None), _number("nan")
    (0.5, 2.0, None, None)
    """
    if isinstance(value, Mapping):
        value = value.get("median")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if abs(number) < 1e300 else None
