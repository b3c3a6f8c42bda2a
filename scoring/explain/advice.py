"""What would help a gang that waits: each way is supposed first, and only what then gives the gang a place is told."""

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from scoring.explain.words import shown, some
from scoring.model import Gang, GangSource, Pod
from scoring.model.policy import ZonePolicy, nearest
from scoring.model.snapshot import Snapshot
from scoring.plan import PlannerCache, Run, begin_run, take_commitments
from scoring.plan.capacity import When
from scoring.plan.demand import demand_of
from scoring.plan.placement import possible

_MOST_LOWERED: Final = 1000  # Pods of a gang for which lower minimums are tried: it takes 0.2 s
_PATIENCE_S: Final = 30.0  # A scheduler that exists has mostly placed or refused a pod by then
_MOST_TRIED: Final = 500_000  # Pods × kinds of them × nodes, where they are of several kinds


def would_start(run: Run, gang: Gang, *, empty: bool, snapshot: Snapshot | None = None) -> bool:
    """Whether the minimum of `gang` has a place, in `snapshot` if given: now, or (`empty`) as if no pod ran.

    Cost: O(members · nodes).
    """
    if snapshot is not None:
        run = begin_run(snapshot, run.policy, PlannerCache())
        take_commitments(run, besides=gang.key)
    nodes = (pod.node for pod in gang.members if pod.node is not None)
    demand = demand_of(gang, run.policy, lost=frozenset(node for node in nodes if node not in run.table.index))
    kind = run.view.member_set(demand.need, demand)
    if demand.incomplete is not None or not kind.allowed:
        return False
    if empty:
        return possible(run, replace(demand, siblings=()), kind)
    together = [kind.allowed] if demand.options.zone_policy is ZonePolicy.PREFERRED else []
    return any(run.search.fits(kind, zones, When.NOW) for zones in (*((zone,) for zone in kind.allowed), *together))


def helpful(run: Run, gang: Gang, *own: tuple[str, Gang], empty: bool, snapshot: Snapshot | None = None) -> str:
    """What helps of `own` (a way, and the gang as it would be), other zones, several, a lower minimum.

    Cost: `would_start` for each, and O(log minimum) times for the last.
    """
    starts = partial(would_start, run, empty=empty, snapshot=snapshot)
    spread = annotated_with(gang, **{"zone-policy": ZonePolicy.PREFERRED.value})
    any_zone = ("remove annotation netgang.io/zones", annotated_with(gang, zones=""))
    tries = (*own, any_zone, ("set annotation netgang.io/zone-policy to preferred", spread))
    ways = [way for way, other in tries if other != gang and starts(other)]
    kinds, pods = len({id(pod.member_class) for pod in gang.members}), len(gang.members)
    few = pods <= _MOST_LOWERED and (kinds == 1 or pods * kinds * len(run.table.nodes) <= _MOST_TRIED)
    fewer = range(1, gang.min_member if few else 1)
    if least := bisect_left(fewer, True, key=lambda n: not starts(replace(gang, min_member=n))):
        ways.append(f"lower {_minimum_name(gang)} to {least}")
    text = ", or ".join(ways)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _minimum_name(gang: Gang) -> str:
    """Where its minimum is written."""
    kubeflow = any(pod.owner is not None and pod.owner.group_kind[0] == "kubeflow.org" for pod in gang.members)
    if kubeflow and gang.source is not GangSource.LABELS:
        return "spec.runPolicy.schedulingPolicy.minAvailable"
    names = {GangSource.LABELS: "min-available", GangSource.POD_GROUP: "minMember of the PodGroup"}
    return names.get(gang.source, "its minimum")


def annotated_with(gang: Gang, **options: str) -> Gang:
    """The gang with other annotations; those that are empty are removed."""
    merged = dict(gang.options) | options
    return replace(gang, options=tuple(sorted((name, value) for name, value in merged.items() if value)))


def constrained(gang: Gang, **constraints: Any) -> Gang:
    """The gang with other constraints in all its pod templates."""
    classes = {id(pod.member_class): pod.member_class for pod in gang.members}  # slow to hash
    for at, like in classes.items():
        classes[at] = replace(like, constraints=replace(like.constraints, **constraints))
    members = (replace(pod, member_class=classes[id(pod.member_class)]) for pod in gang.members)
    return replace(gang, members=tuple(members))


def two_runs(gang: Gang) -> str:
    """Which run the gang is, which one waits, and what to do about it; for gangs with pods of a later run."""
    first = next((pod for pod in gang.members if pod.run is not None), None)
    runs, waits = _controller(first) if first is not None else "others", _controller(gang.later[0])
    text = (
        f"Gang {gang.key} is run by {runs}; the pods of {waits} wait until its pods have ended. To let both run side "
        "by side give each a gang name of its own"
    )
    run, other = first.run if first is not None else None, gang.later[0].run
    if run is None or other is None or run.name == other.name or run.whole or other.whole:
        return text
    if run.kind == "Job.batch":
        return f"{text}; if they are parts of one gang give their pods different roles (netgang.io/role)"
    return f"{text}; if they are parts of one gang set its minimum above what each of them makes"


def _controller(pod: Pod) -> str:
    if pod.owner is not None:
        return f"{pod.owner.kind} {pod.owner.name}"
    return pod.run.name if pod.run is not None else pod.name


def not_planned(pods: Sequence[Pod], ours: AbstractSet[str]) -> str:
    """What these pods, of one job or gang, have that keeps netgang from planning them."""
    others = some(sorted({shown(pod.scheduler_name) for pod in pods} - ours))
    parts = [f"schedulerName {others} instead of {', '.join(sorted(ours))}"] if others else []
    parts += ["no label or annotation of a gang"] if all(pod.group is None for pod in pods) else []
    return "; ".join((*parts, *dict.fromkeys(slip for pod in pods for slip in pod.misspelt)))


def probably_wrong_scheduler(pod: Pod, own: AbstractSet[str], at_work: AbstractSet[str], *, now_s: float) -> str | None:
    """What to say about a pod that waits and is marked as a gang's; `None`: nothing.

    `at_work`: schedulers that have placed a pod which still exists. The annotations of Volcano's gangs are used by its
    scheduler, too, so with those the default scheduler is no sign of a mistake. `now_s`: Unix seconds.
    """
    name, names = pod.scheduler_name, ", ".join(sorted(own))
    if pod.group is None or pod.group.source is GangSource.NATIVE or name in own:
        return None
    if name not in at_work and (meant := nearest(name, own)) is not None:
        return f"The gang's pods have schedulerName {name}: did you mean {meant}?"
    if now_s - pod.created_s < _PATIENCE_S:
        return None
    if name == "default-scheduler" and pod.group.source in (GangSource.POD_GROUP, GangSource.LABELS):
        return (
            f"The pods have labels of a gang and schedulerName {name}, so netgang does not start them together: "
            f"set schedulerName to {names}, unless a plugin of that scheduler reads these labels."
        )
    if name not in at_work:
        return f"The gang's pods have schedulerName {name}, and no pod of the cluster was placed by it: is it {names}?"
    return None
