"""Run a decision log again: by its own rules it must come to the same, by others it shows what would be different.

Rule: pure; the log's entries in, verdicts out. Every plan is compared by its digest, and every instruction of the
permit machine. With other rules each run starts from what the *recorded* rules had decided before, because that is what
the cluster became: the question is "what would have been decided then", at every moment again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from extender.decision_log.change import NOTHING, applied
from extender.decision_log.entries import (
    FORMAT,
    BadLogError,
    Began,
    Entry,
    Lost,
    Ran,
    Stepped,
    digest_of,
    tagged,
    value_of,
)
from scoring.ids import GangKey
from scoring.model import Policy, Snapshot
from scoring.permit.machine import handle
from scoring.permit.protocol import PermitState
from scoring.plan import Plan, PlannerCache, plan


@dataclass(frozen=True, slots=True)
class Difference:
    """A gang with another decision in another plan."""

    gang: GangKey
    was: str
    would_be: str


@dataclass(frozen=True, slots=True)
class RunAgain:
    """One planner run."""

    number: int
    at_s: float
    same: bool  # The recorded rules came to the recorded plan, bit for bit
    admitted: int
    waiting: int
    differences: tuple[Difference, ...] = ()  # With other rules: what would have been decided instead; at most 100


@dataclass(frozen=True, slots=True)
class StepAgain:
    """One step of a gang's permit machine."""

    number: int
    gang: GangKey
    event: str
    same: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries that were not written."""

    number: int
    entries: int


Again: TypeAlias = RunAgain | StepAgain | Gap
_MOST_DIFFERENCES = 100


@dataclass(slots=True)
class _Chapter:
    policy: Policy
    plan: Plan
    snapshot: Snapshot = NOTHING
    cache: PlannerCache = field(default_factory=PlannerCache)
    other_cache: PlannerCache = field(default_factory=PlannerCache)
    states: dict[GangKey, PermitState] = field(default_factory=dict)


def replay(entries: Iterable[Entry], *, instead: Policy | None = None) -> Iterator[Again]:
    """Run every entry again; `instead`: other rules to compare with, at twice the cost. Errors: BadLogError."""
    chapter: _Chapter | None = None
    for number, entry in enumerate(entries):
        match entry:
            case Began(kind, _, policy, current):
                if kind != FORMAT:
                    raise BadLogError(f"this log has format {kind}; this netgang reads {FORMAT}")
                chapter = _Chapter(policy, current)
            case Ran() if chapter is not None:
                yield _run(chapter, entry, number, instead)
            case Stepped() if chapter is not None:
                yield _step(chapter, entry, number)
            case Lost(count):
                yield Gap(number, count)
                chapter = None
            case _:
                raise BadLogError(f"entry {number} belongs to no chapter: the log was cut")


def _run(chapter: _Chapter, entry: Ran, number: int, instead: Policy | None) -> RunAgain:
    try:
        snapshot = applied(chapter.snapshot, entry.change)
    except ValueError as error:
        raise BadLogError(f"entry {number}: {error}") from error
    before = chapter.plan
    made = plan(snapshot, chapter.policy, now_s=entry.at_s, previous=before, cache=chapter.cache)
    differences: tuple[Difference, ...] = ()
    if instead is not None:
        other = plan(snapshot, instead, now_s=entry.at_s, previous=before, cache=chapter.other_cache)
        differences = tuple(islice(_differences(made, other), _MOST_DIFFERENCES))
    chapter.snapshot, chapter.plan = snapshot, made
    same = digest_of(made) == entry.digest
    return RunAgain(number, entry.at_s, same, len(made.admitted), len(made.waiting), differences)


def _differences(was: Plan, other: Plan) -> Iterator[Difference]:
    before, after = _words(was), _words(other)
    for key in sorted(before.keys() | after.keys()):
        one, two = before.get(key, "nothing to decide"), after.get(key, "nothing to decide")
        if one != two:
            yield Difference(key, one, two)


def _words(one: Plan) -> Mapping[GangKey, str]:
    said = {
        key: f"admitted as number {admission.rank} in {', '.join(admission.zones)} on "
        + ", ".join(sorted(set(admission.members.values())))
        for key, admission in one.admitted.items()
    }
    waits = {key: f"waits as number {waiting.rank}: {waiting.reason}" for key, waiting in one.waiting.items()}
    return said | waits


def _step(chapter: _Chapter, entry: Stepped, number: int) -> StepAgain:
    gang = GangKey(entry.gang)
    state = entry.state if entry.state is not None else chapter.states.get(gang)
    if state is None:
        raise BadLogError(f"entry {number} goes on with gang {gang[:128]}, of which nothing stands before")
    after, instructions = handle(state, value_of(entry.event), entry.quorum)
    chapter.states[gang] = after
    same = tuple(tagged(one) for one in instructions) == entry.instructions
    return StepAgain(number, gang, entry.event.kind, same)
