"""Amounts, times and starts that are expected, in words for people.

Rule: moments are in UTC and carry a date that is not today's: a sentence is still true an hour after it was written.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final

from scoring import ZoneName
from scoring.records import ExpectedStart, Unknown

_NAMED = 3
_SHOWN_CHARS = 80
_COMPARED, _COMPARED_CHARS = 1000, 63  # Names that may be meant, and how long they are: it costs their product
NETWORK_UNKNOWN: Final = (
    "the network is unknown: the probe is off and no source is set, so nodes are chosen as if all links were alike"
)
_NOT_KNOWN: Final[Mapping[str, str]] = {  # why it is not known when a gang starts, in words
    Unknown.NEVER: "it would not fit the empty cluster",
    Unknown.NOT_FOR_ROOM: "it does not wait for the end of other gangs",
    Unknown.LENGTH: "how long {after} runs is not known",
    Unknown.RESERVED: "room is reserved for {after}, of which it is not known when it starts",
    Unknown.OTHERS: "the room that it needs is not held by gangs whose end is known",
    Unknown.FAR: "too many gangs wait before it",
}


def zone_text(zone: ZoneName) -> str:
    """A zone's name; nodes without one are a zone, too."""
    return f"zone {zone}" if zone else "the nodes without a zone"


def duration_text(time_s: float) -> str:
    """A time, rounded up where it is short.

    >>> [duration_text(s) for s in (0.2, 59.0, 240.0, 3700.0, 200_000.0)]
    ['1 s', '59 s', '4 min', '1 h 1 min', '2 d 7 h']
    """
    whole = max(int(time_s + 0.999), 1)
    if whole < 120:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def some(names: Iterable[str], most: int = _NAMED) -> str:
    """The first names, and how many more.

    >>> some(["a", "b"]), some("abcd", 2), some([])
    ('a, b', 'a, b and 2 more', '')
    """
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")


def gangs_seen_from(namespace: str, gangs: Iterable[str], most: int = _NAMED) -> str:
    """Gangs by name for people of `namespace`; those of other namespaces are counted, as their names are not theirs.

    >>> gangs_seen_from("a", ["a/x", "b/y"]), gangs_seen_from("a", ["b/_y", "c/-ü/z"])
    ("a/x and another namespace's gang", '2 gangs of other namespaces')
    """
    listed = list(gangs)
    own = [gang for gang in listed if gang.partition("/")[0] == namespace]
    others = len(listed) - len(own)
    counted_others = "another namespace's gang" if others == 1 else f"{others} gangs of other namespaces"
    return " and ".join(part for part in (some(own, most), counted_others if others else "") if part)


def shown(text: str) -> str:
    """At most so much of what a tenant wrote.

    >>> shown("a label"), len(shown("x" * 1000))
    ('a label', 80)
    """
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def counted(count: int, what: str) -> str:
    """One of them, such as "1 pod", or several."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def expected_text(start: ExpectedStart, *, now_s: float, seen_from: str | None = None) -> str:
    """The sentence; `seen_from`: the namespace whose people read it; gangs of others are not named.

    >>> start = ExpectedStart(3600.0, "team-b/resnet")
    >>> expected_text(start, now_s=0.0)
    'expected to start about 01:00Z, after team-b/resnet ends'
    >>> expected_text(start, now_s=0.0, seen_from="team-a")
    "expected to start about 01:00Z, after another namespace's gang ends"
    >>> expected_text(ExpectedStart(after="a/h", unknown=Unknown.LENGTH), now_s=0.0)
    'when it starts is not known: how long a/h runs is not known'
    """
    after = gangs_seen_from(seen_from, [start.after]) if start.after and seen_from is not None else start.after or ""
    if start.start_s is not None:
        at = moment_text(start.start_s, now_s=now_s)
        return f"expected to start about {at}{f', after {after} ends' if after else ''}"
    why = _NOT_KNOWN[start.unknown or Unknown.OTHERS].format(after=after or "a gang that is in its way")
    return f"when it starts is not known: {why}"


def moment_text(at_s: float, *, now_s: float) -> str:
    """A moment of today as a time, any other one with its date; UTC.

    >>> moment_text(60.0, now_s=0.0), moment_text(90_000.0, now_s=0.0)
    ('00:01Z', '1970-01-02 01:00Z')
    """
    moment, today = (datetime.fromtimestamp(one_s, UTC) for one_s in (at_s, now_s))
    return f"{moment:%H:%M}Z" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M}Z"


def near_names(key: str, gangs: Iterable[str], kind: str = "gangs") -> str:
    """Which of these gangs NAMESPACE/NAME may mean, or the first there are: the end of a sentence. Cost: O(gangs)."""
    (namespace, _, name), keys = key.partition("/"), [gang.partition("/") for gang in gangs]
    choices, what = sorted(gang for of, _, gang in keys if of == namespace), f"{kind} of {namespace}"
    if not choices:
        choices, what, name = sorted({f"{of}/" for of, *_ in keys}), f"namespaces with {kind}", f"{namespace}/"
    short = [choice for choice in choices if len(choice) <= _COMPARED_CHARS][:_COMPARED]
    like = get_close_matches(name[:_COMPARED_CHARS], short, n=_NAMED)
    return f"; did you mean {' or '.join(like)}?" if like else f"; {what}: {some(map(shown, choices)) or 'none'}"
