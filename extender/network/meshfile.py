"""A mesh file, links and their measured values as JSON or YAML: read strictly, and read again whenever it changes.

A file is a list of entries, one per direction:

    [{"source": "node1", "target": "node2", "loss_ratio": 0.001, "delay_ms": 0.3, "throughput_bps": 1e8, "age_s": 60}]

Values may be null or absent (not measured). `age_s` counts back from the moment the file was written; `measured_at`
(Unix seconds, or RFC 3339 with a time zone) may be given instead; with neither, the age is 0.
An entry that is wrong in any way refuses the whole file, and the text names its index, the field and what is accepted.

A mounted ConfigMap (a symlink that is exchanged), a `rename` and an editor that writes in place must be noticed, and
none may give half a file: the identity (device, inode, size, mtime) is taken from the opened file and compared before
and after reading. A file system may hang: the event loop never waits for a file, which has a thread (`_beside`).
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Final, TypeVar

import msgspec
import yaml

from extender.errors import UNREADABLE, ConfigError, NetworkSourceError
from extender.network.answers import FUTURE_TIME, NO_VALUE
from extender.ports import Batch, EndpointInfo
from scoring import EndpointId
from scoring.network.matrix import Measurement, MeasurementTable, Metric

BODY_LIMIT_BYTES: Final = 64 * 2**20
_TRIES: Final = 3
_Result = TypeVar("_Result")
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Value = Annotated[float, msgspec.Meta(ge=0.0, le=1e15)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_Time = Annotated[datetime, msgspec.Meta(tz=True)] | Annotated[float, msgspec.Meta(ge=0.0, le=1e11)]


class _Link(msgspec.Struct, forbid_unknown_fields=True):
    source: _Name
    target: _Name
    loss_ratio: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    delay_ms: _Value | None = None
    throughput_bps: _Value | None = None
    age_s: _Value | None = None
    measured_at: _Time | None = None


_ACCEPTED: Final = {  # field → what may stand there
    "source": "a name of 1 to 253 characters",
    "target": "a name of 1 to 253 characters, other than source",
    "loss_ratio": "a number from 0 to 1, or null",
    "delay_ms": "milliseconds as a number of at least 0, or null",
    "throughput_bps": "bit/s as a number of at least 0, or null",
    "age_s": "seconds as a number of at least 0, or null; not together with measured_at",
    "measured_at": "Unix seconds, or a time such as 2026-01-31T12:00:00Z, or null; not together with age_s",
}
_FIELDS: Final = ((Metric.LOSS, "loss_ratio"), (Metric.DELAY, "delay_ms"), (Metric.THROUGHPUT, "throughput_bps"))
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_LINK: Final = msgspec.json.Decoder(_Link)


def read_mesh(path: Path, *, now_s: float) -> Batch:
    """Read a mesh file; `age_s` counts back from `now_s`. Errors: ConfigError, naming place and what is accepted."""
    try:
        with path.open("rb") as file:
            body = file.read(BODY_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"mesh file {path}: {error.strerror or error}") from error
    return parse_mesh(body, str(path), written_at_s=now_s, now_s=now_s)


def parse_mesh(body: bytes, name: str, *, written_at_s: float, now_s: float) -> Batch:
    """Parse JSON (it begins with `[`) or YAML. Cost: O(entries). Errors: ConfigError, which begins with `name`."""
    if len(body) > BODY_LIMIT_BYTES:
        raise ConfigError(f"{name}: more than {BODY_LIMIT_BYTES} bytes")
    measurements: list[Measurement] = []
    ends: dict[str, None] = {}
    entry_of: dict[tuple[str, str, Metric], int] = {}  # what was given → by which entry
    rejected = Counter[str]()
    for index, link in enumerate(_links(body, name)):
        where, when = f"{name}: entry {index}", link.measured_at
        if link.source == link.target:
            raise ConfigError(f"{where}: target: is the source; accepted: {_ACCEPTED['target']}")
        if when is not None and link.age_s is not None:
            raise ConfigError(f"{where}: age_s: accepted: {_ACCEPTED['age_s']}")
        measured_at_s = when.timestamp() if isinstance(when, datetime) else when
        if measured_at_s is None:
            measured_at_s = written_at_s - (link.age_s or 0.0)
        if measured_at_s > now_s:
            rejected[FUTURE_TIME] += 1
        ends.update({link.source: None, link.target: None})
        given = [(metric, value) for metric, field in _FIELDS if (value := getattr(link, field)) is not None]
        if not given:
            rejected[NO_VALUE] += 1
        for metric, value in given:
            first = entry_of.setdefault((link.source, link.target, metric), index)
            if first != index:
                raise ConfigError(f"{where}: {metric} of this link is already in entry {first}")
            source, target = EndpointId(link.source), EndpointId(link.target)
            measurements.append(Measurement(source, target, metric, value, min(measured_at_s, now_s)))
    described = tuple(EndpointInfo(EndpointId(end)) for end in sorted(ends))
    problems = ("some times lie in the future: they are taken as now",) if FUTURE_TIME in rejected else ()
    return Batch(MeasurementTable.from_measurements(measurements), described, now_s, problems, dict(rejected))


def _links(body: bytes, name: str) -> Iterator[_Link]:
    if not body.strip():
        raise ConfigError(f"{name}: empty; accepted: a JSON or YAML list of entries")
    decode: Callable[[Any], _Link]
    entries: Any
    try:
        if body.lstrip().startswith(b"["):
            entries, decode = _RAW_LIST.decode(body), _LINK.decode
        else:
            entries = yaml.load(body, Loader=_Loader)  # noqa: S506 - CSafeLoader or SafeLoader
            decode = partial(msgspec.convert, type=_Link)
            if not isinstance(entries, list):
                raise ConfigError(f"{name}: accepted is a list of entries, this is a {type(entries).__name__}")
    except (*UNREADABLE, yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{name}: neither JSON nor YAML: {' '.join(str(error).split())}") from error
    for index, entry in enumerate(entries):
        try:
            yield decode(entry)
        except UNREADABLE as error:
            what, _, place = str(error).partition(" - at `$")  # "Expected `float` <= 1.0 - at `$.loss_ratio`"
            field = place.rstrip("`").lstrip(".")
            reason = f"{what}; accepted: an object with {', '.join(_ACCEPTED)}"
            if field in _ACCEPTED:
                reason = f"{field}: {what}; accepted: {_ACCEPTED[field]}"
            raise ConfigError(f"{name}: entry {index}: {reason}") from error


class MeshFileSource:
    """A NetworkSource over one file. `fetch` is called by one task at a time."""

    def __init__(self, path: Path, *, name: str = "file", timeout_s: float = 10.0) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._look: asyncio.Future[Batch | None] | None = None  # One that has started, its result not taken yet
        self.name = name
        self._seen: tuple[int, ...] | None = None
        self._refusal: str | None = None

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read the file if it changed; `None` if not. Ages count back from the file's mtime.

        Errors: NetworkSourceError when the file is missing or wrong, the same text again without reading again, until
        it changes; and when it is not read in time: what was started goes on, and the next fetch waits for the same.
        """
        if self._look is None:
            self._look = _beside(lambda: self._read_if_new(now_s))
        look = self._look
        await asyncio.wait([look], timeout=self._timeout_s)
        if not look.done():
            raise NetworkSourceError(f"mesh file {self._path}: not read within {self._timeout_s:g} s")
        self._look = None
        return look.result()

    def _read_if_new(self, now_s: float) -> Batch | None:
        """Blocks; never runs twice at a time."""
        name = f"mesh file {self._path}"
        try:
            if _identity(os.stat(self._path)) == self._seen:
                if self._refusal is not None:
                    raise NetworkSourceError(self._refusal)
                return None
            self._seen = self._refusal = None
            body, stat = _load(self._path)
            try:
                return parse_mesh(body, name, written_at_s=stat.st_mtime, now_s=now_s)
            except ConfigError as error:
                self._refusal = str(error)
                raise NetworkSourceError(self._refusal) from error
            finally:
                self._seen = _identity(stat)
        except OSError as error:
            raise NetworkSourceError(f"{name}: {error.strerror or error}") from error


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _load(path: Path) -> tuple[bytes, os.stat_result]:
    """A whole file and its state; one that is being written is read again. Errors: OSError."""
    for _ in range(_TRIES):
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            body = file.read(BODY_LIMIT_BYTES + 1)
            after = os.fstat(file.fileno())
        if _identity(before) == _identity(after) and (len(body) == after.st_size or len(body) > BODY_LIMIT_BYTES):
            return body, after
    raise OSError(f"changed {_TRIES} times while it was read")


def _beside(work: Callable[[], _Result]) -> "asyncio.Future[_Result]":
    """Begin `work` in a thread that the process does not wait for; its result, or its error.

    Not `asyncio.to_thread`: a file system that hangs (NFS) blocks its thread without end, and the threads of that pool
    are few and shared, and waited for at the process's end. The caller keeps to one at a time.
    """
    ended: Future[_Result] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            ended.set_exception(error)

    future = asyncio.wrap_future(ended)
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # what no fetch waits for is no defect
    Thread(target=run, name="beside", daemon=True).start()
    return future
