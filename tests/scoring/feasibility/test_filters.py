"""Where a pod may go: taints, selectors, affinity and host ports as kube-scheduler's in-tree filters have them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.feasibility.filters import allowed_nodes, node_allows, ports_conflict
from scoring.model import Constraints, HostPort, Node, NodeSelectorTerm, Requirement, Taint, Toleration
from scoring.model.snapshot import NodeTable
from tests.builders import node

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
GPU = Taint("gpu", "a100", "NoSchedule")


TAINTS = {  # case: (allowed, taint, tolerations)
    "empty key needs Exists": (False, Taint("", "", "NoSchedule"), (Toleration(),)),
    "unknown operator": (False, GPU, (Toleration("gpu", "Near", "a100"),)),
    "above": (True, Taint("sla", "950", "NoSchedule"), (Toleration("sla", "Gt", "900"),)),
    "not above": (False, Taint("sla", "900", "NoSchedule"), (Toleration("sla", "Gt", "900"),)),
    "below": (True, Taint("sla", "-5", "NoSchedule"), (Toleration("sla", "Lt", "0"),)),
    "not below": (False, Taint("sla", "5", "NoSchedule"), (Toleration("sla", "Lt", "0"),)),
    "above needs numbers": (False, Taint("sla", "high", "NoSchedule"), (Toleration("sla", "Gt", "900"),)),
    "above needs a key": (False, Taint("sla", "950", "NoSchedule"), (Toleration("", "Gt", "900"),)),
}

STATES = {  # case: (allowed, fields of the node, tolerations)
    "cordoned": (False, {"unschedulable": True}, ()),
    "cordoned and tolerated": (True, {"unschedulable": True}, (Toleration(UNSCHEDULABLE, "Exists"),)),
    "not ready": (False, {"ready": False}, (Toleration("", "Exists"),)),
    "leaving": (False, {"leaving": True}, (Toleration("", "Exists"),)),
    "as it should be": (True, {}, ()),
}


def labelled(*requirements: Requirement) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm(expressions=requirements),)


def named(operator: str, *names: str, key: str = "metadata.name") -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm(fields=(Requirement(key, operator, names),)),)


MANY = node("n", labels={"disk": "ssd", "cores": "16", "odd": "1_0", "signed": "-2", "huge": "9223372036854775808"})

AFFINITY = {  # case: (allowed, affinity)
    "Gt": (True, labelled(Requirement("cores", "Gt", ("15",)))),
    "Gt is strict": (False, labelled(Requirement("cores", "Gt", ("16",)))),
    "Lt": (True, labelled(Requirement("cores", "Lt", ("17",)))),
    "Lt is strict": (False, labelled(Requirement("cores", "Lt", ("16",)))),
    "Lt of negative numbers": (True, labelled(Requirement("signed", "Lt", ("-1",)))),
    "Gt, no such label": (False, labelled(Requirement("color", "Gt", ("0",)))),
    "Gt of a word": (False, labelled(Requirement("disk", "Gt", ("0",)))),
    "Gt than a word": (False, labelled(Requirement("cores", "Gt", ("few",)))),
    "Gt than nothing": (False, labelled(Requirement("cores", "Gt"))),
    "Gt than two": (False, labelled(Requirement("cores", "Gt", ("1", "2")))),
    "underscores make no number": (False, labelled(Requirement("odd", "Gt", ("1",)))),
    "beyond int64 is no number": (False, labelled(Requirement("huge", "Gt", ("1",)))),
    "unknown operator": (False, labelled(Requirement("disk", "Like", ("ssd",)))),
    "an empty term matches nothing": (False, (NodeSelectorTerm(),)),
    "an empty term spoils no other": (True, (NodeSelectorTerm(), *labelled(Requirement("disk", "Exists")))),
    "no terms match nothing": (False, ()),
    "two names are no field selector": (False, named("In", "n", "m")),
    "other operators are none either": (False, named("Exists", "n")),
    "no other field exists": (False, named("In", "n", key="metadata.uid")),
    "name and label": (False, (NodeSelectorTerm((Requirement("color", "Exists"),), named("In", "n")[0].fields),)),
}

SELECTORS = {  # case: (allowed, node selector)
    "all labels": (True, (("disk", "ssd"), ("cores", "16"))),
    "one label differs": (False, (("disk", "ssd"), ("cores", "8"))),
    "a label that is not there": (False, (("color", ""),)),
}
CASES = {
    **{f"taint: {case}": (w, node("n", taints=[t]), {"tolerations": of}) for case, (w, t, of) in TAINTS.items()},
    **{case: (w, node("n", **f), {"tolerations": of}) for case, (w, f, of) in STATES.items()},  # type: ignore[arg-type]
    **{f"affinity: {case}": (w, MANY, {"affinity": terms}) for case, (w, terms) in AFFINITY.items()},
    **{f"selector: {case}": (w, MANY, {"node_selector": labels}) for case, (w, labels) in SELECTORS.items()},
}


@pytest.mark.parametrize(("want", "on", "constraints"), CASES.values(), ids=CASES)
def test_node_allows(want: bool, on: Node, constraints: dict[str, object]) -> None:
    """What the comparison with the upstream rules below does not draw, and the edges of numbers.

    A node that cannot run pods takes none, whatever they tolerate (docs/safety.md S12).
    """
    assert want == node_allows(on, Constraints(**constraints))  # type: ignore[arg-type]


# -- an independent restatement of the upstream rules ----------------------------------------------------------


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """core/v1 ToleratesTaint, as its comment says it."""
    effect_matches = toleration.effect in ("", taint.effect)
    key_matches = toleration.key in ("", taint.key)
    equal = toleration.value == taint.value
    return effect_matches and key_matches and {"Exists": True, "Equal": equal, "": equal}[toleration.operator]


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """What labels.Requirement.Matches of apimachinery says, by operator."""
    there, values = requirement.key in labels, set(requirement.values)
    value = labels.get(requirement.key, "")
    number = int(value) if value.lstrip("-").isdigit() else None
    return {
        "In": there and value in values,
        "NotIn": not there or value not in values,
        "Exists": there,
        "DoesNotExist": not there,
        "Gt": number is not None and all(number > int(v) for v in values if requirement.operator == "Gt"),
        "Lt": number is not None and all(number < int(v) for v in values if requirement.operator == "Lt"),
    }[requirement.operator]


def upstream(on: Node, constraints: Constraints) -> bool:
    """NodeUnschedulable, TaintToleration and NodeAffinity one after the other, and docs/safety.md S12 before them."""
    labels = dict(on.labels)
    taints = [t for t in on.taints if t.effect != "PreferNoSchedule"]
    if on.unschedulable:
        taints.append(Taint(UNSCHEDULABLE, "", "NoSchedule"))
    untolerated = [t for t in taints if not any(tolerates(one, t) for one in constraints.tolerations)]
    selected = set(constraints.node_selector) <= set(on.labels)
    terms = [
        [*(holds(r, labels) for r in term.expressions), *(holds(r, {"metadata.name": on.name}) for r in term.fields)]
        for term in constraints.affinity or ()
    ]
    matched = constraints.affinity is None or any(term and all(term) for term in terms)
    return on.ready and not on.leaving and not untolerated and selected and matched


KEYS, VALUES = st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "1", "2", "-3", "x"])
IN_OR_NOT = st.sampled_from(["In", "NotIn"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
SOME_EFFECTS = st.just("") | EFFECTS
TOLERATIONS = st.one_of(
    st.builds(Toleration, KEYS, st.sampled_from(["", "Equal"]), VALUES, SOME_EFFECTS),
    st.builds(Toleration, st.just("") | KEYS, st.just("Exists"), st.just(""), SOME_EFFECTS),
    st.just(Toleration(UNSCHEDULABLE, "Exists")),
)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, IN_OR_NOT, st.lists(VALUES, min_size=1, max_size=3).map(tuple)),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from(["0", "1", "-4"]).map(lambda v: (v,))),
)
FIELDS = st.builds(Requirement, st.just("metadata.name"), IN_OR_NOT, st.sampled_from([("n",), ("m",)]))
TERMS = st.builds(
    NodeSelectorTerm, st.lists(REQUIREMENTS, max_size=3).map(tuple), st.lists(FIELDS, max_size=1).map(tuple)
)
CONSTRAINTS = st.builds(
    Constraints,
    node_selector=st.dictionaries(KEYS, VALUES, max_size=1).map(lambda d: tuple(d.items())),
    affinity=st.one_of(st.none(), st.lists(TERMS, max_size=3).map(tuple)),
    tolerations=st.lists(TOLERATIONS, max_size=3).map(tuple),
)
NODES = st.builds(
    node,
    st.sampled_from("klmnopqrs"),
    labels=st.dictionaries(KEYS, VALUES),
    taints=st.lists(st.builds(Taint, KEYS, VALUES, EFFECTS), max_size=2),
    unschedulable=st.booleans(),
    ready=st.integers(0, 9).map(bool),
    leaving=st.integers(0, 9).map(lambda i: i == 9),
)


@given(st.lists(NODES, max_size=9, unique_by=lambda n: n.name), CONSTRAINTS)
def test_agrees_with_the_upstream_rules(nodes: list[Node], constraints: Constraints) -> None:
    table = NodeTable.from_nodes(nodes)
    allowed = [upstream(on, constraints) for on in table.nodes]
    assert [node_allows(on, constraints) for on in table.nodes] == allowed
    assert allowed_nodes(table, constraints).tolist() == allowed


PORTS = {  # case: (conflict, wanted, taken)
    "same": (True, ("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.1", 80)),
    "other address": (False, ("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.2", 80)),
    "wanted on all addresses": (True, ("TCP", "0.0.0.0", 80), ("TCP", "10.0.0.1", 80)),
    "taken on all addresses": (True, ("TCP", "10.0.0.1", 80), ("TCP", "0.0.0.0", 80)),
    "other protocol": (False, ("UDP", "0.0.0.0", 80), ("TCP", "0.0.0.0", 80)),
    "other port": (False, ("TCP", "0.0.0.0", 80), ("TCP", "0.0.0.0", 81)),
}


@pytest.mark.parametrize(("want", "one", "other"), PORTS.values(), ids=PORTS)
def test_host_ports(want: bool, one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    """Equal protocol and port conflict where the addresses are equal or one is all of them, whoever came first."""
    assert want == ports_conflict([HostPort(*one)], [HostPort("SCTP", "0.0.0.0", 1), HostPort(*other)])
    assert want == ports_conflict([HostPort(*other)], [HostPort(*one)])
