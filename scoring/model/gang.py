"""PodGroups, gangs as they exist now, how long they run, and which of the pods under one name make up a gang.

A length is declared by users, or enforced by a deadline; else there is none, never a guess. A gang that runs on beyond
it is expected to run for twice as long, then for four times, and so on. Who declares too little often fills no gaps.

A gang is the pods of one *run* (docs/safety.md S23). Why: finished pods stay. A CronJob's next Job, or a Job created
again, has the same labels; were the former run's Succeeded pods counted with it, its quorum would be reached before it
began, and it would start pod by pod. Rules; where they cannot tell, a gang waits only if that is certain to end:

- Pods of one controller are a *part*, executors of their driver's; one whose controller has no runs is a part itself.
- Two parts are *rivals*, never of one run, if their controllers are of one kind and are one name's two objects, or
  belong to different jobs. No rivals are parts of one JobSet, two Jobs whose pods have different roles, and two that
  are each smaller than the minimum: by what the kind says that it wants, else by the pods that exist.
- The run is the live part that has nodes, else the oldest, with all live parts that are not its rivals. The others of
  the live ones are *later*: they wait until it has ended.
- A part of which nothing lives belongs to the run if it is no rival and had its nodes when the run's first pod was
  there already: all of a minimum exist before the first of it is bound. Else it is *earlier*, unless no such pod that
  lives has a controller with runs either.
- What ended before the first living pod was made is earlier, too, if a minimum of it ended well, each loss was made
  good, no place without an end is filled, and as many live as must start together, or we saw the end (`ended`). So a
  workflow's next step is a run, and one replacement is not. Jobs and Kubeflow's jobs are one run for as long as they
  exist: they say how many pods they make.
- A place of an Indexed Job counts once: a Succeeded pod whose index runs again is earlier.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scoring import GangKey, JobKey, NodeName, PodUid
from scoring.model.pod import GangSource, Phase, Pod, Role, RunRef, counts
from scoring.model.reasons import Reason
from scoring.network.measurement import Floats

EXPECTED_DURATION: Final = "expected-duration"  # Annotation `netgang.io/expected-duration`, without the prefix
MOST_S: Final = 10 * 365 * 86_400.0  # Ten years: what is declared is never more
MOST_CHARS: Final = 32  # Longest text of a duration
MOST_HELD: Final = 4096  # Members that wait at bind for the last one: half of the calls that are held in all
_MOST_COMPARED: Final = 8  # Controllers of a kind with which one more is compared: pods may name any number of them
MOST_KINDS: Final = 32  # Of a gang's waiting members, volumes aside: each is looked for on all nodes
_UNITS_S: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}  # unit → seconds
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"
_PART: Final = re.compile(rf"({_NUMBER})([dhms])", re.ASCII)
_WHOLE: Final = re.compile(rf"{_NUMBER}|(?:{_NUMBER}[dhms])+", re.ASCII)


def gang_key(namespace: str, group: str) -> GangKey:
    """Name the gang `group` of `namespace`."""
    return GangKey(f"{namespace}/{group}")


def duration_s(text: str) -> float:
    """Read a duration as Go writes it, with days besides, or a number of seconds. Seconds, at most `MOST_S`.

    Errors: ValueError, to complete "…: TEXT ", if it is none, or not above 0.

    >>> [duration_s(text) for text in ("90m", "1h30m", "1.5h", "2d", "5400", "1h0.5s")]
    [5400.0, 5400.0, 5400.0, 172800.0, 5400.0, 3600.5]
    >>> duration_s("soon")
    Traceback (most recent call last):
    ValueError: is not a duration such as 90m, 1h30m or 5400 (seconds)
    """
    value = text.strip() if len(text) <= MOST_CHARS else ""  # measured before it is parsed
    if not _WHOLE.fullmatch(value):
        raise ValueError("is not a duration such as 90m, 1h30m or 5400 (seconds)")
    parts = _PART.findall(value) or [(value, "s")]
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if seconds <= 0.0:
        raise ValueError("is not above 0")
    return min(seconds, MOST_S)


def remaining_s(length_s: Floats, ran_s: Floats) -> Floats:
    """How long gangs of these lengths that have run for so long, and still run, go on. All (gangs,), seconds above 0.

    >>> remaining_s(np.full(5, 100.0), np.array([-5.0, 70.0, 99.0, 100.0, 250.0])).tolist()
    [100.0, 30.0, 1.0, 100.0, 150.0]
    """
    ran_s, ends_s = np.maximum(ran_s, 0.0), length_s.copy()
    while (outlived := ends_s <= ran_s).any():
        ends_s[outlived] *= 2.0
    return ends_s - ran_s


class GroupStatus(msgspec.Struct, frozen=True):
    """A PodGroup's status as far as we read and write it; what is absent there has its default here."""

    phase: str = ""  # A `scoring.queue.states.GroupPhase`, or whatever another controller wrote
    scheduled: int = 0  # Members on a node and alive, or Succeeded
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    occupied_by: str = ""  # `namespace/job` of the members' jobs, sorted, with commas between
    schedule_start_s: int | None = None  # Since when enough pods exist, Unix seconds


