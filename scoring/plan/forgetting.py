"""Let a memo forget what belongs to gangs that are gone: now and then, and in steps (docs/safety.md S15).

Why in steps: classes of members are found again by their content, and hashing those of a hundred gangs that are gone
takes longer than a planner run may hold the loop. Rule: others may use the memo between two steps. A number that is
asked for meanwhile is noted (`Memo.asked_for`) and stays; what is forgotten too early costs time only.
"""

from collections.abc import Collection, Iterator

from scoring.ids import GangKey
from scoring.plan.memo import Memo

_GONE_AT_LEAST = 64
"""Gangs that may be gone before anything is forgotten"""
_WISHES_A_STEP = 256
_CLASSES_A_STEP = 16


def keep_only(memo: Memo, gangs: Collection[GangKey]) -> Iterator[None]:
    """Forget the other gangs once there are many. Cost: O(known gangs), then; with a moment for others in between.

    Not while another run does it: what is asked for is noted for one alone.
    """
    if len(memo.wishes.known) <= len(gangs) + _GONE_AT_LEAST or memo.asked_for is not None:
        return
    memo.asked_for = asked_for = set[int]()
    try:
        memo.wishes.keep_only(gangs)
        yield
        memo.footprints = {key: known for key, known in memo.footprints.items() if key in gangs}
        yield
        memo.standings.keep_only(gangs)
        yield
        memo.countings = {key: known for key, known in memo.countings.items() if key in gangs}
        yield
        yield from _keep_numbers(memo, asked_for)
    finally:
        memo.asked_for = None


def _keep_numbers(memo: Memo, used: set[int]) -> Iterator[None]:
    """Forget numbers of classes that no demand names any more: an admitted pod is of a class of its own.

    `used` grows by whatever number the memo gives out meanwhile.
    """
    for at, ask in enumerate(tuple(memo.wishes.asks()), start=1):
        for member_class, _ in (*ask.need, *ask.more):
            memo.number(member_class)
        if at % _WISHES_A_STEP == 0:
            yield
    memo.number_of_object = {at: known for at, known in memo.number_of_object.items() if known[1] in used}
    memo.filters = {number: one for number, one in memo.filters.items() if number in used}
    memo.narrowed = {number: wide for number, wide in memo.narrowed.items() if number in used}
    yield
    memo.vectors = {key: vector for key, vector in memo.vectors.items() if isinstance(key, tuple) and key[1] in used}
    yield
    gone = [(one, number) for one, number in memo.numbers.items() if number not in used]
    for begin in range(0, len(gone), _CLASSES_A_STEP):
        for one, number in gone[begin : begin + _CLASSES_A_STEP]:
            if number not in used:  # nor asked for since
                memo.numbers.pop(one, None)
        yield
    named = set(memo.filters.values())
    unnamed = [one for one, number in memo.filter_numbers.items() if number not in named]
    for begin in range(0, len(unnamed), _CLASSES_A_STEP):
        named = set(memo.filters.values())
        for constraints in unnamed[begin : begin + _CLASSES_A_STEP]:
            if memo.filter_numbers.get(constraints) not in named:
                memo.filter_numbers.pop(constraints, None)
        yield
