"""The condition `netgang.io/Admitted` of a gang's pod: why it waits, and after that, that it has a node.

Why on the pod: `kubectl describe pod` and every dashboard show conditions, and a pod at its gate has no Event of
kube-scheduler. Rules: a gang's members have the same words, and they are written again only when the status or the
reason changes, so a message has the numbers of the moment at which its reason began. A pod that never had to wait has
none: that it has a node is shown already. It decides nothing.
"""

from typing import Final

import msgspec

from scoring.model import Pod, Reason

CONDITION: Final = "netgang.io/Admitted"
MESSAGE_CHARS: Final = 512
_BOUND: Final = "The gang was admitted and the pod has its node."


class AdmittedCondition(msgspec.Struct, frozen=True):
    """What the condition says; `reason` is in CamelCase, as the API asks."""

    status: str  # `True` or `False`
    reason: str
    message: str = ""

    @property
    def key(self) -> str:
        """What differs when it has to be written again; as `Pod.told`."""
        return f"{self.status}/{self.reason}"


def admitted_condition(pod: Pod, cause: str | None, why: str, *, said: str) -> AdmittedCondition | None:
    """What a member of a gang should say now; `None`: nothing new.

    `cause`: why its gang waits, in CamelCase (`scoring.explain.causes.reasons`); `None`: unknown. `why`: a sentence.
    `said`: the `key` of what it said last; empty: nothing yet.

    >>> from tests.builders import bound, pod
    >>> admitted_condition(pod("a"), "NodesUnavailable", "6 of 9 nodes of zone A are cordoned.", said="").key
    'False/NodesUnavailable'
    >>> admitted_condition(bound(pod("a"), "n1"), None, "", said="False/NodesUnavailable").key
    'True/Admitted'
    >>> [admitted_condition(one, None, "", said="") for one in (pod("a"), bound(pod("a"), "n1"))]
    [None, None]
    """
    if pod.terminal or pod.deleting:
        return None
    if pod.node is not None:
        return AdmittedCondition("True", "Admitted", _BOUND) if said else None
    if cause is None:
        return None
    return AdmittedCondition("False", cause, why if len(why) <= MESSAGE_CHARS else f"{why[: MESSAGE_CHARS - 1]}…")


def camel_case(reason: Reason) -> str:
    """The name of a reason as conditions write it.

    >>> camel_case(Reason.NO_ALLOWED_ZONE)
    'NoAllowedZone'
    """
    return "".join(word.capitalize() for word in reason.name.split("_"))
