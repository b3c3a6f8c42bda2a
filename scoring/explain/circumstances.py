"""What the plan's reasons and a gang's runs mean for people who ask why it waits."""

from scoring.model import Gang, Pod, Reason
from scoring.plan.result import Waiting

_WANTS_NODES = frozenset(
    {Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.IMPOSSIBLE, Reason.RESERVED, Reason.SPILL_WAIT}
)


def wants_nodes(waiting: Waiting | None) -> bool:
    """Whether more room would help."""
    return waiting is not None and waiting.reason in _WANTS_NODES


def two_runs(gang: Gang) -> str:
    """Which run the gang is, which one waits, and what to do about it; for gangs with pods of a later run."""
    runs = next((_controller(pod) for pod in gang.members if pod.run is not None), "others")
    waits = _controller(gang.later[0])
    return (
        f"Gang {gang.key} is run by {runs}; the pods of {waits} wait until its pods have ended. To let both run side "
        "by side give each a gang name of its own; if they are parts of one gang give them roles (netgang.io/role)"
    )


def _controller(pod: Pod) -> str:
    if pod.owner is not None:
        return f"{pod.owner.kind} {pod.owner.name}"
    return pod.run.name if pod.run is not None else pod.name
