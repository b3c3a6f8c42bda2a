"""Which pods under a gang's name make up the gang: those of one run (docs/safety.md S23).

Why: finished pods stay. A CronJob's next Job, or one created again, has the same labels; were the former run's
Succeeded pods counted with it, its quorum would be reached before it began, and it would start pod by pod.

Pods of one controller are one *part*; a pod without a controller that has runs is a part of its own. Rules:

- Two parts are *rivals*, never of one run, if their controllers are of one kind and are one name's two objects, or
  belong to different jobs. No rivals are parts of one JobSet, two Jobs whose pods have different roles, and two that
  both want fewer pods than the minimum, so that neither is a run by itself.
- The run is the live part that has nodes, else the oldest, with all live parts that are not its rivals. The others of
  the live ones are *later*: they wait until it has ended.
- A part of which nothing lives belongs to the run if it is no rival and had its nodes when the run's first pod was
  there already: all of a minimum exist before the first of it is bound. Else it is *earlier*.
- A place of an Indexed Job counts once: a Succeeded pod whose index runs again is earlier.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from scoring import JobKey, PodUid
from scoring.model import GangSource, Phase, Pod, Role, RunRef


class Runs(NamedTuple):
    """The pods under one gang's name, run by run; each in the order given."""

    current: tuple[Pod, ...]
    earlier: tuple[Pod, ...] = ()
    later: tuple[Pod, ...] = ()


class _Part(msgspec.Struct):
    run: RunRef | None
    pods: list[Pod] = []
    roles: set[Role] = set()
    jobs: set[JobKey | None] = set()
    lives: bool = False
    has_nodes: bool = False
    born_s: float = float("inf")  # When its first pod was created
    bound_s: float = float("inf")  # When its first pod got a node; where no pod says, when that pod was created

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.roles.add(pod.role)
        self.jobs.add(pod.job)
        alive = _lives(pod)
        self.lives |= alive
        self.has_nodes |= alive and pod.node is not None
        self.born_s = min(self.born_s, pod.created_s)
        self.bound_s = min(self.bound_s, pod.created_s if pod.scheduled_s is None else pod.scheduled_s)


def runs_of(pods: Sequence[Pod], *, least: Callable[[], int] = lambda: 1, wanted: Mapping[str, int] = {}) -> Runs:
    """Part the pods under one gang's name. Cost: O(n), and O(parts²) where several controllers are involved.

    `least` gives the gang's minimum; `wanted`: controller's uid → how many pods it wants, unless one of a CronJob's.
    """
    if not pods or (pods[0].group is not None and pods[0].group.source is GangSource.NATIVE):
        return Runs(tuple(pods))
    run = pods[0].run
    if all(pod.run is run and (run is not None or _lives(pod)) for pod in pods):
        return _once_each(Runs(tuple(pods)))
    minimum, runs = least() if wanted else 1, [pod.run for pod in pods if pod.run is not None]
    small = frozenset([run.uid for run in runs if wanted.get(run.uid, minimum) < minimum])
    return _once_each(_split(pods, _parts(pods), small))


def _lives(pod: Pod) -> bool:
    return not pod.terminal and not pod.deleting


def _parts(pods: Sequence[Pod]) -> list[_Part]:
    """Parts, those that live first, and of these the ones that have nodes; then by age; of dead ones the youngest."""
    ref_of = {pod.uid: pod.run for pod in pods}
    parts: dict[str, _Part] = {}
    for pod in pods:
        run, alone = pod.run, pod.uid
        if run is not None and run.kind == "Pod":  # such as a driver, whose executors are of its part
            alone = PodUid(run.uid)
            run = ref_of.get(alone)
        parts.setdefault(alone if run is None else run.uid, _Part(run)).add(pod)

    def rank(item: tuple[str, _Part]) -> tuple[bool, bool, float, str]:
        key, part = item
        return not part.lives, not part.has_nodes, part.born_s if part.lives else -part.born_s, key

    return [part for _, part in sorted(parts.items(), key=rank)]


def _split(pods: Sequence[Pod], parts: Sequence[_Part], small: frozenset[str]) -> Runs:
    """The first part's run, and what is not of it; `small`: controllers that are no run by themselves."""
    taken, begun_s = [parts[0]], parts[0].born_s
    earlier: set[str] = set()
    later: set[str] = set()
    for part in parts[1:]:
        joins = not any(_are_rivals(part, one, small) for one in taken)
        whole = part.run.whole if part.run is not None else ""
        if not part.lives and whole:
            goes = all(pod.deleting for pod in part.pods)
            joins = joins and not goes and any(one.run is not None and one.run.whole == whole for one in taken)
        elif not part.lives:
            joins = joins and begun_s <= part.bound_s
        if not joins:
            (later if part.lives else earlier).update(pod.uid for pod in part.pods)
            continue
        if part.lives:
            begun_s = min(begun_s, part.born_s)
        taken.append(part)
    return Runs(
        tuple(pod for pod in pods if pod.uid not in earlier and pod.uid not in later),
        tuple(pod for pod in pods if pod.uid in earlier),
        tuple(pod for pod in pods if pod.uid in later),
    )


def _are_rivals(one: _Part, other: _Part, small: frozenset[str]) -> bool:
    a, b = one.run, other.run
    if a is None or b is None or a.kind != b.kind:
        return False
    if a.name == b.name or a.whole or b.whole:
        return a.name == b.name or a.whole != b.whole
    if one.jobs == other.jobs or {a.uid, b.uid} <= small:
        return False
    return a.kind != "Job.batch" or not one.roles.isdisjoint(other.roles)


def _once_each(runs: Runs) -> Runs:
    """The same, without Succeeded pods whose place another pod has again."""
    indexes = {pod.index for pod in runs.current}
    if len(indexes) == len(runs.current) or not any(pod.phase is Phase.SUCCEEDED for pod in runs.current):
        return runs
    holds: dict[object, Pod] = {}  # controller's uid, role, completion index → its pod
    again: set[str] = set()
    counted = (pod for pod in runs.current if _lives(pod) or pod.phase is Phase.SUCCEEDED)
    for pod in sorted(counted, key=attrgetter("created_s", "uid")):
        owner = pod.owner  # only an Indexed Job has places: names keep those of other kinds apart
        if pod.index is None or owner is None or owner.group_kind != ("batch", "Job"):
            continue
        place = owner.uid, pod.role, pod.index
        before = holds.get(place)
        if before is None or before.phase is Phase.SUCCEEDED:
            if before is not None:
                again.add(before.uid)
            holds[place] = pod
        elif pod.phase is Phase.SUCCEEDED:
            again.add(pod.uid)
    kept = tuple(pod for pod in runs.current if pod.uid not in again)
    return runs._replace(current=kept, earlier=(*runs.earlier, *(pod for pod in runs.current if pod.uid in again)))