class PodGroup(msgspec.Struct, frozen=True):
    """A PodGroup of any kind: what decides, and beside it what the API server shows of its status."""

    key: GangKey
    min_member: int
    created_s: float = 0.0
    schedule_timeout_s: float | None = None
    uid: str = ""  # This and the following decide nothing
    resource_version: str = ""
    status: GroupStatus = GroupStatus()
    ours: bool = False  # We wrote (part of) its status
    other_writer: str = ""  # Which other client did; empty: none


class Gang(msgspec.Struct, frozen=True):
    """Pods that start together or not at all, as they exist now: those of one run (docs/safety.md S23)."""

    key: GangKey
    source: GangSource
    min_member: int
    members: tuple[Pod, ...]  # All live and finished pods of the run, sorted by (role, index, name)
    priority: int
    created_s: float
    options: tuple[tuple[str, str], ...] = ()
    problem: Reason | None = None  # Why it can never be admitted as it is written
    problem_detail: str = ""  # What to change
    schedule_timeout_s: float | None = None
    own: bool = True  # Its pods name one of our schedulers (docs/safety.md S1); others are load only
    started: bool = False  # It was whole once with members that are still there (docs/safety.md S23)
    earlier: tuple[Pod, ...] = ()  # Pods of former runs under the same name, all ended: they count for nothing
    later: tuple[Pod, ...] = ()  # Pods of another run that is live, too: they wait until this one has ended
    length_s: float | None = None  # How long it runs in all, once its minimum runs (`running_since_s`); `None`: unknown
    makes: int | None = None  # How many pods its owners make in all; `None`: unknown
    believed: bool = True  # Whether it may fill gaps by `length_s`
    former: tuple[tuple[PodUid, NodeName], ...] = ()  # Members, and the node of the pod of the same name before

    @property
    def actionable(self) -> bool:
        """Whether netgang may place, complete, restart or remove it (docs/safety.md S1)."""
        return self.own and self.problem is None and self.source is not GangSource.NATIVE

    @property
    def pending(self) -> tuple[Pod, ...]:
        """Members that still need a node."""
        return tuple(p for p in self.members if p.node is None and p.lives)

    @property
    def placed(self) -> tuple[Pod, ...]:
        """Members that count towards quorum."""
        return tuple(p for p in self.members if counts(p))


class JobSays(msgspec.Struct, frozen=True):
    """What a gang's job itself says; `None`: nothing."""

    expected: str = ""  # Annotation `netgang.io/expected-duration`, bounded; empty: it has none
    limit_s: float | None = None  # `activeDeadlineSeconds` of the job
    created_s: float | None = None  # Unix seconds
    wanted: int | None = None  # How many pods it wants, unless it is one of a series
    makes: int | None = None  # The same, of a series too, unless it is a part of something larger


def owner_name(gang: Gang) -> str:
    """The gang's job, `namespace/name` without a number at its end: one owner's jobs (a CronJob's) differ in that."""
    return (gang.members[0].job or gang.key).rstrip("-._0123456789")


