"""When a gang is expected to start, in a sentence for people: the moment, and what it waits for.

Rule: moments are in UTC and carry the date only where it is another than today's, so a sentence that was written down
is still true an hour later.
"""

from datetime import UTC, datetime
from typing import Final

from scoring.explain.words import gangs_seen_from
from scoring.plan.expected_starts import ExpectedStart, Unknown

_IN_THE_WAY: Final = {
    Unknown.LENGTH: "how long {} runs is not known",
    Unknown.RESERVED: "room is reserved for {}, of which it is not known when it starts",
}


def expected_text(one: ExpectedStart, *, now_s: float, seen_from: str | None = None) -> str:
    """The sentence; `seen_from`: the namespace whose people read it; gangs of others are not named.

    >>> start = ExpectedStart("team-a/bert", 3600.0, "team-b/resnet")
    >>> expected_text(start, now_s=0.0)
    'expected to start about 01:00Z, after team-b/resnet ends'
    >>> expected_text(start, now_s=0.0, seen_from="team-a")
    "expected to start about 01:00Z, after another namespace's gang ends"
    >>> expected_text(ExpectedStart("a/g", after="a/h", unknown=Unknown.LENGTH), now_s=0.0)
    'when it starts is not known: how long a/h runs is not known'
    """
    after = (one.after or "") if one.after is None or seen_from is None else gangs_seen_from(seen_from, [one.after])
    if one.start_s is not None:
        at = moment_text(one.start_s, now_s=now_s)
        return f"expected to start about {at}{f', after {after} ends' if after else ''}"
    why = one.unknown or Unknown.OTHERS
    said = _IN_THE_WAY[why].format(after) if after and why in _IN_THE_WAY else why.value
    return f"when it starts is not known: {said}"


def moment_text(at_s: float, *, now_s: float) -> str:
    """A moment of today as a time, any other one with its date; UTC.

    >>> moment_text(60.0, now_s=0.0), moment_text(90_000.0, now_s=0.0)
    ('00:01Z', '1970-01-02 01:00Z')
    """
    moment, today = (datetime.fromtimestamp(one_s, UTC) for one_s in (at_s, now_s))
    return f"{moment:%H:%M}Z" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M}Z"
