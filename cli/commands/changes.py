"""How changes are written on the command line of `netgang what-if`, and as the body of /v1/what-if.

Rule: an option says one change in a few characters; whatever needs more is written in a file, in the body's form.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from extender.errors import ConfigError

Document = dict[str, Any]
_SECONDS: Final[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def from_options(given: Mapping[str, Iterable[str]]) -> list[Document]:
    """Changes in the body's form, in the order of the options in `READERS`. Errors: ConfigError names the option."""
    found: list[Document] = []
    for option, read in READERS.items():
        for text in given.get(option, ()):
            try:
                found.append(read(text))
            except ValueError as error:
                raise ConfigError(f"{option} {text}: {error}") from error
    return found


def from_file(path: Path) -> list[Document]:
    """The changes of a file (`-`: standard input): a body of /v1/what-if, or its list. Errors: ConfigError."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        content = json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    changes = content.get("changes") if isinstance(content, dict) else content
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise ConfigError(f'{path}: not a list of changes, and not {{"changes": [...]}}')
    return changes


def capacity(text: str) -> Document:
    """`ZONE:RESOURCE=AMOUNT`, or `ZONE/NODE:RESOURCE=AMOUNT` for one node.

    >>> capacity("D:nvidia.com/gpu=2")
    {'change': 'add-capacity', 'zone': 'D', 'resource': 'nvidia.com/gpu', 'amount': '2', 'nodes': {}}
    """
    place, _, rest = text.partition(":")
    resource, _, amount = rest.partition("=")
    if not (place and resource and amount):
        raise ValueError("write ZONE:RESOURCE=AMOUNT, such as D:nvidia.com/gpu=2")
    zone, _, node = place.partition("/")
    nodes = {node: amount} if node else {}
    return {"change": "add-capacity", "zone": zone, "resource": resource, "amount": amount, "nodes": nodes}


def nodes(text: str) -> Document:
    """`ZONE:COUNT:like=NODE`, or `ZONE:COUNT:RESOURCE=AMOUNT,…`.

    >>> nodes("D:2:like=node28")
    {'change': 'add-nodes', 'zone': 'D', 'count': 2, 'like': 'node28', 'allocatable': {}}
    """
    zone, _, rest = text.partition(":")
    count, _, what = rest.partition(":")
    if not what:
        raise ValueError("write ZONE:COUNT:like=NODE or ZONE:COUNT:cpu=8,memory=32Gi")
    parts = _pairs(what)
    return {
        "change": "add-nodes",
        "zone": zone,
        "count": _number(count),
        "like": parts.pop("like", None),
        "allocatable": parts,
    }


def pods(text: str) -> Document:
    """`NAMESPACE/GANG:COUNT`, or `NAMESPACE/GANG:COUNT:RESOURCE=AMOUNT,…` for a gang that does not exist yet.

    >>> pods("team/new:4:cpu=2")["requests"]
    {'cpu': '2'}
    """
    key, _, rest = text.partition(":")
    count, _, what = rest.partition(":")
    namespace, slash, name = key.partition("/")
    if not (namespace and slash and name):
        raise ValueError("write NAMESPACE/GANG:COUNT:cpu=2")
    body = {"change": "add-pods", "namespace": namespace, "name": name, "gang": name, "count": _number(count)}
    return {**body, "requests": _pairs(what) if what else {}}


def link(text: str) -> Document:
    """`FROM:TO:METRIC=VALUE` with metric loss, delay or throughput.

    >>> link("node28:node29:delay=90")
    {'change': 'set-link', 'source': 'node28', 'target': 'node29', 'metric': 'delay', 'value': 90.0}
    """
    source, _, rest = text.partition(":")
    target, _, what = rest.partition(":")
    metric, _, value = what.partition("=")
    if not (source and target and metric and value):
        raise ValueError("write FROM:TO:delay=MS, FROM:TO:loss=RATIO or FROM:TO:throughput=BITS_PER_S")
    return {"change": "set-link", "source": source, "target": target, "metric": metric, "value": float(value)}


def annotation(text: str) -> Document:
    """`NAMESPACE/GANG:NAME=VALUE`; without `=VALUE` it is taken away.

    >>> annotation("team/a:weight=9"), annotation("team/a:zones")["value"]
    ({'change': 'set-annotation', 'gang': 'team/a', 'name': 'weight', 'value': '9'}, None)
    """
    gang, _, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (gang and name):
        raise ValueError("write NAMESPACE/GANG:NAME=VALUE")
    return {"change": "set-annotation", "gang": gang, "name": name, "value": value if equals else None}


def setting(text: str) -> Document:
    """`NAME=VALUE` as in a settings file, sections with dots; the value is JSON, or a word.

    >>> setting("queue.order=fifo"), setting("spill_wait_s=60")["settings"]
    ({'change': 'set-settings', 'settings': {'queue': {'order': 'fifo'}}}, {'spill_wait_s': 60})
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError("write NAME=VALUE, such as queue.order=fifo")
    try:
        content = json.loads(value)
    except ValueError:
        content = value
    for part in reversed(name.split(".")):
        content = {part: content}
    return {"change": "set-settings", "settings": content}


def advance(text: str) -> Document:
    """A time such as 90s, 10m, 2h or 1d.

    >>> advance("10m"), advance("90")
    ({'change': 'advance-clock', 'by_s': 600.0}, {'change': 'advance-clock', 'by_s': 90.0})
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        return {"change": "advance-clock", "by_s": float(number) * _SECONDS[unit]}
    except ValueError:
        raise ValueError("write a time such as 90s, 10m, 2h or 1d") from None


def _resize(kind: str) -> Callable[[str], Document]:
    def read(text: str) -> Document:
        job, _, by = text.rpartition(":")
        if not job:
            raise ValueError("write NAMESPACE/JOB:NUMBER")
        return {"change": kind, "job": job, "by": _number(by)}

    return read


def _pairs(text: str) -> dict[str, str]:
    found = dict(part.partition("=")[::2] for part in text.split(","))
    if not all(name and value for name, value in found.items()):
        raise ValueError("write NAME=VALUE,NAME=VALUE")
    return found


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


READERS: Final[Mapping[str, Callable[[str], Document]]] = {
    # option → what reads its text
    "--set": setting,
    "--annotate": annotation,
    "--link": link,
    "--remove-node": lambda text: {"change": "remove-nodes", "nodes": [text]},
    "--add-nodes": nodes,
    "--add-capacity": capacity,
    "--end-job": lambda text: {"change": "end-job", "job": text},
    "--shrink-job": _resize("shrink-job"),
    "--grow-job": _resize("grow-job"),
    "--remove-pod": lambda text: {"change": "remove-pods", "pods": [text]},
    "--add-pods": pods,
    "--advance": advance,
}
