"""Explain a gang, or suppose changes, from files and without a cluster: `netgang explain`, `netgang what-if`.

The same functions as behind /v1/explain and /v1/what-if; only where the cluster comes from differs.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from cli.offline.plan import filled_cache
from extender.api.documents.explain import explain_document, preemption_document, unblocking_document
from extender.api.documents.plan import supposed_document
from extender.api.what_if.question import policy_with, read_changes
from extender.cache import ClusterCache
from extender.errors import ConfigError
from extender.schemas.explain import Explained
from extender.schemas.what_if import Supposed
from extender.settings.settings import Settings
from scoring.explain.gang import explain
from scoring.explain.unblock import unblock
from scoring.ids import gang_key
from scoring.model import Gang
from scoring.plan import PlannerCache, plan
from scoring.what_if.changes import Change, MisfitError, RemovePods, WhatIf
from scoring.what_if.draft import Situation
from scoring.what_if.suppose import what_if


def explain_file(cluster: Path, mesh: Path | None, settings: Settings, name: str, *, now_s: float) -> Explained:
    """Why the gang or pod `name` (NAMESPACE/NAME) is where it is, and what would get it admitted.

    Errors: ConfigError for a bad file, and for a name that is not there.
    """
    _, cache = filled_cache(cluster, mesh, settings, now_s=now_s)
    gang = _gang(cache, name)
    snapshot, policy, known = cache.snapshot(), settings.policy(), PlannerCache()
    made = plan(snapshot, policy, now_s=now_s, cache=known)
    preemption = preemption_document(snapshot, gang.key, blocked=None)
    document = explain_document(explain(snapshot, made, gang, policy, now_s=now_s, cache=known), preemption)
    found = unblock(Situation(snapshot, policy, now_s), made, gang, cache=known)
    return msgspec.structs.replace(document, would_help=unblocking_document(found))


def what_if_file(
    cluster: Path, mesh: Path | None, settings: Settings, changes: Sequence[Change], *, now_s: float
) -> Supposed:
    """What the changes would make of the plan. Errors: ConfigError names the field that is wrong."""
    _, cache = filled_cache(cluster, mesh, settings, now_s=now_s)
    named = {key for change in changes if isinstance(change, RemovePods) for key in change.pods}
    others = {pod.key: pod for pod in cache.all_pods() if pod.key in named and cache.gang_of(pod.uid) is None}
    base = Situation(cache.snapshot(), settings.policy(), now_s, others, partial(policy_with, settings))
    try:
        within_bounds = read_changes(msgspec.json.encode(WhatIf(tuple(changes))))
        found = what_if(base, plan(base.snapshot, base.policy, now_s=now_s), within_bounds)
    except MisfitError as error:
        raise ConfigError(str(error)) from error
    return supposed_document(found, changes, now_s=now_s)


def _gang(cache: ClusterCache, name: str) -> Gang:
    namespace, slash, rest = name.partition("/")
    if not (namespace and slash and rest):
        raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
    gang = cache.gang(gang_key(namespace, rest))
    pod = cache.pod_by_name(namespace, rest)
    if gang is None and pod is not None:
        gang = cache.gang_of(pod.uid)
    if gang is None:
        known = ", ".join(sorted(cache.snapshot().gangs)[:5]) or "none"
        raise ConfigError(f"no gang, and no pod of a gang, is {name}; gangs of the file: {known}")
    return gang
