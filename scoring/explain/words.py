"""Amounts, times and changes in words for people."""

from collections.abc import Iterable, Mapping, Sequence

from scoring.ids import ResourceName, ZoneName
from scoring.model import Resources
from scoring.model.devices import IMPLICIT_PREFIX
from scoring.model.resources import CPU, MEMORY, PODS
from scoring.what_if import changes as c
from scoring.what_if.changes import Change

_BINARY: Mapping[str, int] = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}  # suffix → factor, the largest first
_NAMED = 3
_SHOWN_CHARS = 80


def request_text(request: Resources) -> str:
    """A pod's request as its owner would write it; the place in the node's list of pods is not asked for.

    >>> request_text(Resources.parse({"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 1, "pods": 1}))
    'cpu 1500m, memory 2Gi, nvidia.com/gpu 1'
    >>> request_text(Resources.parse({"cpu": 2, "memory": 1000}))
    'cpu 2, memory 1000'
    """
    return ", ".join(f"{resource_text(name)} {quantity(name, amount)}" for name, amount in request if name != PODS)


def resource_text(name: str) -> str:
    """A resource's name; devices that are no extended resource are named by their DeviceClass.

    >>> resource_text("nvidia.com/gpu"), resource_text("deviceclass.resource.kubernetes.io/gpu.example.com")
    ('nvidia.com/gpu', 'devices of class gpu.example.com')
    """
    return f"devices of class {name.removeprefix(IMPLICIT_PREFIX)}" if name.startswith(IMPLICIT_PREFIX) else name


def quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it.

    >>> quantity("cpu", 500), quantity("memory", 3 * 2**30), quantity("nvidia.com/gpu", 2)
    ('500m', '3Gi', '2')
    """
    if name == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name == MEMORY or amount >= _BINARY["Mi"]:
        for suffix, factor in _BINARY.items():
            if amount and amount % factor == 0:
                return f"{amount // factor}{suffix}"
    return str(amount)


def zone_text(zone: ZoneName) -> str:
    """A zone's name.

    >>> zone_text(ZoneName("a")), zone_text(ZoneName(""))
    ('zone a', 'the nodes without a zone')
    """
    return f"zone {zone}" if zone else "the nodes without a zone"


def duration_text(time_s: float) -> str:
    """A time, rounded up where it is short.

    >>> [duration_text(s) for s in (0.2, 59.0, 240.0, 3700.0, 200_000.0)]
    ['1 s', '59 s', '4 min', '1 h 1 min', '2 d 7 h']
    """
    whole = max(int(time_s + 0.999), 1)
    if whole < 120:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def some(names: Iterable[str], most: int = _NAMED) -> str:
    """The first names, and how many more.

    >>> some(["a", "b"]), some("abcd", 2), some([])
    ('a, b', 'a, b and 2 more', '')
    """
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")


def gangs_seen_from(namespace: str, gangs: Iterable[str], most: int = _NAMED) -> str:
    """Gangs by name for people of `namespace`; those of other namespaces are counted, as their names are not theirs.

    >>> gangs_seen_from("a", ["a/x", "b/y"]), gangs_seen_from("a", ["b/y", "c/z"])
    ("a/x and another namespace's gang", '2 gangs of other namespaces')
    """
    listed = list(gangs)
    own = [gang for gang in listed if gang.partition("/")[0] == namespace]
    others = len(listed) - len(own)
    counted_others = "another namespace's gang" if others == 1 else f"{others} gangs of other namespaces"
    return " and ".join(part for part in (some(own, most), counted_others if others else "") if part)


def shown(text: str) -> str:
    """At most so much of what a tenant wrote.

    >>> shown("a label"), len(shown("x" * 1000))
    ('a label', 80)
    """
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def counted(count: int, what: str) -> str:
    """One of them, or several.

    >>> counted(1, "pod"), counted(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def changes_text(changes: Sequence[Change], *, now_s: float) -> str:
    """All changes in one sentence's worth of words; room of one zone is added up per resource.

    >>> changes_text([c.JobEnds("team/a"), c.ClockAdvances(300.0)], now_s=60.0)
    'job team/a ends, and 4 min pass'
    """
    parts: list[str] = []
    room: dict[tuple[ZoneName, ResourceName], list[c.AddCapacity]] = {}
    for change in changes:
        if isinstance(change, c.AddCapacity):
            room.setdefault((change.zone, change.resource), []).append(change)
        else:
            parts.append(change_text(change, now_s=now_s))
    parts[:0] = [_more_room(zone, resource, every) for (zone, resource), every in room.items()]
    return f"{', '.join(parts[:-1])}, and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def change_text(change: Change, *, now_s: float) -> str:
    """One change.

    >>> change_text(c.AddCapacity(ZoneName("D"), ResourceName("nvidia.com/gpu"), 2, {"d1": 2}), now_s=0.0)
    '2 more nvidia.com/gpu in zone D (on d1)'
    >>> change_text(c.AddNodes(ZoneName("a"), 2, {"cpu": 4}), now_s=0.0)
    '2 more nodes with cpu 4 in zone a'
    """
    match change:
        case c.AddCapacity(zone, resource):
            return _more_room(zone, resource, [change])
        case c.AddNodes(zone, count, allocatable, like):
            what = f" with {request_text(Resources.parse(allocatable))}" if allocatable else ""
            kind = f" like {like}" if like is not None else ""
            return f"{count} more {'node' if count == 1 else 'nodes'}{what}{kind} in {zone_text(zone)}"
        case c.RemoveNodes(nodes):
            return f"{'node' if len(nodes) == 1 else 'nodes'} {some(nodes)} gone"
        case c.CordonNodes(nodes):
            return f"{'node' if len(nodes) == 1 else 'nodes'} {some(nodes)} cordoned"
        case c.UncordonNodes(nodes):
            return f"{'node' if len(nodes) == 1 else 'nodes'} {some(nodes)} uncordoned"
        case c.TaintNodes(nodes, key, effect, value):
            taint = f"{key}{f'={value}' if value else ''}:{effect}"
            return f"{'node' if len(nodes) == 1 else 'nodes'} {some(nodes)} tainted {taint}"
        case c.UntaintNodes(nodes, key, effect):
            taint = f"{key}{f':{effect}' if effect else ''}"
            return f"{'node' if len(nodes) == 1 else 'nodes'} {some(nodes)} without taint {taint}"
        case c.AddJob(pods):
            return f"a job of {counted(sum(one.count for one in pods), 'pod')} is submitted"
        case c.AddPods(namespace, name, count, gang, _, requests, node):
            what = f" with {request_text(Resources.parse(requests))}" if requests else ""
            whose = f" of {namespace}/{gang}" if gang is not None else f" {namespace}/{name}"
            return f"{count} more {'pod' if count == 1 else 'pods'}{whose}{what}{f' on {node}' if node else ''}"
        case c.RemovePods(pods):
            return f"{'pod' if len(pods) == 1 else 'pods'} {some(pods)} gone"
        case c.JobEnds(job):
            return f"job {job} ends"
        case c.JobShrinks(job, by):
            return f"job {job} shrinks by {by}"
        case c.JobGrows(job, by):
            return f"job {job} grows by {by}"
        case c.ClockAdvances():
            return f"{duration_text(change.moment_s(now_s) - now_s)} pass"
        case c.SetLink(source, target, metric, value):
            return f"{metric.value} from {source} to {target} is {value:g}"
        case c.SetOption(gang, _, value):
            said = "loses annotation" if value is None else "has annotation"
            return f"{gang} {said} netgang.io/{change.option}{'' if value is None else f'={value}'}"
        case c.SetShare(namespace, cap):
            return f"namespace {namespace} may have {cap:.3g} of the cluster"
        case c.SetSettings():
            return "the settings are others"
        case c.Tolerate(gang, key):
            return f"the pods of {gang} tolerate taint {key}"
        case c.LowerRequest(gang, resource, asked, to):
            before, after = (quantity(resource, c.amount_of("amount", resource, one)) for one in (asked, to))
            return f"the pods of {gang} ask for {resource} {after} instead of {before}"
        case c.IgnoreNodeLabel(gang, key):
            return f"the pods of {gang} do not ask for node label {shown(key)}"
        case c.OpenGates(gang):
            return f"the other scheduling gates of {gang}'s pods are removed"
        case c.MendGroup(gang):
            return f"what contradicts itself in {gang}'s pods is put right"
        case c.ForgetRefusals(gang):
            return f"kube-scheduler's own filters accept the nodes for {gang} again"


def _more_room(zone: ZoneName, resource: ResourceName, every: Sequence[c.AddCapacity]) -> str:
    total = sum(c.amount_of("amount", resource, one.amount) for one in every)
    nodes = sorted({node for one in every for node in one.nodes})
    where = f" (on {some(nodes)})" if nodes else ""
    what = "places for pods" if resource == PODS else resource_text(resource)
    return f"{quantity(resource, total)} more {what} in {zone_text(zone)}{where}"