def length_of(gang: Gang, job: JobSays, outlived: Collection[tuple[float, str]] = ()) -> tuple[float | None, bool]:
    """How long the gang runs, seconds, and whether that may fill gaps; `None`: nothing is said. Cost: O(members).

    A deadline cuts what is declared; alone it is taken for the length, as batch systems take the limit of a job. What
    is declared fills none where two lengths of its owner, or three of its namespace, were `outlived` (when, whose).
    """
    limit_s = min([some for some in (job.limit_s, *(pod.limit_s for pod in gang.members)) if some], default=inf)
    declared_s, owner, namespace = inf, owner_name(gang), gang.key.partition("/")[0] + "/"
    with suppress(ValueError):  # `scoring.model.policy.gang_options` says so
        declared_s = min([duration_s(text) for name, text in gang.options if name == EXPECTED_DURATION], default=inf)
    whose = [name for _, name in outlived if name.startswith(namespace)] if declared_s < limit_s else []
    believed = len(whose) < 3 and whose.count(owner) < 2
    length_s = min(limit_s, declared_s) if believed or limit_s == inf else limit_s
    return (length_s if length_s < inf else None), believed or length_s == limit_s


def newest(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Those whose minimum counts: of pods that one owner replaces without end the ones made last, so it may roll."""
    if len({pod.group.min_available for pod in pods if pod.group is not None}) < 2:
        return pods
    keys = [(_template(pod), (pod.created_s, -1 if pod.index is None else pod.index)) for pod in pods]
    last = dict(sorted(keys))  # of one second the highest index, which a StatefulSet replaces first
    return [pod for pod, (template, when) in zip(pods, keys, strict=True) if when == last[template]]


def _template(pod: Pod) -> str:
    """Whose template it was made from: a StatefulSet's, or a Deployment's, by the name of its ReplicaSet, say."""
    if pod.run is not None or pod.owner is None:
        return pod.uid
    return pod.owner.name.rpartition("-")[0] if pod.owner.kind == "ReplicaSet" else pod.job or pod.owner.uid


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
    bound_s: float = float("inf")  # When its first pod got a node

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.roles.add(pod.role)
        self.jobs.add(pod.job)
        alive = pod.lives
        self.lives |= alive
        self.has_nodes |= alive and pod.node is not None
        self.born_s = min(self.born_s, pod.created_s)
        self.bound_s = min(self.bound_s, _had_node_s(pod))


def runs_of(
    pods: Sequence[Pod],
    *,
    least: Callable[[], int] = lambda: 1,
    wanted: Mapping[str, int] = {},
    ended: Set[PodUid] = frozenset(),
) -> Runs:
    """Part the pods under one gang's name. Cost: O(n), and O(parts²) where several controllers are involved.

    `least` gives the gang's minimum; `wanted`: controller's uid → how many pods it wants, unless one of a CronJob's;
    `ended`: pods that were seen to end before any that lives was made, each loss made good.
    """
    if not pods or (pods[0].group is not None and pods[0].group.source is GangSource.NATIVE):
        return Runs(tuple(pods))
    run = pods[0].run
    whole = run is not None and _one_run(run)
    if all(pod.run is run and (whole or pod.lives) for pod in pods):
        return _once_each(Runs(tuple(pods)))
    parts = _parts(pods)
    runs = [(part.run, len(part.pods)) for part in parts if part.run is not None]
    minimum = least()
    sizes = {run.uid: wanted.get(run.uid, minimum if _one_run(run) else size) for run, size in runs}
    small = frozenset([uid for uid, size in sizes.items() if size < minimum])
    return _once_each(_stepped(_split(pods, parts, small), minimum, ended))


def _one_run(run: RunRef) -> bool:
    """Whether such a controller makes one run and says how many pods that takes: a Job, or one of Kubeflow's."""
    kind = run.kind
    return kind == "Job.batch" or kind.endswith(".kubeflow.org") or kind.startswith("training.kubeflow.org/")


def _had_node_s(pod: Pod) -> float:
    """When it got its node; where no pod says, when it was created."""
    return pod.created_s if pod.scheduled_s is None else pod.scheduled_s


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
    taken: dict[str, dict[str, _Part]] = {}  # kind → name → part: of one name there is one in a run
    wholes, begun_s = set[str](), parts[0].born_s
    no_runs = any(part.lives and part.run is None for part in parts)
    earlier: set[str] = set()
    later: set[str] = set()
    for part in parts:
        run, whole = part.run, part.run.whole if part.run is not None else ""
        of_kind = taken.setdefault(run.kind, {}) if run is not None else {}
        others = islice(of_kind.values(), _MOST_COMPARED)
        joins = run is None or not (run.name in of_kind or any(_are_rivals(run, part, o, small) for o in others))
        if not part.lives and whole:
            joins = joins and not all(pod.deleting for pod in part.pods)
            joins = joins and (whole in wholes or begun_s <= part.bound_s)
        elif not part.lives:
            joins = joins and (begun_s <= part.bound_s or (run is None and no_runs))
        if not joins and part is not parts[0]:
            (later if part.lives else earlier).update(pod.uid for pod in part.pods)
            continue
        if part.lives:
            begun_s = min(begun_s, part.born_s)
        if run is not None:
            of_kind[run.name] = part
            wholes.add(whole)
    return Runs(
        tuple(pod for pod in pods if pod.uid not in earlier and pod.uid not in later),
        tuple(pod for pod in pods if pod.uid in earlier),
        tuple(pod for pod in pods if pod.uid in later),
    )


def _stepped(runs: Runs, minimum: int, ended: Set[PodUid]) -> Runs:
    """The same, without the pods of a former step: those that had ended before the first living pod was made."""
    living = [pod for pod in runs.current if pod.lives]
    if not living:
        return runs
    begun_s = min(pod.created_s for pod in living)
    over = [
        pod
        for pod in runs.current
        if (pod.uid in ended or _had_node_s(pod) < begun_s)
        and not (pod.lives or (pod.run is not None and _one_run(pod.run)))
    ]
    well = [pod for pod in over if pod.phase is Phase.SUCCEEDED]
    if len(well) < max(minimum, 1) or not (len(living) >= minimum or {pod.uid for pod in well} <= ended):
        return runs
    lost = [_had_node_s(pod) for pod in over if pod.phase is not Phase.SUCCEEDED]
    first_s = min(lost, default=inf)
    if sum(pod.created_s > first_s for pod in over) < len(lost):
        return runs
    places = {(pod.role, pod.index) for pod in well if pod.index is not None}
    if places and not any((pod.role, pod.index) in places for pod in living):
        return runs
    gone = {pod.uid for pod in over}
    current = tuple(pod for pod in runs.current if pod.uid not in gone)
    return runs._replace(current=current, earlier=(*runs.earlier, *over))


def _are_rivals(a: RunRef, part: _Part, other: _Part, small: frozenset[str]) -> bool:
    b = other.run  # of the same kind, and of another name
    if b is None or a.whole or b.whole:
        return b is not None and a.whole != b.whole
    if part.jobs == other.jobs or {a.uid, b.uid} <= small:
        return False
    return a.kind != "Job.batch" or not part.roles.isdisjoint(other.roles)


def _once_each(runs: Runs) -> Runs:
    """The same, without Succeeded pods whose place another pod has again."""
    indexes = {pod.index for pod in runs.current}
    if len(indexes) == len(runs.current) or not any(pod.phase is Phase.SUCCEEDED for pod in runs.current):
        return runs
    holds: dict[object, Pod] = {}  # controller's uid, role, completion index → its pod
    again: set[str] = set()
    counted = (pod for pod in runs.current if pod.lives or pod.phase is Phase.SUCCEEDED)
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
    current = tuple(pod for pod in runs.current if pod.uid not in again)
    return runs._replace(current=current, earlier=(*runs.earlier, *(pod for pod in runs.current if pod.uid in again)))
