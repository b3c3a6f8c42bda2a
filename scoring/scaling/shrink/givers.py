"""In which order jobs give up workers, and which of their workers concern the gang at all.

Rule: lowest priority first, then the lightest, then the job whose highest workers are worth least where they are
(`worth`), then by name. A worker on a node that no member of the gang could go to is no help.
"""

from collections.abc import Sequence
from dataclasses import replace

from scoring.plan import Admission, Run, take_admissions
from scoring.plan.result import Placed
from scoring.plan.steps import Steps
from scoring.scaling.change import Refusal
from scoring.scaling.reasons import No
from scoring.scaling.shrink.eligible import JOBS_A_STEP, Candidate
from scoring.scaling.shrink.trial import Trial
from scoring.scaling.shrink.worth import worth_of

_WORTHS_A_STEP = 4
"""Jobs whose links are looked at between two moments to pause: up to 2 ms each where the network data are new."""


def near_ones(run: Run, trial: Trial, able: Sequence[Candidate]) -> Steps[tuple[list[Candidate], list[Refusal]]]:
    """Each job's steps down to the last worker on a node that concerns the gang; jobs without any are refused."""
    near: list[Candidate] = []
    refused: list[Refusal] = []
    for number, one in enumerate(able, start=1):
        if number % (4 * JOBS_A_STEP) == 0:
            yield
        last = max((n for n, step in enumerate(one.steps, start=1) if trial.concerns(step.pod)), default=0)
        if last:
            near.append(replace(one, steps=one.steps[:last]))
        else:
            refused.append(Refusal(one.job.key, No.ELSEWHERE))
    return near, refused


def in_order(run: Run, ahead: Sequence[Admission], near: Sequence[Candidate], best: Placed) -> Steps[list[Candidate]]:
    """Step 4: which job gives first. Lowest priority, lightest, worth least where it is, name."""
    take_admissions(run, ahead)
    wanted = frozenset(best.nodes.values())
    worths = []
    for number, one in enumerate(near):
        worths.append((worth_of(run, one.gang, one.steps, wanted), one.job.key, number))
        if number % _WORTHS_A_STEP == _WORTHS_A_STEP - 1:
            yield
    ordered = [near[number] for _, _, number in sorted(worths)]
    yield
    ordered.sort(key=lambda one: one.weight, reverse=True)  # a smaller key is a heavier job; equal ones stay in order
    ordered.sort(key=lambda one: one.gang.priority)
    yield
    return ordered
