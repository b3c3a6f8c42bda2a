"""When a gang is expected to start, in a sentence for people: the moment, how sure that is, and what it waits for.

Rule: moments are in UTC and carry the date only where it is another than today's, so a sentence that was written down
is still true an hour later.
"""

from datetime import UTC, datetime
from typing import Final

from scoring.explain.words import gangs_seen_from
from scoring.ids import GangKey
from scoring.plan.expected import AnyStart, NotKnown, Unknown

_IN_THE_WAY: Final = {
    Unknown.LENGTH: "how long {} runs is not known",
    Unknown.RESERVED: "room is reserved for {}, of which it is not known when it starts",
}


def expected_text(one: AnyStart, *, now_s: float, seen_from: str | None = None) -> str:
    """The sentence; `seen_from`: the namespace whose people read it; gangs of others are not named.

    >>> from scoring.plan.expected import ExpectedStart
    >>> start = ExpectedStart(GangKey("team-a/bert"), 3600.0, 1800.0, 7200.0, "a", GangKey("team-b/resnet"))
    >>> expected_text(start, now_s=0.0)
    'expected to start about 01:00Z (80 % sure: 00:30Z to 02:00Z), after team-b/resnet ends'
    >>> expected_text(start, now_s=0.0, seen_from="team-a")
    "expected to start about 01:00Z (80 % sure: 00:30Z to 02:00Z), after another namespace's gang ends"
    >>> expected_text(NotKnown(GangKey("a/g"), Unknown.LENGTH, GangKey("a/h")), now_s=0.0)
    'when it starts is not known: how long a/h runs is not known'
    """
    if isinstance(one, NotKnown):
        about = _named(one.about, seen_from)
        why = _IN_THE_WAY[one.why].format(about) if about and one.why in _IN_THE_WAY else one.why.value
        return f"when it starts is not known: {why}"
    after = _named(one.after, seen_from)
    at, low, high = (moment_text(at_s, now_s=now_s) for at_s in (one.start_s, one.low_s, one.high_s))
    return f"expected to start about {at} (80 % sure: {low} to {high}){f', after {after} ends' if after else ''}"


def moment_text(at_s: float, *, now_s: float) -> str:
    """A moment of today as a time, any other one with its date; UTC.

    >>> moment_text(60.0, now_s=0.0), moment_text(90_000.0, now_s=0.0)
    ('00:01Z', '1970-01-02 01:00Z')
    """
    moment, today = (datetime.fromtimestamp(one_s, UTC) for one_s in (at_s, now_s))
    return f"{moment:%H:%M}Z" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M}Z"


def _named(gang: GangKey | None, seen_from: str | None) -> str:
    if gang is None or seen_from is None:
        return gang or ""
    return gangs_seen_from(seen_from, [gang])
