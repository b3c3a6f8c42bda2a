"""What judges: placements that were seen → passed or missed, in one run and in all of them.

Rule: pure. A verdict over several runs holds only if they agree; else it says how many passed.
"""

from collections.abc import Mapping, Sequence

from lab.bench.exam.questions import Scenario, Step

Placed = Mapping[str, Sequence[str]]
"""job → the node of each of its pods that is bound"""


def first_miss(scenario: Scenario, seen: Sequence[Placed]) -> str | None:
    """The first expectation that does not hold, in words; `None`: passed. `seen` has one entry for each step.

    ValueError if steps are missing, unless one of those that are there was missed.
    """
    for number, placed in enumerate(seen):
        if (miss := step_miss(scenario, number, placed)) is not None:
            return miss
    if len(seen) < len(scenario.steps):
        raise ValueError(f"{len(seen)} steps were seen, {scenario.name} has {len(scenario.steps)}")
    return None


def step_miss(scenario: Scenario, number: int, placed: Placed) -> str | None:
    """The first expectation of step `number` (from 0) that does not hold, in words; `None`: all hold."""
    step, words = scenario.steps[number], f"step {number + 1}"
    for expected in step.expected:
        nodes = placed.get(expected.job, ())
        if len(nodes) != expected.bound:
            return f"{words}: {len(nodes)} pods of {expected.job} bound, expected {expected.bound}"
        if expected.nodes is not None and set(nodes) != expected.nodes:
            return f"{words}: {expected.job} on {', '.join(sorted(set(nodes)))}"
    return None


def lacks_pods(step: Step, counts: Mapping[str, int]) -> bool:
    """Whether fewer pods of a job are bound (job → pods) than a step expects: waiting may help, not so with more."""
    return any(counts.get(one.job, 0) < one.bound for one in step.expected)


def verdict(misses: Sequence[str | None]) -> str:
    """What several runs say together.

    >>> verdict([None, None]), verdict(["step 1: …"]), verdict([None, None, "step 1: …"])
    ('passed', 'missed', '2 of 3')
    """
    passed = sum(one is None for one in misses)
    if misses and passed == len(misses):
        return "passed"
    return f"{passed} of {len(misses)}" if passed else "missed"
