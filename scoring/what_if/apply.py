"""Suppose changes: a situation and a list of changes make another situation, unless one of them does not fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from scoring.what_if import changes as c
from scoring.what_if.changes import Change, MisfitError
from scoring.what_if.draft import Draft, Situation
from scoring.what_if.jobs import add_pods, end_job, mend, remove_pods, resize_job, set_option
from scoring.what_if.nodes import add_capacity, add_nodes, remove_nodes, set_link

MOST_ADVANCE_S: Final = 366 * 86_400.0
"""Farther ahead nothing is known of what happens."""


def apply(base: Situation, changes: Sequence[Change], *, version: int) -> Situation:
    """`base` with all changes, one after the other. The same arguments always give the same result.

    `version` stands for what differs (snapshot, node table, links): it must be one that nothing else has with the memo
    that the result is planned with; negative ones are unused. Errors: MisfitError names the first change that does not
    fit the cluster, and its field, as `changes.2.zone: …`. Cost: O(nodes + pods), and O(changes).
    """
    draft = Draft(base)
    for number, change in enumerate(changes):
        try:
            _apply(draft, change)
        except MisfitError as error:
            raise MisfitError(f"changes.{number}.{error}") from error
    return draft.finished(version=version)


def _apply(draft: Draft, change: Change) -> None:
    match change:
        case c.AddCapacity():
            add_capacity(draft, change)
        case c.AddNodes():
            add_nodes(draft, change)
        case c.RemoveNodes():
            remove_nodes(draft, change)
        case c.AddPods():
            add_pods(draft, change)
        case c.RemovePods():
            remove_pods(draft, change)
        case c.JobEnds():
            end_job(draft, change)
        case c.JobShrinks() | c.JobGrows():
            resize_job(draft, change)
        case c.ClockAdvances():
            to_s = change.moment_s(draft.base.now_s)
            if not draft.now_s <= to_s <= draft.now_s + MOST_ADVANCE_S:
                raise MisfitError(f"to_s: is not between now ({draft.now_s:.0f}) and a year from now")
            draft.now_s = to_s
        case c.SetLink():
            set_link(draft, change)
        case c.SetOption():
            set_option(draft, change)
        case c.SetShare(namespace, cap):
            queue = draft.policy.queue
            others = tuple(one for one in queue.share_cap_by_namespace if one[0] != namespace)
            shares = tuple(sorted((*others, (namespace, cap))))
            draft.policy = replace(draft.policy, queue=replace(queue, share_cap_by_namespace=shares))
        case c.SetSettings(settings):
            draft.policy = draft.base.policy_with(settings)
        case c.OpenGates() | c.MendGroup() | c.ForgetRefusals():
            mend(draft, change)
        case _:  # pragma: no cover
            assert_never(change)
