"""What changes of pods, jobs and gangs do to a situation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice

from scoring.ids import GangKey, PodName, PodUid, gang_key
from scoring.model import (
    GATE,
    Constraints,
    Gang,
    GangSource,
    GroupRef,
    MemberClass,
    Phase,
    Pod,
    Resources,
    Role,
)
from scoring.model.policy import KNOWN_OPTIONS
from scoring.model.resources import NO_RESOURCES, PODS
from scoring.what_if import changes as c
from scoring.what_if.draft import Draft


def add_pods(draft: Draft, change: c.AddPods) -> None:
    """Add members of a gang, or plain pods."""
    if change.node is not None and change.node not in draft.nodes:
        raise c.MisfitError(f"node: there is no node {change.node}")
    if change.gang is None and change.node is None:
        raise c.MisfitError("node: netgang does not plan plain pods: say on which node they run")
    requests = c.resources_of("requests", change.requests)
    if change.gang is None:
        made = _fresh(draft, change, requests, None, None)
        draft.others |= {pod.key: pod for pod in made}
        draft.arrive(made)
        return
    key = gang_key(change.namespace, change.gang)
    gang = draft.gangs.get(key)
    like = _template(gang.members) if gang is not None else None
    if like is None and not requests.items:
        raise c.MisfitError(f"requests: there is no gang {key} whose members these are like: say what they ask for")
    ref = like.group if like is not None else GroupRef(key, GangSource.LABELS, change.min_available or change.count)
    made = _fresh(draft, change, requests, like, ref)
    draft.arrive(made)
    if gang is not None:
        draft.put_gang(replace(gang, members=(*gang.members, *made)))
        return
    least = change.min_available or change.count
    draft.put_gang(Gang(key, GangSource.LABELS, least, made, change.priority, draft.now_s))


def add_job(draft: Draft, change: c.AddJob) -> None:
    """Submit a job: its gangs are as old as the supposed moment."""
    for gang in draft.base.gangs_of(change):
        if gang.key in draft.gangs:
            raise c.MisfitError(f"pods: gang {gang.key} exists already; netgang explain {gang.key} says how it stands")
        members = tuple(replace(pod, created_s=draft.now_s) for pod in gang.members)
        draft.put_gang(replace(gang, members=members, created_s=draft.now_s))


def remove_pods(draft: Draft, change: c.RemovePods) -> None:
    """Take single pods away."""
    members = {pod.key: pod for gang in draft.gangs.values() for pod in gang.members}
    for key in change.pods:
        pod = members.get(key) or draft.others.get(key)
        if pod is None:
            raise c.MisfitError(f"pods: no pod {key} is known")
        draft.leave([pod])


def end_job(draft: Draft, change: c.JobEnds) -> None:
    """Take all pods of a job away."""
    gone = job_members(draft.gangs.values(), change.job)
    if not gone:
        raise _no_job(draft, change.job)
    draft.leave(gone)


def resize_job(draft: Draft, change: c.JobShrinks | c.JobGrows) -> None:
    """Let workers of the highest index leave, or add some like the last one."""
    workers = workers_of(job_members(draft.gangs.values(), change.job))
    if not workers:
        raise _no_job(draft, change.job)
    if isinstance(change, c.JobGrows):
        _grow(draft, change, workers)
        return
    if change.by >= len(workers):
        raise c.MisfitError(f"by: {change.job} has {len(workers)} workers, and one must stay")
    gone = workers[-change.by :]
    keys = sorted({pod.group.key for pod in gone if pod.group is not None})
    draft.leave(gone)
    for key in keys:
        if (gang := draft.gangs.get(key)) is not None:
            live = sum(not pod.deleting and pod.phase is not Phase.FAILED for pod in gang.members)
            draft.put_gang(replace(gang, min_member=max(min(gang.min_member, live), 1)))


def set_option(draft: Draft, change: c.SetOption) -> None:
    """Write or remove an annotation."""
    gang = gang_of(draft, change.gang)
    if change.option not in KNOWN_OPTIONS:
        raise c.MisfitError(f"name: netgang.io/{change.option}: there is no such annotation")
    options = {name: value for name, value in gang.options if name != change.option}
    if change.value is not None:
        options[change.option] = change.value
    draft.put_gang(replace(gang, options=tuple(sorted(options.items()))))


def mend(draft: Draft, change: c.OpenGates | c.MendGroup | c.ForgetRefusals) -> None:
    """Take one obstacle of a gang away."""
    gang = gang_of(draft, change.gang)
    match change:
        case c.OpenGates():
            members = tuple(replace(pod, gates=tuple(one for one in pod.gates if one == GATE)) for pod in gang.members)
            draft.put_gang(replace(gang, members=members))
        case c.MendGroup():
            draft.put_gang(replace(gang, problem=None, problem_detail="", own=True))
        case c.ForgetRefusals():
            for pod in gang.members:
                draft.exclusions.pop(pod.member_class.anywhere, None)
            draft.put_gang(replace(gang, members=tuple(replace(pod, obstacle="") for pod in gang.members)))


def job_members(gangs: Iterable[Gang], job: str) -> tuple[Pod, ...]:
    """Pods of the gang of that name, else of the job of that name, in the order of their gangs' members."""
    listed = list(gangs)
    for gang in listed:
        if gang.key == job:
            return gang.members
    return tuple(pod for gang in listed for pod in gang.members if pod.job == job)


