"""The mesh file format: links and their measured values as JSON or YAML, read strictly.

Why: a site without MaDDash, a demonstration and `netgang plan` need measurements from a file that a person or a script
wrote. Rule: nothing is guessed; an entry that is wrong in any way refuses the whole file, and the text names the
entry's index (from 0), the field and what is accepted.

A file is a list of entries, one per direction:

    [{"source": "node1", "target": "node2", "loss_ratio": 0.001, "delay_ms": 0.3, "throughput_bps": 1e8, "age_s": 60}]

Values may be null or absent (not measured). `age_s` counts back from the moment the file was written; `measured_at`
(Unix seconds, or RFC 3339 with a time zone) may be given instead; with neither, the age is 0. `grid` is for people:
what `netgang network --json` prints is a mesh file.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml

from extender.errors import ConfigError
from extender.network.batches import FUTURE_TIME, NO_VALUE, UNREADABLE
from extender.ports import Batch, EndpointInfo
from scoring.ids import EndpointId
from scoring.network.matrix import Measurement, Metric

BODY_LIMIT_BYTES: Final = 64 * 2**20

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Value = Annotated[float, msgspec.Meta(ge=0.0, le=1e15)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class _Link(msgspec.Struct, forbid_unknown_fields=True):
    source: _Name
    target: _Name
    loss_ratio: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    delay_ms: _Value | None = None
    throughput_bps: _Value | None = None
    age_s: _Value | None = None
    grid: str | None = None
    measured_at: Annotated[datetime, msgspec.Meta(tz=True)] | Annotated[float, msgspec.Meta(ge=0.0, le=1e11)] | None = (
        None
    )


_ACCEPTED: Final = {  # field → what may stand there
    "source": "a name of 1 to 253 characters",
    "target": "a name of 1 to 253 characters, other than source",
    "loss_ratio": "a number from 0 to 1, or null",
    "delay_ms": "milliseconds as a number of at least 0, or null",
    "throughput_bps": "bit/s as a number of at least 0, or null",
    "age_s": "seconds as a number of at least 0, or null; not together with measured_at",
    "grid": "a text, or null; it is not used",
    "measured_at": "Unix seconds, or a time such as 2026-01-31T12:00:00Z, or null; not together with age_s",
}
_FIELDS: Final = ((Metric.LOSS, "loss_ratio"), (Metric.DELAY, "delay_ms"), (Metric.THROUGHPUT, "throughput_bps"))
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_LINK: Final = msgspec.json.Decoder(_Link)


def read_mesh(path: Path, *, now_s: float) -> Batch:
    """Read a mesh file; `age_s` counts back from `now_s`.

    Cost: O(entries). Errors: ConfigError, naming the place and what is accepted there.
    """
    try:
        with path.open("rb") as file:
            body = file.read(BODY_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"mesh file {path}: {error.strerror or error}") from error
    return parse_mesh(body, str(path), written_at_s=now_s, now_s=now_s)


def parse_mesh(body: bytes, name: str, *, written_at_s: float, now_s: float) -> Batch:
    """Parse JSON (the text begins with `[`) or YAML; `age_s` counts back from `written_at_s`.

    Errors: ConfigError, which begins with `name`.
    """
    if len(body) > BODY_LIMIT_BYTES:
        raise ConfigError(f"{name}: more than {BODY_LIMIT_BYTES} bytes")
    measurements: list[Measurement] = []
    ends: dict[str, None] = {}
    entry_of: dict[tuple[str, str, Metric], int] = {}  # what was given → by which entry
    rejected = Counter[str]()
    for index, link in enumerate(_links(body, name)):
        measured_at_s = _measured_at_s(link, f"{name}: entry {index}", written_at_s)
        if measured_at_s > now_s:
            rejected[FUTURE_TIME] += 1
        ends.update({link.source: None, link.target: None})
        given = [(metric, value) for metric, field in _FIELDS if (value := getattr(link, field)) is not None]
        if not given:
            rejected[NO_VALUE] += 1
        for metric, value in given:
            first = entry_of.setdefault((link.source, link.target, metric), index)
            if first != index:
                raise ConfigError(f"{name}: entry {index}: {metric} of this link is already in entry {first}")
            source, target = EndpointId(link.source), EndpointId(link.target)
            measurements.append(Measurement(source, target, metric, value, min(measured_at_s, now_s)))
    return Batch(
        measurements=tuple(measurements),
        endpoints=tuple(EndpointInfo(EndpointId(end)) for end in sorted(ends)),
        fetched_at_s=now_s,
        problems=("some times lie in the future: they are taken as now",) if FUTURE_TIME in rejected else (),
        rejected=dict(rejected),
    )


def _links(body: bytes, name: str) -> Iterator[_Link]:
    if not body.strip():
        raise ConfigError(f"{name}: empty; accepted: a JSON or YAML list of entries")
    decode: Callable[[Any], _Link]
    try:
        if body.lstrip().startswith(b"["):
            entries: list[Any] = list(_RAW_LIST.decode(body))
            decode = _LINK.decode
        else:
            found = yaml.load(body, Loader=_Loader)  # noqa: S506 - CSafeLoader or SafeLoader
            if not isinstance(found, list):
                raise ConfigError(f"{name}: accepted is a list of entries, this is a {type(found).__name__}")
            entries, decode = found, partial(msgspec.convert, type=_Link)
    except (*UNREADABLE, yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{name}: neither JSON nor YAML: {' '.join(str(error).split())}") from error
    for index, entry in enumerate(entries):
        try:
            yield decode(entry)
        except UNREADABLE as error:
            raise ConfigError(f"{name}: entry {index}: {_explained(str(error))}") from error


def _explained(reason: str) -> str:
    """Turn "Expected `float` <= 1.0 - at `$.loss_ratio`" into a text that names field and accepted values.

    >>> _explained("Expected `float` <= 1.0 - at `$.loss_ratio`")
    'loss_ratio: Expected `float` <= 1.0; accepted: a number from 0 to 1, or null'
    """
    what, _, place = reason.partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if field in _ACCEPTED:
        return f"{field}: {what}; accepted: {_ACCEPTED[field]}"
    return f"{what}; accepted: an object with {', '.join(_ACCEPTED)}"


def _measured_at_s(link: _Link, where: str, written_at_s: float) -> float:
    if link.source == link.target:
        raise ConfigError(f"{where}: target: is the source; accepted: {_ACCEPTED['target']}")
    if link.measured_at is None:
        return written_at_s - (link.age_s or 0.0)
    if link.age_s is not None:
        raise ConfigError(f"{where}: age_s: accepted: {_ACCEPTED['age_s']}")
    return link.measured_at.timestamp() if isinstance(link.measured_at, datetime) else link.measured_at
