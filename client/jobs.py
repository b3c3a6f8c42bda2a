"""Ask a running netgang for its jobs: the documents /v1/jobs and /v1/jobs/NAMESPACE/NAME.

Rule: as `client.network`: what is not netgang's document is one NetworkSourceError that names the address.
"""

from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from client.link import _detail
from client.network import ask
from extender.errors import ConfigError, NetworkSourceError

_T = TypeVar("_T")


class Workers(msgspec.Struct):
    """How many there are, and may be."""

    now: int
    min: int
    max: int


class Weight(msgspec.Struct):
    """KOD2's weight."""

    omega: float
    omega_prime: float


class Placement(msgspec.Struct):
    """Where the pods are: node → how many."""

    zones: list[str]
    nodes: dict[str, int]


class Metrics(msgspec.Struct):
    """What the job's own metrics ask for."""

    policy: str
    workers: int | None = None
    reason: str = ""
    detail: str = ""


class Reported(msgspec.Struct):
    """The last report."""

    step: int
    loss: float
    age_s: float
    samples_per_second: float | None = None


class Change(msgspec.Struct):
    """One change of the worker count."""

    before: int
    after: int
    who: str
    why: str
    stage: str
    decided_s: float
    took_s: float | None = None
    lost_pod_s: float | None = None


class RunningJob(msgspec.Struct):
    """The parts of a job's document that are shown to people; `changes` only where one job was asked for."""

    job: str
    kind: str
    state: str
    workers: Workers
    placement: Placement
    wish: str
    weight: Weight | None = None
    network: float | None = None
    refusal: str | None = None
    metrics: Metrics | None = None
    reported: Reported | None = None
    changes: list[Change] = []


class RunningJobs(msgspec.Struct):
    """The document of all jobs."""

    jobs: list[RunningJob]
    of: int


async def ask_jobs(
    url: str, *, namespace: str | None, limit: int, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[RunningJobs, bytes]:
    """All jobs, and the whole document as it came. Errors: ConfigError, NetworkSourceError."""
    query = {"limit": str(limit)} | ({"namespace": namespace} if namespace is not None else {})
    return await _asked(url, "/v1/jobs", query, RunningJobs, transport)


async def ask_job(
    url: str, job: str, *, kind: str | None, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[RunningJob, bytes]:
    """The job NAMESPACE/NAME, and the whole document. Errors: ConfigError (also: no such job), NetworkSourceError."""
    namespace, slash, name = job.partition("/")
    if not (namespace and slash and name):
        raise ConfigError(f"{job!r} is no NAMESPACE/NAME")
    path = f"/v1/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"
    return await _asked(url, path, {} if kind is None else {"kind": kind}, RunningJob, transport)


async def _asked(
    url: str, path: str, query: dict[str, str], kind: type[_T], transport: httpx.AsyncBaseTransport | None
) -> tuple[_T, bytes]:
    where = f"{url.rstrip('/')}{path}"
    response = await ask(where, query, url=url, transport=transport)
    if response.status_code in (400, 404, 409) and (said := _detail(response)):
        raise ConfigError(said)
    if response.status_code != httpx.codes.OK:
        raise NetworkSourceError(f"{where}: status {response.status_code}: {response.text[:160]}")
    try:
        return msgspec.json.decode(response.content, type=kind), response.content
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NetworkSourceError(f"{where}: not what netgang answers: {error}") from error
