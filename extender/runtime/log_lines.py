"""How log lines look: JSON for machines, a line for people on a terminal.

Rule: a field that means the same as a metric's label has the same name and words; nothing here fails for a value.
"""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TextIO

import msgspec

_LINE: Final = msgspec.json.Encoder(enc_hook=repr)


class LogFormat(StrEnum):
    """How a log line looks."""

    TEXT = "text"
    JSON = "json"


def configure_logging(*, level: str = "INFO", log_format: LogFormat, stream: TextIO | None = None) -> None:
    """All log lines go to `stream` (or standard error) in one format. ValueError for an unknown level."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(HumanFormatter() if log_format is LogFormat.TEXT else JsonFormatter())
    # Neither format shows them, and every line would pay for asking.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Write `record` as one line of JSON; a field that JSON cannot say is written as Python shows it."""
        line: dict[str, object] = {"time": _timestamp(record), "level": record.levelname, "logger": record.name}
        line.update({"message": record.getMessage(), **_extra(record)})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _LINE.encode(line).decode()


class HumanFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, then `field=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write `record` as one line, and its traceback below."""
        line = f"{_timestamp(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        for name, value in _extra(record).items():
            text = str(value)
            line += f" {name}={text if text.isprintable() and ' ' not in text else repr(text)}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    extra = getattr(record, "fields", None)
    # almost all have a dict, and asking an abstract class takes as long as writing the timestamp
    return extra if type(extra) is dict or isinstance(extra, Mapping) else {}


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339 with milliseconds, cut off as everywhere else."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
