"""Ask a running netgang for the links between its nodes: the document /v1/network.

Rule: whatever answers there is not trusted to be netgang; what is not its document is one NetworkSourceError that
names the address.
"""

from dataclasses import replace
from typing import Any, Final

import httpx
import msgspec

from extender.errors import ConfigError, NetworkSourceError
from extender.network.survey import Link, Survey

_TIMEOUT_S: Final = 30.0


class _Pairs(msgspec.Struct):
    """The part `pairs` of /v1/network."""

    nodes: list[str]
    of: int
    loss_ratio: list[list[float | None]]
    delay_ms: list[list[float | None]]
    throughput_bps: list[list[float | None]]
    loss_age_s: list[list[float | None]]
    delay_age_s: list[list[float | None]]
    throughput_age_s: list[list[float | None]]


class _Status(msgspec.Struct):
    sources: list[dict[str, Any]] = []


class _Answer(msgspec.Struct):
    pairs: _Pairs
    zones: dict[str, int]
    status: _Status | None = None


async def survey_running(
    url: str, *, zone: str | None, limit: int, transport: httpx.AsyncBaseTransport | None = None
) -> Survey:
    """Ask a running netgang for the links between its nodes.

    Errors: ConfigError for a bad address or a zone that does not exist, NetworkSourceError without a usable answer.
    """
    where = f"{url.rstrip('/')}/v1/network"
    query = {"limit": str(limit)} | ({"zone": zone} if zone is not None else {})
    response = await ask(where, query, url=url, transport=transport)
    if response.status_code != httpx.codes.OK:
        raise NetworkSourceError(f"{where}: status {response.status_code}: {response.text[:160]}")
    try:
        answer = msgspec.json.decode(response.content, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NetworkSourceError(f"{where}: not what netgang answers: {error}") from error
    if zone is not None and zone not in answer.zones:
        raise ConfigError(f"--zone {zone!r}: the cluster's zones are {', '.join(sorted(answer.zones)) or 'none'}")
    problems = tuple(
        str(problem)
        for source in (answer.status.sources if answer.status is not None else ())
        for problem in (*([source["error"]] if source.get("error") else []), *source.get("problems", ()))
    )
    shown = len(answer.pairs.nodes)
    note = f"{shown} of {answer.pairs.of} nodes; see --zone and --limit" if shown < answer.pairs.of else ""
    return Survey(_running_links(answer.pairs), {}, problems, note)


async def ask(
    where: str, query: dict[str, str], *, url: str, transport: httpx.AsyncBaseTransport | None
) -> httpx.Response:
    """One GET at a running netgang, whose address `url` is.

    Errors: ConfigError for an address that is none, NetworkSourceError without an answer.
    """
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, transport=transport) as client:
            return await client.get(where, params=query)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ConfigError(f"--url {url!r}: {error}; accepted: http://HOST:PORT") from error
    except httpx.HTTPError as error:
        raise NetworkSourceError(f"{where}: {str(error) or type(error).__name__}; does netgang run there?") from error


def _running_links(pairs: _Pairs) -> tuple[Link, ...]:
    links = []
    for i, source in enumerate(pairs.nodes):
        for j, target in enumerate(pairs.nodes):
            if i == j:
                continue
            ages = (pairs.loss_age_s[i][j], pairs.delay_age_s[i][j], pairs.throughput_age_s[i][j])
            known = [age for age in ages if age is not None]
            link = Link(source, target, pairs.loss_ratio[i][j], pairs.delay_ms[i][j], pairs.throughput_bps[i][j])
            links.append(replace(link, age_s=max(known)) if known else link)
    return tuple(links)
