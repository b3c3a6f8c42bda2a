"""Causes among kube-scheduler's own filters: what netgang does not model, and a start that lapsed because of it.

Rule: kube-scheduler's words are shown as it said them, bounded, for they name the volume or the pod that netgang does
not know.
"""

from collections.abc import Mapping
from typing import Final

from scoring.explain.causes.reasons import Cause, CauseReason
from scoring.explain.words import counted, duration_text, shown
from scoring.ids import PodUid
from scoring.model import Reason
from scoring.model.nearest import LIKE_VALUE, nearest
from scoring.model.pod import DEVICE_CLAIMS
from scoring.plan import Run
from scoring.plan.demand import GangDemand
from scoring.queue.admitted_condition import camel_case

NO_REFUSALS: Final[Mapping[PodUid, str]] = {}
WORDS_CHARS: Final = 300  # Of kube-scheduler's message
_SPREADS: Final = ("podAntiAffinity", "topologySpreadConstraints")


def scheduler_words(ask: GangDemand, refusals: Mapping[PodUid, str]) -> tuple[tuple[str, int], ...]:
    """What kube-scheduler's FailedScheduling says of the pods that wait, and of how many, the most frequent first."""
    found: dict[str, int] = {}
    for pod in ask.gang.pending:
        words = refusals.get(pod.uid) or pod.refusal
        if words:
            found[words[:WORDS_CHARS]] = found.get(words[:WORDS_CHARS], 0) + 1
    return tuple(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def backing_off(run: Run, ask: GangDemand, detail: str, refusals: Mapping[PodUid, str]) -> Cause:
    """It waits after an admission that lapsed, which its pods' own rules may have made sure of."""
    said = _said(ask, refusals)
    return _too_spread(run, ask, said) or Cause(
        camel_case(Reason.BACKING_OFF),
        f"It was admitted and not all its pods came to start in time; the next try is {_next_try(detail)}.{said}",
        "The Events AdmissionLapsed and FailedScheduling of its pods say what kept them.",
    )


def filtered(run: Run, ask: GangDemand, refusals: Mapping[PodUid, str]) -> Cause:
    """There is room, and filters that netgang does not model refuse nodes."""
    said = _said(ask, refusals)
    if (cause := _too_spread(run, ask, said)) is not None:
        return cause
    fields = _unmodelled(ask)
    which = f"; the pods have {', '.join(fields)}" if fields else ""
    return Cause(
        CauseReason.REFUSED,
        "There is room, but filters of kube-scheduler that netgang does not model (volumes, devices, affinity between "
        f"pods, spreading, plugins) refuse nodes that it needs{which}.{said}",
        "The Event FailedScheduling of its pods says which filter.",
    )


def uncounted(run: Run, ask: GangDemand, refusals: Mapping[PodUid, str]) -> Cause:
    """It asks for what no node's allocatable shows, and has no room for the rest, or was refused its nodes."""
    return Cause(
        camel_case(Reason.UNCOUNTED),
        f"No node's allocatable shows {', '.join(uncounted_names(run, ask))}: kube-scheduler alone counts it."
        f"{_said(ask, refusals)}",
        "Correct the resource's name, install the device plugin that offers it, or wait for kube-scheduler to find it.",
    )


def _too_spread(run: Run, ask: GangDemand, said: str) -> Cause | None:
    """The cause when the pods keep one another off more nodes than a zone has."""
    size = sum(len(pods) for _, pods in ask.need)
    nodes = max((len(run.table.zones[zone]) for zone in run.view.candidate_zones(ask)), default=0)
    apart = [name for name in _unmodelled(ask) if name in _SPREADS]
    if not apart or size <= nodes:
        return None
    return Cause(
        CauseReason.SPREAD,
        f"{counted(size, 'pod')} must be on different nodes ({', '.join(apart)}), if that keeps them from one "
        f"another, and no zone that it may use has more than {counted(nodes, 'node')}: waiting does not help."
        f"{said}",
        "Make the rule preferred, not required, lower the minimum, or set netgang.io/zone-policy to preferred.",
    )


def uncounted_names(run: Run, ask: GangDemand) -> list[str]:
    """What waiting members ask for that no node's allocatable shows, each with the resource that was perhaps meant."""
    names = {name for one, _ in (*ask.need, *ask.more) for name in run.table.uncounted(one.requests)}
    meant = {name: nearest(name, run.table.axis, like=LIKE_VALUE) for name in sorted(names)}
    named = [f"{shown(name)} (did you mean {like}?)" if like else shown(name) for name, like in meant.items()]
    claims = any(DEVICE_CLAIMS in pod.unmodelled for _, pods in (*ask.need, *ask.more) for pod in pods)
    return [*named, DEVICE_CLAIMS] if claims else named


def _unmodelled(ask: GangDemand) -> list[str]:
    return sorted({name for _, pods in ask.need for pod in pods for name in pod.unmodelled})


def _said(ask: GangDemand, refusals: Mapping[PodUid, str]) -> str:
    words = scheduler_words(ask, refusals)
    return f" kube-scheduler: {words[0][0]}" if words else ""


def _next_try(detail: str) -> str:
    """When, from the plan's words.

    >>> _next_try("for another 90 s")
    'in 90 s'
    """
    return detail.replace("for another", "in") or duration_text(0.0)
