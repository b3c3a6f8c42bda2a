"""The causes of a gang that is incomplete: pods that do not exist, and pods that no node may take yet."""

from collections.abc import Sequence

from scoring.explain.causes.kube_scheduler import WORDS_CHARS
from scoring.explain.causes.reasons import Cause, CauseReason
from scoring.explain.words import counted, shown, some
from scoring.model import Controller, Gang, GangSource
from scoring.plan.demand import GangDemand


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
    obstacle = next((pod.obstacle for pod in unable if pod.obstacle), "")[:WORDS_CHARS]
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
