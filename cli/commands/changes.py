"""How changes are written on the command line of `netgang what-if`: the records of `scoring.what_if.changes`.

Rule: an option says one change in a few characters; what needs more is written in a file, as /v1/what-if's body.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from extender.api.what_if.question import read_changes
from extender.errors import ConfigError
from scoring.ids import GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.network.measurement import Metric
from scoring.what_if import changes as c

_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_NODE_VERBS: Final = {  # verb → how it is written
    "cordon": "cordon NODE",
    "uncordon": "uncordon NODE",
    "taint": "taint NODE KEY[=VALUE]:EFFECT",
    "untaint": "untaint NODE KEY[:EFFECT]",
}
_SECONDS: Final[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def from_options(given: Mapping[str, Iterable[str]]) -> list[c.Change]:
    """Changes in the order of the options in `READERS`. Errors: ConfigError names the option.

    >>> def one(option, text):
    ...     return from_options({option: [text]})[0]
    >>> one("--add-capacity", "D:nvidia.com/gpu=2")
    AddCapacity(zone='D', resource='nvidia.com/gpu', amount='2', nodes={})
    >>> one("--add-nodes", "D:2:like=node28")
    AddNodes(zone='D', count=2, allocatable={}, like='node28', labels={})
    >>> one("--add-pods", "team/new:4:cpu=2").requests, one("--link", "node28:node29:delay=90").value
    ({'cpu': '2'}, 90.0)
    >>> one("--annotate", "team/a:weight=9"), one("--annotate", "team/a:zones").value
    (SetOption(gang='team/a', name='weight', value='9'), None)
    >>> one("--set", "queue.order=fifo").settings, one("--set", "spill_wait_s=60").settings
    ({'queue': {'order': 'fifo'}}, {'spill_wait_s': 60})
    >>> one("--advance", "10m").by_s, one("--advance", "90").by_s
    (600.0, 90.0)
    """
    found: list[c.Change] = []
    for option, read in READERS.items():
        for text in given.get(option, ()):
            try:
                found.append(read(text))
            except ValueError as error:
                raise ConfigError(f"{option} {text}: {error}") from error
    return found


def from_words(words: Sequence[str]) -> list[c.Change]:
    """Changes of nodes as kubectl writes them. Errors: ConfigError.

    >>> from_words(["cordon", "n1", "n2"])
    [CordonNodes(nodes=('n1', 'n2'))]
    >>> from_words(["taint", "n1", "gpu=a100:NoSchedule"])
    [TaintNodes(nodes=('n1',), key='gpu', effect='NoSchedule', value='a100')]
    >>> from_words(["untaint", "n1", "gpu"])
    [UntaintNodes(nodes=('n1',), key='gpu', effect=None)]
    """
    if not words:
        return []
    verb, *rest = words
    taint = rest.pop() if verb in ("taint", "untaint") and len(rest) > 1 else None
    if not rest or verb not in _NODE_VERBS or (verb in ("taint", "untaint")) is not (taint is not None):
        raise ConfigError(f"{' '.join(words)}: write {' or '.join(_NODE_VERBS.values())}")
    nodes = tuple(map(NodeName, rest))
    return [_node_change(verb, nodes, taint)]


def _node_change(verb: str, nodes: tuple[NodeName, ...], taint: str | None) -> c.Change:
    """What kubectl's verb of that name does. Errors: ConfigError for a taint that is none."""
    if verb in ("cordon", "uncordon"):
        return c.CordonNodes(nodes) if verb == "cordon" else c.UncordonNodes(nodes)
    key, _, effect = (taint or "").rstrip("-").partition(":")
    name, _, value = key.partition("=")
    if not name or effect not in (*_EFFECTS, *([""] if verb == "untaint" else [])):
        raise ConfigError(f"{verb} {taint}: write KEY[=VALUE]:EFFECT; effects are {', '.join(_EFFECTS)}")
    if verb == "taint":
        return c.TaintNodes(nodes, name, cast(Any, effect), value)
    return c.UntaintNodes(nodes, name, cast(Any, effect) or None)


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


