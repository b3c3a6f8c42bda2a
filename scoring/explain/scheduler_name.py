"""Whether a gang's pods probably name the wrong scheduler: netgang then never hears of them, and says nothing."""

from collections.abc import Set as AbstractSet
from typing import Final

from scoring.model import GangSource, Pod
from scoring.model.nearest import nearest

DEFAULT_SCHEDULER: Final = "default-scheduler"
PATIENCE_S: Final = 30.0  # A scheduler that exists has mostly placed or refused a pod by then
_LABELLED: Final = frozenset({GangSource.POD_GROUP, GangSource.LABELS})


def probably_wrong_scheduler(
    pod: Pod, ours: AbstractSet[str], at_work: AbstractSet[str], *, now_s: float
) -> str | None:
    """What to say about a pod that waits and is marked as a gang's; `None`: nothing.

    `at_work`: schedulers that have placed a pod which still exists. The annotations of Volcano's gangs are used by its
    scheduler, too, so with those the default scheduler is no sign of a mistake. `now_s`: Unix seconds.
    """
    name, names = pod.scheduler_name, ", ".join(sorted(ours))
    if pod.group is None or pod.group.source is GangSource.NATIVE or name in ours:
        return None
    meant = nearest(name, ours)
    if meant is not None and name not in at_work:
        return f"The gang's pods have schedulerName {name}: did you mean {meant}?"
    if now_s - pod.created_s < PATIENCE_S:
        return None
    if name == DEFAULT_SCHEDULER and pod.group.source in _LABELLED:
        return (
            f"The pods have labels of a gang and schedulerName {name}, so netgang does not start them together: "
            f"set schedulerName to {names}, unless a plugin of that scheduler reads these labels."
        )
    if name not in at_work:
        return f"The gang's pods have schedulerName {name}, and no pod of the cluster was placed by it: is it {names}?"
    return None
