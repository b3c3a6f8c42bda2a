"""Causes among a gang's pods: they do not exist, no node may take them yet, or filters of kube-scheduler refuse them.

Rule: kube-scheduler's words are shown as it said them, bounded, for they name the volume or the pod that netgang does
not know.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from scoring.explain.causes.reasons import Cause, CauseReason
from scoring.explain.words import counted, shown, some
from scoring.ids import PodUid
from scoring.model import Controller, Gang, GangSource, Reason
from scoring.model.nearest import LIKE_VALUE, nearest
from scoring.model.pod import DEVICE_CLAIMS
from scoring.plan import Run
from scoring.plan.demand import GangDemand
from scoring.queue.admitted_condition import camel_case

NO_REFUSALS: Final[Mapping[PodUid, str]] = {}
_WORDS_CHARS: Final = 300  # Of kube-scheduler's message
_SPREADS: Final = ("podAntiAffinity", "topologySpreadConstraints")


def incomplete(ask: GangDemand, notes: Sequence[str]) -> Cause:
    """Missing pods first; then foreign gates, then claims. `notes`: what is known of quotas."""
    gang, unable = ask.gang, ask.unable
    missing = gang.min_member - ask.alive - len(unable)
    if missing > 0:
        exist = f"{ask.alive + len(unable)} of {counted(gang.min_member, 'pod')} exist"
        quota = next((note for note in notes if note.startswith("ResourceQuota ")), "")
        if quota:
            text = f"{exist}, and the namespace's quota forbids more: {quota}."
            return Cause(CauseReason.QUOTA, text, "Have the ResourceQuota raised, or ask for less.")
        if ask.lost:
            where = some(sorted(ask.lost))
            text = f"{exist}: the others were on {where}, which {'is' if len(ask.lost) == 1 else 'are'} gone."
            return Cause(CauseReason.NODES_LOST, text, "Their owner makes them again, if its policy allows.")
        leaving = sum(pod.deleting for pod in gang.members)
        more = f", {counted(leaving, 'pod')} of it still being deleted" if leaving else ""
        owner = next((pod.owner for pod in gang.members if pod.owner is not None), None)
        maker = f"{owner.kind} {owner.name}" if owner is not None else "the job"
        checks = "kubectl describe: quota, admission"
        return Cause(
            CauseReason.PODS_MISSING,
            f"{exist}{more}; {missing} more must exist before it starts.",
            f"See why {maker} has not made them ({checks}), or lower {_minimum(gang, owner)}.",
        )
    gated = [pod for pod in unable if pod.foreign_gates]
    if gated:
        gates = sorted({shown(gate) for pod in gated for gate in pod.foreign_gates})
        return Cause(
            CauseReason.GATE,
            f"{counted(len(gated), 'pod')} of {len(gang.members)} {'waits' if len(gated) == 1 else 'wait'} for "
            f"another controller to remove scheduling gate {some(gates)}.",
            "See what that controller waits for.",
        )
    obstacle = next((pod.obstacle for pod in unable if pod.obstacle), "")[:_WORDS_CHARS]
    of = f"{len(unable)} of {counted(len(gang.members), 'pod')}"
    if "claim" in obstacle.lower():
        advice = "Create the claim, or correct its name in the pod template."
        return Cause(CauseReason.CLAIM, f"A claim of {of} is missing or not bound; kube-scheduler: {obstacle}.", advice)
    return Cause(CauseReason.UNPLACEABLE, f"kube-scheduler places {of} on no node: {obstacle}.")


def _minimum(gang: Gang, owner: Controller | None) -> str:
    """Where the gang's minimum is written."""
    if gang.source is GangSource.LABELS:
        return "min-available"
    if owner is not None and owner.group_kind[0] == "kubeflow.org":
        return "spec.runPolicy.schedulingPolicy.minAvailable"
    return "minMember of the PodGroup" if gang.source is GangSource.POD_GROUP else "its minimum"


def refused(run: Run, ask: GangDemand, reason: Reason, detail: str, refusals: Mapping[PodUid, str]) -> Cause:
    """What kube-scheduler alone decides keeps it: `reason` is BACKING_OFF, FILTERED or UNCOUNTED."""
    words = scheduler_words(ask, refusals)
    end = f" kube-scheduler: {words[0][0]}" if words else ""
    if reason is Reason.UNCOUNTED:  # it has no room for the rest, or was refused its nodes
        return Cause(
            camel_case(reason),
            f"No node's allocatable shows {', '.join(uncounted_names(run, ask))}: kube-scheduler alone counts it.{end}",
            "Correct the resource's name, install the device plugin that offers it, or wait for kube-scheduler to find "
            "it.",
        )
    fields = sorted({name for _, pods in ask.need for pod in pods for name in pod.unmodelled})
    apart = [name for name in fields if name in _SPREADS]
    size = sum(len(pods) for _, pods in ask.need)
    nodes = max((len(run.table.zones[zone]) for zone in run.view.candidate_zones(ask)), default=0)
    if apart and size > nodes:
        return Cause(
            CauseReason.SPREAD,
            f"{counted(size, 'pod')} must be on different nodes ({', '.join(apart)}), if that keeps them from one "
            f"another, and no zone that it may use has more than {counted(nodes, 'node')}: waiting does not help.{end}",
            "Make the rule preferred, not required, lower the minimum, or set netgang.io/zone-policy to preferred.",
        )
    if reason is Reason.BACKING_OFF:
        again = detail.replace("for another", "in") or "in 1 s"
        return Cause(
            camel_case(reason),
            f"It was admitted and not all its pods came to start in time; the next try is {again}.{end}",
            "The Events AdmissionLapsed and FailedScheduling of its pods say what kept them.",
        )
    which = f"; the pods have {', '.join(fields)}" if fields else ""
    return Cause(
        CauseReason.REFUSED,
        "There is room, but filters of kube-scheduler that netgang does not model (volumes, devices, affinity between "
        f"pods, spreading, plugins) refuse nodes that it needs{which}.{end}",
        "The Event FailedScheduling of its pods says which filter.",
    )


def scheduler_words(ask: GangDemand, refusals: Mapping[PodUid, str]) -> tuple[tuple[str, int], ...]:
    """What kube-scheduler's FailedScheduling says of the pods that wait, and of how many, the most frequent first."""
    words = Counter((refusals.get(pod.uid) or pod.refusal)[:_WORDS_CHARS] for pod in ask.gang.pending)
    return tuple(sorted(((text, pods) for text, pods in words.items() if text), key=lambda said: (-said[1], said[0])))


def uncounted_names(run: Run, ask: GangDemand) -> list[str]:
    """What waiting members ask for that no node's allocatable shows, each with the resource that was perhaps meant."""
    names = {name for one, _ in (*ask.need, *ask.more) for name in run.table.uncounted(one.requests)}
    meant = {name: nearest(name, run.table.axis, like=LIKE_VALUE) for name in sorted(names)}
    named = [f"{shown(name)} (did you mean {like}?)" if like else shown(name) for name, like in meant.items()]
    claims = any(DEVICE_CLAIMS in pod.unmodelled for _, pods in (*ask.need, *ask.more) for pod in pods)
    return [*named, DEVICE_CLAIMS] if claims else named
