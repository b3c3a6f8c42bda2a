"""A rule that says by a node's name where it is measured.

Why apart from the other settings: a rule is a regular expression, and a careless one can take longer than the universe
lasts. Rule: names of at most 253 characters are matched whole, by patterns in which no group is repeated and nothing
refers back; at most three parts of open length and eight other choices bound the work for one name.
"""

import re
import warnings
from typing import Annotated, Final

from msgspec import Meta

from extender.settings.reading import Section
from scoring.network.measurement import METRICS, Metric

PATTERN_LIMIT: Final = 200
REPEATS_LIMIT: Final = 3
CHOICES_LIMIT: Final = 8

_TOKEN: Final = re.compile(
    r"""
    (?P<escape>\\(?P<escaped>.))
  | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
  | (?P<open>\((?P<special>\?(?:P?<\w+>|:)?)?)
  | (?P<repeat>(?:[*+]|\{\d*,\d*\})[?+]?)
  | (?P<exact>\{(?P<times>\d+)\})
  | (?P<choice>[?|])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class EndpointRule(Section, frozen=True):
    """The endpoint of every node whose name has a form."""

    pattern: Annotated[str, Meta(min_length=1, max_length=PATTERN_LIMIT)]
    r"""Regular expression for the whole node name, such as `node(\d+)`; groups must not be repeated."""
    endpoint: Annotated[str, Meta(min_length=1, max_length=253)]
    r"""The endpoint, by its id or any other name; `\1` or `\g<name>` stand for what a group of the pattern matched."""
    metrics: Annotated[tuple[Metric, ...], Meta(min_length=1)] = METRICS
    """Metrics for which the rule holds."""

    def __post_init__(self) -> None:
        problem = why_not(self.pattern)
        if problem is not None:
            raise ValueError(f"pattern: {problem}")
        try:
            re.compile(self.pattern).sub(self.endpoint, "")
        except (re.error, IndexError) as error:
            raise ValueError(
                f"endpoint {self.endpoint!r} does not go with pattern {self.pattern!r}: {error}"
            ) from error


def why_not(pattern: str) -> str | None:
    """Say why a pattern is not accepted; `None`: matching it against any name of 253 characters ends soon."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # what may mean another thing in another Python
            re.compile(pattern)
    except (re.error, OverflowError, FutureWarning) as error:
        return f"must be a regular expression: {error}"
    repeats, choices, after_group = 0, 0, False
    for token in _TOKEN.finditer(pattern):
        many = token["repeat"] is not None or token["exact"] is not None
        if many and after_group:
            return "must not repeat a group: that can take without end"
        if token["open"] is not None and token["special"] == "?":
            return "must have no groups but (…), (?:…) and (?P<name>…)"
        if token["escape"] is not None and token["escaped"].isdigit():
            return "must not refer back to a group"
        repeats += token["repeat"] is not None
        choices += token["choice"] is not None
        after_group = token["other"] == ")"
    if repeats > REPEATS_LIMIT or choices > CHOICES_LIMIT:
        return f"must have at most {REPEATS_LIMIT} of * + {{n,m}} and at most {CHOICES_LIMIT} of ? |"
    return None