def _form(form: str, usage: str, make: Callable[..., c.Change]) -> Callable[[str], c.Change]:
    """Reads texts of this form, whose groups `make` takes."""

    def read(text: str) -> c.Change:
        found = re.fullmatch(form, text, re.DOTALL)
        if found is None:
            raise ValueError(f"write {usage}")
        return make(*found.groups())

    return read


def _capacity(zone: str, node: str | None, resource: str, amount: str) -> c.Change:
    return c.AddCapacity(ZoneName(zone), ResourceName(resource), amount, {NodeName(node): amount} if node else {})


def _nodes(zone: str, count: str, what: str) -> c.Change:
    parts = _pairs(what)
    like = parts.pop("like", None)
    return c.AddNodes(ZoneName(zone), _number(count), parts, NodeName(like) if like is not None else None)


def _pods(namespace: str, name: str, count: str, what: str | None) -> c.Change:
    return c.AddPods(Namespace(namespace), name, _number(count), gang=name, requests=_pairs(what) if what else {})


def _setting(name: str, value: str) -> c.Change:
    try:
        content = json.loads(value)
    except ValueError:
        content = value  # a word
    for part in reversed(name.split(".")):
        content = {part: content}
    return c.SetSettings(content)


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


def _tainted(verb: str) -> Callable[[str], c.Change]:
    def read(text: str) -> c.Change:
        node, colon, taint = text.partition(":")
        if not (node and colon):
            raise ValueError(f"write NODE:KEY{'[=VALUE]:EFFECT' if verb == 'taint' else '[:EFFECT]'}")
        return _node_change(verb, (NodeName(node),), taint)

    return read


_RESIZE: Final = ("(.+):(.*)", "NAMESPACE/JOB:NUMBER")
READERS: Final[Mapping[str, Callable[[str], c.Change]]] = {
    # option → what reads its text
    "--set": _form("([^=]+)=(.*)", "NAME=VALUE, such as queue.order=fifo", _setting),
    "--annotate": _form(
        "([^:]+):([^=]+)(?:=(.*))?",
        "NAMESPACE/GANG:NAME=VALUE",
        lambda gang, name, value: c.SetOption(GangKey(gang), name, value),
    ),
    "--link": _form(
        "([^:]+):([^:]+):([^=]+)=(.+)",
        "FROM:TO:delay=MS, FROM:TO:loss=RATIO or FROM:TO:throughput=BITS_PER_S",
        lambda source, target, metric, value: c.SetLink(source, target, Metric(metric), float(value)),
    ),
    "--remove-node": lambda text: c.RemoveNodes((NodeName(text),)),
    "--cordon": lambda text: c.CordonNodes((NodeName(text),)),
    "--uncordon": lambda text: c.UncordonNodes((NodeName(text),)),
    "--taint": _tainted("taint"),
    "--untaint": _tainted("untaint"),
    "--add-nodes": _form("([^:]*):([^:]*):(.+)", "ZONE:COUNT:like=NODE or ZONE:COUNT:cpu=8,memory=32Gi", _nodes),
    "--add-capacity": _form(
        "(?!:)([^/:]*)(?:/([^:]*))?:([^=]+)=(.+)", "ZONE:RESOURCE=AMOUNT, such as D:nvidia.com/gpu=2", _capacity
    ),
    "--end-job": c.JobEnds,
    "--shrink-job": _form(*_RESIZE, lambda job, by: c.JobShrinks(job, _number(by))),
    "--grow-job": _form(*_RESIZE, lambda job, by: c.JobGrows(job, _number(by))),
    "--remove-pod": lambda text: c.RemovePods((text,)),
    "--add-pods": _form("([^/:]+)/([^:]+):([^:]*)(?::(.*))?", "NAMESPACE/GANG:COUNT:cpu=2", _pods),
    "--advance": _form(
        r"([-+.e\d]+)([smhd]?)",
        "a time such as 90s, 10m, 2h or 1d",
        lambda number, unit: c.ClockAdvances(by_s=float(number) * _SECONDS[unit or "s"]),
    ),
}
