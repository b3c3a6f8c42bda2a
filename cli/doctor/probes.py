"""Ask the API server what netgang's account may, and sources and a running netgang how they do."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from cli.doctor.facts import Answered, Endpoints, Facts, Right
from cli.doctor.installation import needed
from client.documents import decoded, door, fetch
from extender.bootstrap.sources import closing, sources_of
from extender.errors import NetworkSourceError
from extender.kube import calls
from extender.kube.own_objects import STARTED_GANGS
from extender.network.answers import merged
from extender.network.mapping import map_nodes, measured_ends
from extender.ports import Batch, Clock
from extender.schemas import NetworkSources, Readiness
from extender.settings.network import FileSource
from extender.settings.settings import LEASE_NAME, Settings
from scoring.model import Node
from scoring.network.matrix import METRICS, MeasurementTable, Metric

_FETCH_S: Final = 90.0


async def ask_sources(seen: Facts, clock: Clock) -> Facts:
    """With what each source gives, asked once from here, but for files of the pod, which are not here."""
    settings = seen.settings
    there = [one for one in settings.network.sources if not isinstance(one, FileSource) or one.path.exists()]
    if settings.network.sources and not there:
        return seen
    chosen = replace(settings, network=replace(settings.network, sources=tuple(there)))
    problems: dict[str, str | None] = {}
    batches: list[Batch] = []
    for polled in sources_of(chosen):
        name = polled.source.name
        problems[name] = None
        async with closing(polled):
            try:
                async with asyncio.timeout(_FETCH_S):
                    batch = await polled.source.fetch(now_s=clock.now_s())
                if batch is not None:
                    batches.append(batch)
            except NetworkSourceError as error:
                problems[name] = str(error)
            except TimeoutError:
                problems[name] = f"no answer within {_FETCH_S:g} s"
    endpoints = _mapped(seen.nodes or (), batches, settings) if batches else None
    return replace(seen, sources=problems, endpoints=endpoints)


def _mapped(nodes: Sequence[Node], batches: Sequence[Batch], settings: Settings) -> Endpoints:
    measured = measured_ends(MeasurementTable.of(one.measurements) for one in batches)
    endpoints = merged(end for batch in batches for end in batch.endpoints)
    mapping = map_nodes(nodes, endpoints, settings.network, measured=measured)
    counts = {metric: of for metric, of in mapping.document(most=0).nodes.items() if measured[Metric(metric)]}
    unmapped = [set(mapping.unmapped[metric]) for metric in METRICS if measured[metric]]
    nowhere = set.intersection(*unmapped) if unmapped else set()
    return Endpoints(counts, tuple(sorted(map(str, nowhere))))


async def ask_running(seen: Facts, url: str) -> Facts:
    """With readiness, sources and mapping of a running netgang. Errors: ConfigError for an address that is none."""
    try:
        ready = await fetch(door(url), "/readyz")
        document = decoded(ready.content, Readiness, where=url)
    except NetworkSourceError as error:
        return replace(seen, answered=Answered(url, str(error)))
    network = document.detail.network or NetworkSources(())
    answered = Answered(url, None, document.ready, document.reasons, network.probe or None)
    sources = {one.name: one.error for one in network.sources}
    endpoints = Endpoints(network.mapping.nodes) if network.mapping else None
    return replace(seen, answered=answered, sources=sources, endpoints=endpoints)


Create: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


async def denied(create: Create, settings: Settings, account: str, namespace: str) -> tuple[Right, ...]:
    """Rights that `account`, its Lease in `namespace`, needs and has not. Errors: ApiError (403: we may not ask)."""
    myself = await create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    own = myself["status"]["userInfo"].get("username") == account
    kind = "SelfSubjectAccessReview" if own else "SubjectAccessReview"
    accounts = "system:serviceaccounts"
    groups = [accounts, f"{accounts}:{namespace}", "system:authenticated"]  # that it is in without saying so
    subject = {} if own else {"user": account, "groups": groups}
    rights = sorted(needed(settings))
    at_home: dict[Right, list[str]] = {  # right → the objects of netgang's own namespace for which it is needed
        **{right: [LEASE_NAME] for right in calls.rules(calls.LEADING)},
        **{right: [STARTED_GANGS] for right in calls.rules(calls.STARTED)},
    }

    async def may(right: Right, name: str | None) -> bool:
        verb, group, resource = right
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural}
        attributes |= {"subresource": subresource} if subresource else {}
        attributes |= {"namespace": namespace} if name is not None else {}
        attributes |= {"name": name} if name is not None and verb != "create" else {}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind}
        spec = {"resourceAttributes": attributes, **subject}
        answer = await create(f"/apis/authorization.k8s.io/v1/{kind.lower()}s", {**body, "spec": spec})
        return bool(answer["status"]["allowed"])

    asked = [(right, name) for right in rights for name in at_home.get(right, [None])]
    answers = await asyncio.gather(*(may(*one) for one in asked))
    refused = {right for (right, _), allowed in zip(asked, answers, strict=True) if not allowed}
    return tuple(right for right in rights if right in refused)
