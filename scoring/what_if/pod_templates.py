"""What changes of a gang's pod template do to a situation: tolerations, requests, labels that nodes must have.

Rule: pods that have a node keep what they were made with. What kube-scheduler's own filters refused to the pods is
refused to the changed ones, too: no change here is one of what those filters look at.
"""

from collections.abc import Callable
from dataclasses import replace

from scoring.model import Constraints, MemberClass, NodeSelectorTerm, Resources, Toleration
from scoring.what_if import changes as c
from scoring.what_if.draft import Draft
from scoring.what_if.jobs import gang_of


def tolerate(draft: Draft, change: c.Tolerate) -> None:
    """Add a toleration."""
    added = Toleration(change.key, "Exists")

    def tolerant(member_class: MemberClass) -> MemberClass:
        constraints = member_class.constraints
        wider = replace(constraints, tolerations=(*constraints.tolerations, added))
        return replace(member_class, constraints=wider)

    _change(draft, change, tolerant)


def lower_request(draft: Draft, change: c.LowerRequest) -> None:
    """Ask for less of one resource. Errors: MisfitError when no waiting pod asks for so much, or it is not less."""
    name = change.resource
    asked, to = c.amount_of("asked", name, change.asked), c.amount_of("to", name, change.to)
    if not 0 < to < asked:
        raise c.MisfitError(f"to: {change.to} is not between 0 and {change.asked}")

    def smaller(member_class: MemberClass) -> MemberClass:
        return with_request(member_class, name, asked, to)

    if not _change(draft, change, smaller):
        raise c.MisfitError(f"asked: no waiting pod of {change.gang} asks for {name} {change.asked}")


def ignore_node_label(draft: Draft, change: c.IgnoreNodeLabel) -> None:
    """Ask for one label less. Errors: MisfitError when no waiting pod asks for it."""

    def freer(member_class: MemberClass) -> MemberClass:
        return replace(member_class, constraints=without_label(member_class.constraints, change.key))

    if not _change(draft, change, freer):
        raise c.MisfitError(f"key: no waiting pod of {change.gang} asks for node label {change.key}")


def with_request(member_class: MemberClass, name: str, asked: int, to: int) -> MemberClass:
    """The class with `to` of a resource, if it asks for `asked`; amounts in the resource's own unit."""
    if (name, asked) not in member_class.requests.items:
        return member_class
    requests = Resources.of((one, to if one == name else amount) for one, amount in member_class.requests)
    return replace(member_class, requests=requests)


def without_label(constraints: Constraints, key: str) -> Constraints:
    """The same without a label's key in node selector and affinity; a term that asked for nothing else is met by any.

    >>> without_label(Constraints(node_selector=(("disk", "ssd"), ("gpu", "a100"))), "gpu").node_selector
    (('disk', 'ssd'),)
    """
    selector = tuple(pair for pair in constraints.node_selector if pair[0] != key)
    affinity = constraints.affinity
    if affinity is not None:
        terms = [(term, _without(term, key)) for term in affinity]
        freed = any(after is not before and not (after.expressions or after.fields) for before, after in terms)
        affinity = None if freed else tuple(after for _, after in terms)
    return replace(constraints, node_selector=selector, affinity=affinity)


def _without(term: NodeSelectorTerm, key: str) -> NodeSelectorTerm:
    if all(one.key != key for one in term.expressions):
        return term
    return replace(term, expressions=tuple(one for one in term.expressions if one.key != key))


def _change(
    draft: Draft,
    change: c.Tolerate | c.LowerRequest | c.IgnoreNodeLabel,
    changed: Callable[[MemberClass], MemberClass],
) -> bool:
    """Give the gang's waiting pods their changed class; whether any class differs."""
    gang = gang_of(draft, change.gang)
    before = {pod.member_class for pod in gang.members if pod.node is None}
    after = {one: changed(one) for one in before}
    for one, made in after.items():
        if refused := draft.exclusions.get(one.anywhere):
            draft.exclusions[made.anywhere] = refused | draft.exclusions.get(made.anywhere, frozenset())
    members = tuple(
        pod if pod.node is not None else replace(pod, member_class=after[pod.member_class]) for pod in gang.members
    )
    draft.put_gang(replace(gang, members=members))
    return any(one != made for one, made in after.items())
