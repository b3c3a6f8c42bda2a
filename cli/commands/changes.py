"""How changes are written on the command line of `netgang what-if`: the records of `scoring.what_if.changes`.

Rule: an option says one change in a few characters; whatever needs more is written in a file, as the body of
/v1/what-if.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from extender.api.what_if.question import read_changes
from extender.errors import ConfigError
from scoring.ids import GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.network.measurement import Metric
from scoring.what_if import changes as c

_SECONDS: Final[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def from_options(given: Mapping[str, Iterable[str]]) -> list[c.Change]:
    """Changes in the order of the options in `READERS`. Errors: ConfigError names the option."""
    found: list[c.Change] = []
    for option, read in READERS.items():
        for text in given.get(option, ()):
            try:
                found.append(read(text))
            except ValueError as error:
                raise ConfigError(f"{option} {text}: {error}") from error
    return found


def from_file(path: Path) -> list[dict[str, Any]]:
    """The changes of a file (`-`: standard input): a body of /v1/what-if, or its list. Errors: ConfigError."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        content = json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    changes = content.get("changes") if isinstance(content, dict) else content
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise ConfigError(f'{path}: not a list of changes, and not {{"changes": [...]}}')
    return changes


def checked(changes: Sequence[object]) -> c.WhatIf:
    """The body with these changes, records or what a file says. Errors: ConfigError names the field that is wrong."""
    try:
        return c.WhatIf(read_changes(msgspec.json.encode({"changes": changes})))
    except c.MisfitError as error:
        raise ConfigError(str(error)) from error


def capacity(text: str) -> c.Change:
    """`ZONE:RESOURCE=AMOUNT`, or `ZONE/NODE:RESOURCE=AMOUNT` for one node.

    >>> capacity("D:nvidia.com/gpu=2")
    AddCapacity(zone='D', resource='nvidia.com/gpu', amount='2', nodes={})
    """
    place, _, rest = text.partition(":")
    resource, _, amount = rest.partition("=")
    if not (place and resource and amount):
        raise ValueError("write ZONE:RESOURCE=AMOUNT, such as D:nvidia.com/gpu=2")
    zone, _, node = place.partition("/")
    return c.AddCapacity(ZoneName(zone), ResourceName(resource), amount, {NodeName(node): amount} if node else {})


def nodes(text: str) -> c.Change:
    """`ZONE:COUNT:like=NODE`, or `ZONE:COUNT:RESOURCE=AMOUNT,…`.

    >>> nodes("D:2:like=node28")
    AddNodes(zone='D', count=2, allocatable={}, like='node28', labels={})
    """
    zone, _, rest = text.partition(":")
    count, _, what = rest.partition(":")
    if not what:
        raise ValueError("write ZONE:COUNT:like=NODE or ZONE:COUNT:cpu=8,memory=32Gi")
    parts = _pairs(what)
    like = parts.pop("like", None)
    return c.AddNodes(ZoneName(zone), _number(count), parts, NodeName(like) if like is not None else None)


def pods(text: str) -> c.Change:
    """`NAMESPACE/GANG:COUNT`, or `NAMESPACE/GANG:COUNT:RESOURCE=AMOUNT,…` for a gang that does not exist yet.

    >>> pods("team/new:4:cpu=2").requests
    {'cpu': '2'}
    """
    key, _, rest = text.partition(":")
    count, _, what = rest.partition(":")
    namespace, slash, name = key.partition("/")
    if not (namespace and slash and name):
        raise ValueError("write NAMESPACE/GANG:COUNT:cpu=2")
    requests = _pairs(what) if what else {}
    return c.AddPods(Namespace(namespace), name, _number(count), gang=name, requests=requests)


def link(text: str) -> c.Change:
    """`FROM:TO:METRIC=VALUE` with metric loss, delay or throughput.

    >>> link("node28:node29:delay=90").value
    90.0
    """
    source, _, rest = text.partition(":")
    target, _, what = rest.partition(":")
    metric, _, value = what.partition("=")
    if not (source and target and metric and value):
        raise ValueError("write FROM:TO:delay=MS, FROM:TO:loss=RATIO or FROM:TO:throughput=BITS_PER_S")
    return c.SetLink(source, target, Metric(metric), float(value))


def annotation(text: str) -> c.Change:
    """`NAMESPACE/GANG:NAME=VALUE`; without `=VALUE` it is taken away.

    >>> annotation("team/a:weight=9"), annotation("team/a:zones").value
    (SetOption(gang='team/a', name='weight', value='9'), None)
    """
    gang, _, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (gang and name):
        raise ValueError("write NAMESPACE/GANG:NAME=VALUE")
    return c.SetOption(GangKey(gang), name, value if equals else None)


def setting(text: str) -> c.Change:
    """`NAME=VALUE` as in a settings file, sections with dots; the value is JSON, or a word.

    >>> setting("queue.order=fifo").settings, setting("spill_wait_s=60").settings
    ({'queue': {'order': 'fifo'}}, {'spill_wait_s': 60})
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
    return c.SetSettings(content)


def advance(text: str) -> c.Change:
    """A time such as 90s, 10m, 2h or 1d.

    >>> advance("10m").by_s, advance("90").by_s
    (600.0, 90.0)
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        return c.ClockAdvances(by_s=float(number) * _SECONDS[unit])
    except ValueError:
        raise ValueError("write a time such as 90s, 10m, 2h or 1d") from None


def _resize(kind: Callable[[str, int], c.Change]) -> Callable[[str], c.Change]:
    def read(text: str) -> c.Change:
        job, _, by = text.rpartition(":")
        if not job:
            raise ValueError("write NAMESPACE/JOB:NUMBER")
        return kind(job, _number(by))

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


READERS: Final[Mapping[str, Callable[[str], c.Change]]] = {
    # option → what reads its text
    "--set": setting,
    "--annotate": annotation,
    "--link": link,
    "--remove-node": lambda text: c.RemoveNodes((NodeName(text),)),
    "--add-nodes": nodes,
    "--add-capacity": capacity,
    "--end-job": c.JobEnds,
    "--shrink-job": _resize(c.JobShrinks),
    "--grow-job": _resize(c.JobGrows),
    "--remove-pod": lambda text: c.RemovePods((text,)),
    "--add-pods": pods,
    "--advance": advance,
}
