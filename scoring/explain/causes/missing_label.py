"""Find the line of a nodeSelector or node affinity that no node meets, and what was probably meant.

A tenant's lines are looked at one by one, the first few only. Cost: O(nodes) a line.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scoring.explain.words import shown
from scoring.feasibility.filters import node_allows
from scoring.ids import NodeName, ZoneName
from scoring.model import Constraints, Node, NodeSelectorTerm, Requirement, Resources
from scoring.model.nearest import LIKE_VALUE, nearest
from scoring.plan import Run

_MOST_LINES: Final = 16  # Lines of selectors and affinity that are looked at
_MOST_KNOWN: Final = 200  # Values that one may have meant


@dataclass(frozen=True, slots=True)
class MissingLabel:
    """A line of nodeSelector or node affinity that no node meets."""

    line: str  # As `key=value`, or `key In (a, b)`
    meant: str  # What is probably meant, as `key=value`; empty: nothing is near
    known: tuple[str, ...]  # The key's values on the nodes, the first few


def missing_label(run: Run, constraints: Constraints, rows: Iterable[int]) -> MissingLabel | None:
    """The first line that none of `rows` meets; `None`: each line is met by some node, or nothing is asked.

    Terms of an affinity are alternatives: one of them that nodes meet is enough.
    """
    nodes = [run.table.nodes[row] for row in rows]
    for key, value in constraints.node_selector[:_MOST_LINES]:
        values = _values(nodes, key)
        if value not in values:
            return _missing(f"{key}={value}", key, (value,), values, nodes)
    first: MissingLabel | None = None
    for term in (constraints.affinity or ())[:_MOST_LINES]:
        missing = _missing_in(term, nodes)
        if missing is None:
            return None
        first = first or missing
    return first


def _missing_in(term: NodeSelectorTerm, nodes: Sequence[Node]) -> MissingLabel | None:
    for one in term.expressions[:_MOST_LINES]:
        values = _values(nodes, one.key)
        alone = Constraints(affinity=(NodeSelectorTerm((one,)),))
        met = (one.operator in ("NotIn", "DoesNotExist") and len(values) < len(nodes)) or any(
            node_allows(_labelled(one.key, value), alone) for value in values
        )
        if not met:
            return _missing(_line(one), one.key, one.values, values, nodes)
    for one in term.fields[:_MOST_LINES]:
        if one.operator == "In" and not any(node.name in one.values for node in nodes):
            names = {str(node.name): 1 for node in nodes[:_MOST_KNOWN]}
            return MissingLabel(_line(one), _near(one.values[0], names) if one.values else "", ())
    return None


def _values(nodes: Sequence[Node], key: str) -> dict[str, int]:
    """The label's values, and how many nodes have each."""
    found: dict[str, int] = {}
    for node in nodes:
        for name, value in node.labels:
            if name == key:
                found[value] = found.get(value, 0) + 1
    return found


def _missing(
    line: str, key: str, asked: Sequence[str], values: Mapping[str, int], nodes: Sequence[Node]
) -> MissingLabel:
    listed = sorted(values)[:_MOST_KNOWN]
    meant = _near(asked[0], listed) if asked and values else ""
    if meant:
        meant = f"{key}={meant}"
    elif not values:
        meant = _near(key, sorted({name for node in nodes[:_MOST_KNOWN] for name, _ in node.labels})[:_MOST_KNOWN])
    return MissingLabel(shown(line), meant, tuple(f"{key}={value}" for value in listed))


def _near(word: str, known: Iterable[str]) -> str:
    return nearest(word, known, like=LIKE_VALUE) or ""


def _line(one: Requirement) -> str:
    values = f" ({', '.join(one.values)})" if one.values else ""
    return shown(f"{one.key} {one.operator}{values}")


def _labelled(key: str, value: str) -> Node:
    return Node(NodeName("any"), ZoneName(""), Resources(), ((key, value),), ())
