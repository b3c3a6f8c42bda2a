"""Changes, and what they would make of the plan.

Rule: a change is written as `POST /v1/what-if` reads it, so what an explanation suggests can be sent as it is; amounts
are Kubernetes quantities, exactly.
"""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from extender.api.schemas import what_if as schema
from scoring.explain.words import changes_text, quantity
from scoring.model.resources import Resources
from scoring.what_if import changes as c
from scoring.what_if.changes import Change
from scoring.what_if.difference import Fate, Supposed, Turned

Document = dict[str, Any]


def change_document(change: Change) -> Document:
    """One change. ValueError: another policy has no such form; the settings it came from have."""
    match change:
        case c.AddCapacity(zone, resource, amount, nodes):
            given = {node: quantity(resource, part) for node, part in nodes}
            body: Document = {"zone": zone, "resource": resource, "amount": quantity(resource, amount), "nodes": given}
            return {"change": "add-capacity", **body}
        case c.AddNodes(zone, count, allocatable, like, labels):
            body = {"zone": zone, "count": count, "allocatable": resources_document(allocatable)}
            return {"change": "add-nodes", **body, "like": like, "labels": dict(labels)}
        case c.RemoveNodes(nodes):
            return {"change": "remove-nodes", "nodes": list(nodes)}
        case c.AddPods(namespace, name, count, gang, min_available, requests, node, priority):
            body = {"namespace": namespace, "name": name, "count": count, "gang": gang, "min_available": min_available}
            more = {"requests": resources_document(requests), "node": node, "priority": priority}
            return {"change": "add-pods", **body, **more}
        case c.RemovePods(pods):
            return {"change": "remove-pods", "pods": list(pods)}
        case c.JobEnds(job):
            return {"change": "end-job", "job": job}
        case c.JobShrinks(job, by):
            return {"change": "shrink-job", "job": job, "by": by}
        case c.JobGrows(job, by):
            return {"change": "grow-job", "job": job, "by": by}
        case c.ClockAdvances(to_s):
            return {"change": "advance-clock", "to_s": to_s}
        case c.SetLink(source, target, metric, value):
            return {"change": "set-link", "source": source, "target": target, "metric": metric.value, "value": value}
        case c.SetOption(gang, name, value):
            return {"change": "set-annotation", "gang": gang, "name": name, "value": value}
        case c.SetShare(namespace, cap):
            return {"change": "set-share", "namespace": namespace, "cap": cap}
        case c.OpenGates(gang):
            return {"change": "open-gates", "gang": gang}
        case c.MendGroup(gang):
            return {"change": "mend-group", "gang": gang}
        case c.ForgetRefusals(gang):
            return {"change": "forget-refusals", "gang": gang}
        case c.SetPolicy():
            raise ValueError("a policy is not written as a change; its settings are")
    assert_never(change)


def resources_document(amounts: Resources) -> Mapping[str, str]:
    """Amounts as quantities.

    >>> resources_document(Resources.parse({"cpu": "1500m", "memory": "1Gi"}))
    {'cpu': '1500m', 'memory': '1Gi'}
    """
    return {name: quantity(name, amount) for name, amount in amounts}


def supposed_document(supposed: Supposed, changes: tuple[Change, ...], *, now_s: float) -> schema.Supposed:
    """What the changes would make of the plan."""
    found = supposed.difference
    return schema.Supposed(
        said=changes_text(changes, now_s=now_s),
        at_s=supposed.situation.now_s,
        gangs={"admitted": len(supposed.plan.admitted), "waiting": len(supposed.plan.waiting)},
        admitted=_turned(found.admitted),
        refused=_turned(found.refused),
        moved=_turned(found.moved),
        other=_turned(found.other),
    )


def _turned(gangs: Iterable[Turned]) -> tuple[schema.Turned, ...]:
    return tuple(schema.Turned(gang=one.gang, before=_fate(one.before), after=_fate(one.after)) for one in gangs)


def _fate(one: Fate) -> schema.Fate:
    return schema.Fate(
        state=one.standing.value,
        rank=one.rank,
        zone=",".join(one.zones) if one.zones else None,
        members=dict(one.members) if one.members is not None else {},
        code=one.reason.name if one.reason is not None else None,
        reason=str(one.reason) if one.reason is not None else None,
        detail=one.detail,
    )
