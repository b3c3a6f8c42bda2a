"""When to announce that links got bad, and that they are good again: late enough, and not again and again.

Rules: they were bad for `BAD_S`, or good for `GOOD_S`, at all looks that could decide; two announcements of one subject
are at least `QUIET_S` apart, and only what is still so is announced then. What is uncertain or not measured changes
nothing. At most `MOST` at one look, the others at the next.

Pure: the same looks give the same alarms. Bounded by the subjects that are bad, or were announced within `QUIET_S`.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scoring.network.degraded import Degraded, Look, Subject

BAD_S: Final = 60.0
GOOD_S: Final = 120.0
QUIET_S: Final = 600.0
MOST: Final = 10


class State(msgspec.Struct, frozen=True):
    """One subject."""

    bad: bool
    since_s: float
    announced_bad: bool = False
    announced_s: float | None = None


class Alarm(msgspec.Struct, frozen=True):
    """Something to announce."""

    about: Subject
    since_s: float
    degraded: tuple[Degraded, ...]  # By metric; empty: it is good again


def step(states: Mapping[Subject, State], look: Look, *, now_s: float) -> tuple[dict[Subject, State], list[Alarm]]:
    """The states after a look, and what to announce. Cost: O(states + degraded).

    >>> from scoring.network.degraded import Kind
    >>> from scoring.network.measurement import Metric
    >>> node = Subject(Kind.NODE, "n1")
    >>> bad = Look((Degraded(node, Metric.LOSS, 4, 4, 0.1, ("n1", "n2"), True),), frozenset({node}), frozenset({"n1"}))
    >>> states, alarms = step({}, bad, now_s=0.0)
    >>> alarms
    []
    >>> [alarm.since_s for alarm in step(states, bad, now_s=60.0)[1]]
    [0.0]
    """
    of: dict[Subject, list[Degraded]] = {}
    for one in look.degraded:
        of.setdefault(one.about, []).append(one)
    after: dict[Subject, State] = {}
    alarms: list[Alarm] = []
    for about in sorted({*states, *of}):
        if about.name not in look.there:
            continue
        found = of.get(about, [])
        certain = tuple(one for one in found if one.certain)
        verdict = True if certain else None if found or about not in look.known else False
        state = states.get(about)
        if state is None:
            if not verdict:
                continue
            state = State(bad=True, since_s=now_s)
        if verdict is not None and verdict is not state.bad:
            state = replace(state, bad=verdict, since_s=now_s)
        if verdict is not None and _due(state, now_s) and len(alarms) < MOST:
            alarms.append(Alarm(about, state.since_s, certain))
            state = replace(state, announced_bad=state.bad, announced_s=now_s)
        if state.bad or state.announced_bad or (state.announced_s is not None and now_s - state.announced_s < QUIET_S):
            after[about] = state
    return after, alarms


def _due(state: State, now_s: float) -> bool:
    settled = now_s - state.since_s >= (BAD_S if state.bad else GOOD_S)
    quiet = state.announced_s is None or now_s - state.announced_s >= QUIET_S
    return settled and quiet and state.bad is not state.announced_bad
