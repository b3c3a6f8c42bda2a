"""The patch that lets a pod through its gate: gate away, affinity narrowed, admission noted (docs/safety.md S6).

A strategic merge patch names the gate instead of its place in the list: right whatever other gates came or went, and
sending it twice is sending it once. Rules of the API server for gated pods: terms of required node affinity may be
added where there were none; where there are, each must stay and may only get more. A wrong uid is refused.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from extender.notes import Bearer, NoteKind, Notes
from scoring.feasibility.filters import HOSTNAME_LABEL
from scoring.ids import NO_ZONE, NodeName
from scoring.model import GATE, NodeSelectorTerm, Pod, Requirement
from scoring.verbs.places import Listing

Json = dict[str, Any]


def narrowed_terms(before: tuple[NodeSelectorTerm, ...] | None, listing: Listing, *, zone_label: str) -> list[Json]:
    """`nodeSelectorTerms` after admission; empty: nothing is to be narrowed.

    >>> narrowed_terms(None, Listing(("a",), ("n1",)), zone_label="zone")
    [{'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': ['n1']}]}]
    >>> narrowed_terms(None, Listing(("a", "b")), zone_label="zone")
    [{'matchExpressions': [{'key': 'zone', 'operator': 'In', 'values': ['a', 'b']}]}]
    >>> ssd = NodeSelectorTerm(expressions=(Requirement("ssd", "Exists"),))
    >>> [[e["key"] for e in t["matchExpressions"]] for t in narrowed_terms((ssd,), Listing(("a",)), zone_label="zone")]
    [['ssd', 'zone']]
    """
    if before is None and listing.nodes:
        # One term per node: the field takes one value, and only such terms spare kube-scheduler all other nodes.
        return [{"matchFields": [_line(Requirement("metadata.name", "In", (name,)))]} for name in listing.nodes]
    more = _requirement(listing, zone_label)
    if more is None:
        return []
    if before is None:
        return [_term((more,), ())]
    # An empty term matches no node, and must not begin to match some.
    return [_term((*term.expressions, more), term.fields) if term.expressions or term.fields else {} for term in before]


def admission_patch(pod: Pod, node: NodeName, terms: Sequence[Json] | msgspec.Raw, *, notes: Notes) -> bytes:
    """The strategic merge patch that admits `pod`, with a note that survives our restart (docs/safety.md S4)."""
    spec: Json = {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
    if terms:
        required = {"nodeSelectorTerms": terms}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    note = notes.write(NoteKind.ADMITTED, Bearer("v1", "Pod", pod.namespace, pod.name, pod.uid), node)
    metadata = {"uid": pod.uid, "annotations": {NoteKind.ADMITTED.value: note}}
    return msgspec.json.encode({"metadata": metadata, "spec": spec})


def _requirement(listing: Listing, zone_label: str) -> Requirement | None:
    """What is ANDed into each term; `None`: nodes without a zone are among the zones, and no label says that."""
    if listing.hostnames:
        return Requirement(HOSTNAME_LABEL, "In", listing.hostnames)
    if not listing.zones or NO_ZONE in listing.zones:
        return None
    return Requirement(zone_label, "In", tuple(str(zone) for zone in listing.zones))


def _term(expressions: Sequence[Requirement], fields: Sequence[Requirement]) -> Json:
    term: Json = {"matchExpressions": [_line(one) for one in expressions]}
    if fields:
        term["matchFields"] = [_line(one) for one in fields]
    return term


def _line(one: Requirement) -> Json:
    line: Json = {"key": one.key, "operator": one.operator}
    if one.values:
        line["values"] = list(one.values)
    return line
