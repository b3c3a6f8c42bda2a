"""What would help a gang that waits: each way is supposed first, and only what then gives the gang a place is told."""

from bisect import bisect_left
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from scoring.model import Gang, GangSource
from scoring.model.policy import ZonePolicy
from scoring.model.snapshot import Snapshot
from scoring.plan import PlannerCache, Run, begin_run, take_commitments
from scoring.plan.capacity import When
from scoring.plan.demand import demand_of
from scoring.plan.placement import possible

_MOST_LOWERED: Final = 1000  # Pods of a gang for which lower minimums are tried: it takes 0.2 s
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
