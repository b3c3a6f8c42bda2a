"""What happens in a cluster, as kube-scheduler's queue sees it, and which refused pods that may help.

Modelled from kube-scheduler 1.36: a refused pod is tried again when an event comes in which one of the plugins that
refused it is interested (queueing hints). Rules: a refusal by an extender is helped by anything at all, the pod's own
status included; in-tree filters are helped by what their hints accept; our constraints filter stands for NodeAffinity,
TaintToleration and NodeUnschedulable together.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

from scoring.feasibility.filters import node_allows
from scoring.model import Node, Pod
from scoring.model.resources import Resources


class Plugin(StrEnum):
    """What refused a pod."""

    EXTENDER = "Extender"
    FIT = "NodeResourcesFit"
    CONSTRAINTS = "NodeAffinity, TaintToleration, NodeUnschedulable"
    PORTS = "NodePorts"
    GATES = "SchedulingGates"
    GANG = "Coscheduling"


class Event(Enum):
    """What happened; those of a pod itself concern no other."""

    POD_BOUND = "AssignedPodAdd"
    POD_CHANGED = "AssignedPodUpdate"
    """Any change of a pod that is on a node, its status included."""
    POD_GONE = "AssignedPodDelete"
    """Deleted or ended, or a place that was only assumed is given back."""
    NODE_ADDED = "NodeAdd"
    NODE_CHANGED = "NodeUpdate"
    """Of what decides; heartbeats are none."""
    NODE_GONE = "NodeDelete"
    ITSELF_CHANGED = "UnscheduledPodUpdate"
    GATE_GONE = "PodSchedulingGatesEliminated"
    WAITED_LONG = "UnschedulableTimeout"
    ACTIVATED = "ForceActivate"


@dataclass(frozen=True, slots=True)
class Happened:
    """One event; nodes as they are after and before it."""

    event: Event
    node: Node | None = None
    before: Node | None = None


_ALWAYS = frozenset({Event.WAITED_LONG, Event.ACTIVATED})
_INTERESTING: dict[Plugin, frozenset[Event]] = {
    # plugin → events that it looks at; the extender is missing because it looks at all
    Plugin.FIT: frozenset({Event.POD_GONE, Event.NODE_ADDED, Event.NODE_CHANGED}),
    Plugin.CONSTRAINTS: frozenset({Event.NODE_ADDED, Event.NODE_CHANGED}),
    Plugin.PORTS: frozenset({Event.POD_GONE, Event.NODE_ADDED}),
    Plugin.GATES: frozenset({Event.GATE_GONE}),
    Plugin.GANG: frozenset({Event.POD_GONE, Event.NODE_ADDED, Event.NODE_CHANGED}),
}


def may_help(happened: Happened, pod: Pod, refused_by: frozenset[Plugin]) -> bool:
    """Whether a pod that these refused is worth another try after this."""
    return happened.event in _ALWAYS or any(_hint(happened, pod, one) for one in sorted(refused_by))


def concerns(happened: Happened, refused_by: frozenset[Plugin]) -> bool:
    """Whether `may_help` can be true for any pod that exactly these refused; cheap, to skip thousands at once."""
    return (
        happened.event in _ALWAYS
        or Plugin.EXTENDER in refused_by
        or any(happened.event in _INTERESTING[one] for one in refused_by)
    )


def _hint(happened: Happened, pod: Pod, plugin: Plugin) -> bool:
    if plugin is Plugin.EXTENDER:
        return True
    if happened.event not in _INTERESTING[plugin]:
        return False
    if happened.node is None:
        return True
    if plugin is Plugin.FIT:
        return _fits_now(happened.node, happened.before, pod.requests)
    if plugin is Plugin.CONSTRAINTS:
        limits = pod.member_class.constraints
        was_allowed = happened.before is not None and node_allows(happened.before, limits)
        return node_allows(happened.node, limits) and not was_allowed
    return True


def _fits_now(node: Node, before: Node | None, requests: Resources) -> bool:
    """Whether the node, empty, holds the pod, and has become larger in something that the pod asks for."""
    has = dict(node.allocatable)
    if any(has.get(name, 0) < amount for name, amount in requests):
        return False
    if before is None:
        return True
    had = dict(before.allocatable)
    return any(has[name] > had.get(name, 0) for name, _ in requests)
