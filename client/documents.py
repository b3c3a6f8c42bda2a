"""The documents of a running netgang, each by its schema.

Errors of each: ConfigError for an address that is none and for wrong use (a name that is not known, a field that is
wrong), NetworkSourceError when the answer is no document of netgang.
"""

from itertools import permutations
from typing import Final

import msgspec

from client.ask import Answer, address, ask, decoded, path_of
from client.connect.door import Door
from extender.errors import ConfigError
from extender.network.survey import Link, Survey
from extender.schemas import link as schema
from extender.schemas.explain import Explained, ExplainedPod
from extender.schemas.jobs import JobInFull, Jobs
from extender.schemas.network import Network, Pairs
from extender.schemas.queue import Queue
from extender.schemas.what_if import Supposed
from scoring.what_if.changes import WhatIf

_WHAT_IF_S: Final = 120.0
"""Trial plans of a large cluster, behind those of others."""


async def queue(door: Door) -> Answer[Queue]:
    """/v1/queue."""
    return await ask(door, "/v1/queue", Queue)


async def jobs(door: Door, *, namespace: str | None, limit: int) -> Answer[Jobs]:
    """/v1/jobs."""
    query = {"limit": str(limit)} | ({"namespace": namespace} if namespace is not None else {})
    return await ask(door, "/v1/jobs", Jobs, query=query)


async def job(door: Door, name: str, *, kind: str | None) -> Answer[JobInFull]:
    """/v1/jobs of the job NAMESPACE/NAME."""
    path = path_of("v1", "jobs", *_split(name))
    return await ask(door, path, JobInFull, query={} if kind is None else {"kind": kind})


async def network(door: Door, *, zone: str | None, limit: int) -> Answer[Network]:
    """/v1/network."""
    query = {"limit": str(limit)} | ({"zone": zone} if zone is not None else {})
    return await ask(door, "/v1/network", Network, query=query)


async def link(door: Door, source: str, target: str) -> Answer[schema.Link]:
    """/v1/network of two nodes."""
    return await ask(door, path_of("v1", "network", source, target), schema.Link)


async def explanation(door: Door, name: str) -> Answer[Explained | ExplainedPod]:
    """/v1/explain of the gang or pod NAMESPACE/NAME."""
    path = path_of("v1", "explain", *_split(name))
    found = await ask(door, path, _OfGang)
    kind: type[Explained] | type[ExplainedPod] = Explained if found.document.gang else ExplainedPod
    return Answer(decoded(found.body, kind, where=address(door, path)), found.body)


async def supposed(door: Door, body: WhatIf) -> Answer[Supposed]:
    """What /v1/what-if answers to a body of changes."""
    return await ask(door, "/v1/what-if", Supposed, body=body, timeout_s=_WHAT_IF_S)


async def survey_running(door: Door, *, zone: str | None, limit: int) -> Survey:
    """The links of /v1/network, as of a MaDDash server. Errors: also ConfigError for a zone that does not exist."""
    answer, _ = await network(door, zone=zone, limit=limit)
    if zone is not None and zone not in answer.zones:
        raise ConfigError(f"--zone {zone!r}: the cluster's zones are {', '.join(sorted(answer.zones)) or 'none'}")
    sources = answer.status.sources if answer.status else ()
    problems = tuple(text for one in sources for text in (*([one.error] if one.error else []), *one.problems))
    shown = len(answer.pairs.nodes)
    note = f"{shown} of {answer.pairs.of} nodes; see --zone and --limit" if shown < answer.pairs.of else ""
    return Survey(_links(answer.pairs), {}, problems, note)


def _links(pairs: Pairs) -> tuple[Link, ...]:
    links = []
    for (i, source), (j, target) in permutations(enumerate(pairs.nodes), 2):
        ages = (pairs.loss_age_s[i][j], pairs.delay_age_s[i][j], pairs.throughput_age_s[i][j])
        age_s = max((age for age in ages if age is not None), default=None)
        values = (pairs.loss_ratio[i][j], pairs.delay_ms[i][j], pairs.throughput_bps[i][j])
        links.append(Link(source, target, *values, age_s))
    return tuple(links)


class _OfGang(msgspec.Struct):
    """Whether a document explains a gang, or a pod of no gang."""

    gang: str = ""


def _split(name: str) -> tuple[str, str]:
    namespace, _, rest = name.partition("/")
    if not (namespace and rest):
        raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
    return namespace, rest
