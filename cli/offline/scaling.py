"""The changes of the elastic jobs in a saved cluster: `netgang plan FILE --scaling ours|literal`.

Why: a user that sets a minimum wants to know beforehand what it costs, and results can be compared with the paper only
if its own algorithms can be run on the same cluster. Rules: jobs are read as the service reads them, and decided on by
the same functions; one pass, as if elastic jobs were switched on; no job asks by its metrics, which are in no file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from extender.cache import ClusterCache
from extender.controllers.elastic.elastic_context import pods_job
from extender.controllers.elastic.jobs.objects import target_from_json
from extender.controllers.elastic.jobs.views import Surroundings, gang_key_of, view_of
from extender.controllers.elastic.kinds import Kind, Seen, kinds_with, read
from extender.convert.clusterfile import ClusterFile, Other
from extender.errors import ConfigError
from extender.notes import UncheckedNotes
from extender.settings.settings import Settings
from scoring.ids import NodeName, PodUid
from scoring.model import Policy, Snapshot
from scoring.plan import Plan, PlannerCache
from scoring.scaling import kod2_literal
from scoring.scaling.adjust import adjust
from scoring.scaling.change import Change, No, Refusal
from scoring.scaling.job import ElasticJob, JobKey
from scoring.scaling.options import Condition, Options
from scoring.scaling.shrink.candidates import waiting_for_room
from scoring.scaling.shrink.scale_in import scale_in
from scoring.scaling.shrink.would_fit import in_turn

Document: TypeAlias = dict[str, Any]
Refusals: TypeAlias = Mapping[JobKey, Refusal]
Method: TypeAlias = Literal["ours", "literal"]
"""`ours`: whole gang, fewest workers, highest index; `literal`: as published, node by node (PAPERS K4, K5)."""
_AUTOSCALER: Final = "HorizontalPodAutoscaler"
_ONE_NODE: Final = "no node has room for the whole minimum, whatever workers go"


def kinds_to_keep(settings: Settings) -> frozenset[str]:
    """Kinds of objects that must be read with the cluster, besides pods and nodes."""
    return frozenset({_AUTOSCALER, *(kind.kind for kind in kinds_with(settings.elastic.scale_kinds).values())})


def scaling_document(
    name: str, saved: ClusterFile, cache: ClusterCache, made: Plan, settings: Settings, *, method: Method, now_s: float
) -> Document:
    """Jobs that would shrink, for which gang, and grow; `made`: the plan of the cache. ConfigError for a bad job."""
    listed, unknown = _seen(name, saved, kinds_with(settings.elastic.scale_kinds))
    jobs, refused = _jobs(name, saved, listed, cache, settings)
    snapshot, policy = cache.snapshot(), settings.policy()
    options = replace(settings.elastic.options(), enabled=True)
    decide = _ours if method == "ours" else _literal
    decided, refusals = decide(snapshot, made, [job for job, _ in jobs], policy, options, now_s=now_s)
    names = {pod.uid: str(pod.name) for gang in snapshot.gangs.values() for pod in gang.members}
    for change in (*decided["scale_in"]["changes"], *decided["scale_out"]["changes"]):
        change["pods"] = [names.get(uid, uid) for uid in change["pods"]]
    shown = [
        {
            "job": f"{job.key.namespace}/{job.key.name}",
            "kind": job.key.kind,
            "workers": {"min": job.min_workers, "now": job.workers, "max": job.max_workers},
            "min_from": source,
            "reason": refusals[job.key].reason.value if job.key in refusals else "",
            "detail": refusals[job.key].detail if job.key in refusals else "",
        }
        for job, source in jobs
    ]
    return {"method": method, **decided, "jobs": shown, "left_alone": refused, "problems": unknown}


def _seen(name: str, saved: ClusterFile, kinds: Mapping[str, Kind]) -> tuple[list[Seen], list[str]]:
    """All jobs of the file, and a sentence for each version that is not the one we know."""
    found: list[Seen] = []
    unknown: set[str] = set()
    for other in saved.others:
        kind = kinds.get(f"{other.kind}.{other.api_version.rpartition('/')[0]}")
        if kind is None:
            continue
        if kind.api_version != other.api_version:
            unknown.add(f"{other.kind} of {other.api_version} is not read: {kind.api_version} is")
            continue
        try:
            found.append(read(kind, other.raw, notes=UncheckedNotes()))
        except ValueError as error:
            raise ConfigError(f"{name}: items[{other.number}]: {error}") from error
    return found, sorted(unknown)


def _jobs(
    name: str, saved: ClusterFile, listed: Sequence[Seen], cache: ClusterCache, settings: Settings
) -> tuple[list[tuple[ElasticJob, str]], list[Document]]:
    """Jobs as decisions see them with where their minimum is from, and those that no decision hears of, with why."""
    scaled = {_target(name, other) for other in saved.others if other.kind == _AUTOSCALER}
    namesakes = Counter(pods_job(seen) for seen in listed)
    jobs: list[tuple[ElasticJob, str]] = []
    refused: list[Document] = []
    for seen in sorted(listed, key=lambda one: one.key):
        pods = cache.job_pods(pods_job(seen))
        gang = gang_key_of(pods)
        view = view_of(
            seen,
            pods,
            cache.gang(gang) if gang is not None else None,
            Surroundings(autoscaled=seen.key in scaled, namesake=namesakes[pods_job(seen)] > 1),
            default_wants=settings.elastic.metrics.default,
        )
        if view.job is not None:
            jobs.append((view.job, view.min_source))
        elif seen.claims:
            job = f"{seen.key.namespace}/{seen.key.name}"
            refused.append({"job": job, "kind": seen.key.kind, "reason": view.refusal or "it has ended"})
    return jobs, refused


def _target(name: str, other: Other) -> JobKey:
    try:
        return target_from_json(other.raw).job
    except ValueError as error:
        raise ConfigError(f"{name}: items[{other.number}]: {error}") from error


def _ours(
    snapshot: Snapshot, made: Plan, jobs: Sequence[ElasticJob], policy: Policy, options: Options, *, now_s: float
) -> tuple[Document, Refusals]:
    found = adjust(snapshot, made, jobs, {}, policy, options, now_s=now_s)
    given, grown = found.scale_in, found.scale_out
    document = {
        "scale_in": _document(given.changes, given.reason) | {"for": given.beneficiary, "detail": given.detail},
        "scale_out": _document(grown.changes, grown.reason),
    }
    return document, {one.job: one for one in (*grown.refusals, *given.refusals)}


def _literal(
    snapshot: Snapshot, made: Plan, jobs: Sequence[ElasticJob], policy: Policy, options: Options, *, now_s: float
) -> tuple[Document, Refusals]:
    """The published algorithms; whether scale-in is tried at all is up to `options.condition`, as it is with ours."""
    by_key = {job.key: job for job in jobs}
    key = next(iter(waiting_for_room(made)), None)
    removed: dict[JobKey, list[tuple[PodUid, NodeName]]] = {}
    reason: No | str | None = No.NOBODY_WAITS if key is None else None
    detail = ""
    if key is not None and _tried(snapshot, made, jobs, policy, options, now_s=now_s):
        ahead = in_turn(made, before=made.waiting[key].rank)
        found = kod2_literal.scale_in(snapshot, jobs, key, policy, decrement=options.decrement, ahead=ahead)
        if found.possible:
            detail = f"its whole minimum fits on node {found.node} then"
            for one in found.plan:
                removed.setdefault(one.job, []).append((one.pod, one.node))
        else:
            reason, detail = _ONE_NODE, f"{len(found.plan)} workers could go"
    elif key is not None:
        reason = No.NOT_HEAVIEST
    added: dict[JobKey, list[NodeName]] = {}
    if not removed:
        growth = kod2_literal.scale_out(snapshot, jobs, policy, increment=options.increment, ahead=in_turn(made))
        for job, node in growth:
            added.setdefault(job, []).append(node)
    fewer = [_changed(by_key[job], -len(gone), *zip(*gone, strict=True)) for job, gone in removed.items()]
    more = [_changed(by_key[job], len(nodes), (), nodes) for job, nodes in added.items()]
    document = {
        "scale_in": _document(fewer, reason) | {"for": key, "detail": detail},
        "scale_out": _document(more, No.ROOM_IS_WANTED if removed else None),
    }
    unsafe = {job.key: Refusal(job.key, No.UNSAFE, job.refusal) for job in jobs if job.refusal is not None}
    return document, unsafe


def _tried(
    snapshot: Snapshot, made: Plan, jobs: Sequence[ElasticJob], policy: Policy, options: Options, *, now_s: float
) -> bool:
    """Whether the published condition for scale-in, if it is asked for, holds."""
    if options.condition is not Condition.HEAVIEST:
        return True
    found = scale_in(snapshot, made, jobs, policy, options, now_s=now_s, cache=PlannerCache())
    return found.reason is not No.NOT_HEAVIEST


def _changed(job: ElasticJob, by: int, leaving: Sequence[PodUid], nodes: Sequence[NodeName]) -> Change:
    return Change(job.key, job.uid, job.workers, job.workers + by, tuple(leaving), tuple(nodes))


def _document(changes: Sequence[Change], reason: No | str | None) -> Document:
    """`pods` are those that leave, by uid; `nodes` theirs, or those on which added workers have room."""
    shown = [
        {
            "job": f"{change.job.namespace}/{change.job.name}",
            "kind": change.job.kind,
            "before": change.before,
            "after": change.after,
            "pods": list(change.leaving),
            "nodes": list(change.nodes),
        }
        for change in changes
    ]
    return {"changes": shown, "reason": "" if reason is None else str(reason)}
