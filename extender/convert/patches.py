"""What we write onto pods, PodGroups and nodes: patches that open a gate, of conditions, a status, a taint.

Of pods and groups each names the uid that was seen: an object that was replaced since is left alone. A strategic merge
patch names the gate, or the condition, and not its place: right whatever others came or went, also twice. Rules of the
API server for gated pods: terms of required node affinity may be added where there were none; else each must stay and
may get more.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from extender.signed_notes import Bearer, NoteKind, Notes
from scoring import NO_ZONE, NodeName, PodUid
from scoring.feasibility.filters import HOSTNAME_LABEL
from scoring.model import GATE, GroupStatus, NodeSelectorTerm, Pod, PodGroup, Requirement
from scoring.network.node_links import DEGRADED_TAINT, NETWORK_DEGRADED, NodeMark
from scoring.queue.states import CONDITION, AdmittedCondition
from scoring.verbs.places import Listing

Fields = dict[str, Any]


def narrowed_terms(before: tuple[NodeSelectorTerm, ...] | None, listing: Listing, *, zone_label: str) -> list[Fields]:
    """`nodeSelectorTerms` after admission; empty: nothing is to be narrowed.

    >>> narrowed_terms(None, Listing(("a",), ("n1",)), zone_label="zone")
    [{'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': ['n1']}]}]
    >>> ssd = NodeSelectorTerm(expressions=(Requirement("ssd", "Exists"),))
    >>> [[e["key"] for e in t["matchExpressions"]] for t in narrowed_terms((ssd,), Listing(("a",)), zone_label="zone")]
    [['ssd', 'zone']]
    """
    if before is None and listing.nodes:
        # One term per node: the field takes one value, and only such terms spare kube-scheduler all other nodes.
        return [{"matchFields": [_line(Requirement("metadata.name", "In", (name,)))]} for name in listing.nodes]
    if listing.hostnames:
        more = Requirement(HOSTNAME_LABEL, "In", listing.hostnames)
    elif not listing.zones or NO_ZONE in listing.zones:  # no label says that a node has no zone
        return []
    else:
        more = Requirement(zone_label, "In", tuple(map(str, listing.zones)))
    if before is None:
        return [_term((more,), ())]
    # An empty term matches no node, and must not begin to match some.
    return [_term((*term.expressions, more), term.fields) if term.expressions or term.fields else {} for term in before]


def admission_patch(pod: Pod, node: NodeName, terms: Sequence[Fields] | msgspec.Raw, *, notes: Notes) -> bytes:
    """The strategic merge patch that admits `pod`, with a note that survives our restart (docs/safety.md S4)."""
    spec: Fields = {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
    if terms:
        required = {"nodeSelectorTerms": terms}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    note = notes.write(NoteKind.ADMITTED, Bearer("v1", "Pod", pod.namespace, pod.name, pod.uid), node)
    metadata = {"uid": pod.uid, "annotations": {NoteKind.ADMITTED.value: note}}
    return msgspec.json.encode({"metadata": metadata, "spec": spec})


def _term(expressions: Sequence[Requirement], fields: Sequence[Requirement]) -> Fields:
    named = {"matchFields": list(map(_line, fields))} if fields else {}
    return {"matchExpressions": list(map(_line, expressions)), **named}


def _line(line: Requirement) -> Fields:
    return {"key": line.key, "operator": line.operator} | ({"values": list(line.values)} if line.values else {})


def condition_patch(uid: PodUid, wanted: AdmittedCondition, *, at: str) -> bytes:
    """The strategic merge patch of our condition alone; `at`: since when its status is so; empty: as before."""
    condition = {"type": CONDITION, "status": wanted.status, "reason": wanted.reason, "message": wanted.message}
    condition |= {"lastTransitionTime": at} if at else {}
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})


def mark_patch(mark: NodeMark, *, reason: str, message: str) -> bytes:
    """The strategic merge patch of our condition on a node alone."""
    at = f"{datetime.fromtimestamp(mark.since_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    condition = {"type": NETWORK_DEGRADED, "status": str(mark.degraded), "reason": reason, "message": message}
    condition |= {"lastTransitionTime": at, "lastHeartbeatTime": at}
    return msgspec.json.encode({"status": {"conditions": [condition]}})


def taints_patch(node: Mapping[str, Any], effect: str | None) -> Fields | None:
    """A merge patch for our taint to have this effect, `None`: to go; of the node as it was read. `None`: it is so.

    It names the version that was read, because a list of taints is replaced as a whole.
    """
    taints = (node.get("spec") or {}).get("taints") or []
    wanted = [taint for taint in taints if taint.get("key") != DEGRADED_TAINT]
    wanted += [{"key": DEGRADED_TAINT, "effect": effect}] if effect is not None else []
    if wanted == taints:
        return None
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": wanted}}


STATUS_FIELDS = frozenset(GroupStatus.__struct_fields__)
_JSON_NAMES: Mapping[str, str] = {"occupied_by": "occupiedBy", "schedule_start_s": "scheduleStartTime"}


def status_patch(seen: PodGroup, wanted: GroupStatus, *, only: frozenset[str]) -> bytes | None:
    """A merge patch that makes the fields `only` (names of `GroupStatus`) as wanted; `None`: they are so already.

    It names the version that was seen, too: a PodGroup that changed since is left alone.
    """
    now, then = msgspec.structs.asdict(seen.status), msgspec.structs.asdict(wanted)
    names = [name for name in then if name in only and now[name] != then[name]]
    if not names:
        return None
    start_s = wanted.schedule_start_s
    start = None if start_s is None else f"{datetime.fromtimestamp(start_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    then |= {"phase": wanted.phase or None, "occupied_by": wanted.occupied_by or None, "schedule_start_s": start}
    metadata = {"uid": seen.uid, "resourceVersion": seen.resource_version}
    changed = {_JSON_NAMES.get(name, name): then[name] for name in names}  # None: to be removed
    return msgspec.json.encode({"metadata": metadata, "status": changed})