def workers_of(members: Sequence[Pod]) -> list[Pod]:
    """Those counted up and down, by ascending index: live workers, or every live member where no role is known."""
    live = [pod for pod in members if not pod.terminal and not pod.deleting]
    known = [pod for pod in live if pod.role is Role.WORKER]
    if not known and any(pod.role is not Role.OTHER for pod in live):
        return []
    return sorted(known or live, key=lambda pod: (pod.index is not None, pod.index or 0, pod.name))


def _grow(draft: Draft, change: c.JobGrows, workers: Sequence[Pod]) -> None:
    last = workers[-1]
    name = str(last.name).rpartition("-")[0] or str(last.name)
    key = last.group.key if last.group is not None else GangKey(change.job)
    more = c.AddPods(last.namespace, name, change.by)
    gang = draft.gangs[key]
    draft.put_gang(replace(gang, members=(*gang.members, *_fresh(draft, more, NO_RESOURCES, last, last.group))))


def _fresh(
    draft: Draft, change: c.AddPods, asked: Resources, like: Pod | None, group: GroupRef | None
) -> tuple[Pod, ...]:
    """New pods: as `like` before it got a node, else as the change says."""
    taken = {pod.name for gang in draft.gangs.values() for pod in gang.members if pod.namespace == change.namespace}
    taken |= {pod.name for pod in draft.others.values() if pod.namespace == change.namespace}
    free = (name for i in count() if (name := PodName(f"{change.name}-{i}")) not in taken)
    index = None if like is None or like.index is None else like.index + 1
    first = like if like is not None else _plain(change, asked, group)
    requests = asked if asked.items else first.requests
    if not requests.get(PODS):
        requests = requests + Resources.of({PODS: 1})
    member_class = replace(first.member_class, requests=requests)
    return tuple(
        replace(
            first,
            uid=PodUid(f"what-if/{change.namespace}/{name}"),
            name=name,
            namespace=change.namespace,
            member_class=member_class,
            node=change.node,
            phase=Phase.RUNNING if change.node is not None else Phase.PENDING,
            nominated_node=None,
            scheduled_s=draft.now_s if change.node is not None else None,
            created_s=draft.now_s,
            deleting=False,
            gates=(),
            admitted_to=None,
            unschedulable=False,
            group=group,
            index=None if index is None else index + i,
        )
        for i, name in enumerate(islice(free, change.count))
    )


def _plain(change: c.AddPods, requests: Resources, group: GroupRef | None) -> Pod:
    scheduler = "netgang" if group is not None else "default-scheduler"
    kind = MemberClass(Role.OTHER, requests, Constraints())
    name = PodName(change.name)
    return Pod(PodUid(""), change.namespace, name, kind, scheduler_name=scheduler, priority=change.priority)


def _template(members: Sequence[Pod]) -> Pod | None:
    """The member that new ones are like: the last worker, if possible one that was not admitted to certain nodes."""
    live = [pod for pod in members if not pod.terminal] or list(members)
    workers = [pod for pod in live if pod.role is Role.WORKER] or live
    free = [pod for pod in workers if pod.admitted_to is None] or workers
    return free[-1] if free else None


def _no_job(draft: Draft, job: str) -> c.MisfitError:
    some = ", ".join(sorted(draft.gangs)[:3])
    there = f"; there are {some}" if some else ""
    return c.MisfitError(f"job: no gang and no job {job} with workers is known{there}")


def gang_of(draft: Draft, key: GangKey) -> Gang:
    """The gang as it is by now. Errors: MisfitError."""
    if key not in draft.gangs:
        raise c.MisfitError(f"gang: no gang {key} is known")
    return draft.gangs[key]
