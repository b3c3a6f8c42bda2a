"""What judges: placements that were seen → passed or missed, in one run and in all of them.

Rule: pure. A verdict over several runs holds only if they agree; else it says how many passed.
"""

from collections.abc import Mapping, Sequence

from bench.exam.scenarios import Scenario

Placed = Mapping[str, Sequence[str]]
"""job → the node of each of its pods that is bound"""


def first_miss(scenario: Scenario, seen: Sequence[Placed]) -> str | None:
    """The first expectation that does not hold, in words; `None`: passed. `seen` has one entry for each step.

    ValueError if steps are missing.
    """
    for number, (step, placed) in enumerate(zip(scenario.steps, seen, strict=True), start=1):
        for expected in step.expected:
            nodes = placed.get(expected.job, ())
            if len(nodes) != expected.bound:
                return f"step {number}: {len(nodes)} pods of {expected.job} bound, expected {expected.bound}"
            if expected.nodes is not None and set(nodes) != expected.nodes:
                return f"step {number}: {expected.job} on {', '.join(sorted(set(nodes)))}"
    return None


def verdict(misses: Sequence[str | None]) -> str:
    """What several runs say together.

    >>> verdict([None, None]), verdict(["step 1: …"]), verdict([None, None, "step 1: …"])
    ('passed', 'missed', '2 of 3')
    """
    passed = sum(one is None for one in misses)
    if misses and passed == len(misses):
        return "passed"
    return f"{passed} of {len(misses)}" if passed else "missed"
