"""Suppose changes: a situation and a list of changes make another situation, or the first change that does not fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from scoring.what_if import changes as c
from scoring.what_if.changes import Change, Misfit
from scoring.what_if.draft import Draft, Situation
from scoring.what_if.jobs import add_pods, end_job, mend, remove_pods, resize_job, set_option
from scoring.what_if.nodes import add_capacity, add_nodes, remove_nodes, set_link

MOST_ADVANCE_S: Final = 366 * 86_400.0
"""Farther ahead nothing is known of what happens."""


def apply(base: Situation, changes: Sequence[Change], *, version: int) -> Situation | Misfit:
    """`base` with all changes, one after the other. The same arguments always give the same result.

    `version` stands for what differs (snapshot, node table, links): it must be one that nothing else has with the cache
    that the result is planned with; negative ones are unused. Cost: O(nodes + pods), and O(changes).
    """
    draft = Draft(base)
    for number, change in enumerate(changes):
        misfit = _apply(draft, change, number)
        if misfit is not None:
            return misfit
    return draft.finished(version=version)


def _apply(draft: Draft, change: Change, number: int) -> Misfit | None:
    match change:
        case c.AddCapacity():
            return add_capacity(draft, change, number)
        case c.AddNodes():
            return add_nodes(draft, change, number)
        case c.RemoveNodes():
            return remove_nodes(draft, change, number)
        case c.AddPods():
            return add_pods(draft, change, number)
        case c.RemovePods():
            return remove_pods(draft, change, number)
        case c.JobEnds():
            return end_job(draft, change, number)
        case c.JobShrinks() | c.JobGrows():
            return resize_job(draft, change, number)
        case c.ClockAdvances(to_s):
            if not draft.now_s <= to_s <= draft.now_s + MOST_ADVANCE_S:
                return Misfit(number, "to_s", f"is not between now ({draft.now_s:.0f}) and a year from now")
            draft.now_s = to_s
            return None
        case c.SetLink():
            return set_link(draft, change, number)
        case c.SetOption():
            return set_option(draft, change, number)
        case c.SetShare(namespace, cap):
            if not 0.0 < cap <= 1.0:
                return Misfit(number, "cap", f"{cap:g} is no share between 0 and 1")
            queue = draft.policy.queue
            others = tuple(one for one in queue.share_cap_by_namespace if one[0] != namespace)
            shares = tuple(sorted((*others, (namespace, cap))))
            draft.policy = replace(draft.policy, queue=replace(queue, share_cap_by_namespace=shares))
            return None
        case c.SetPolicy(policy):
            draft.policy = policy
            return None
        case c.OpenGates() | c.MendGroup() | c.ForgetRefusals():
            return mend(draft, change, number)
    assert_never(change)
