"""The links between the nodes of a running netgang, as the command line shows those of a MaDDash server, too."""

from dataclasses import replace

from client.connect import Door
from client.documents import network
from extender.api.schemas.network import Pairs
from extender.errors import ConfigError
from extender.network.survey import Link, Survey


async def survey_running(door: Door, *, zone: str | None, limit: int) -> Survey:
    """The links of /v1/network. Errors: as `client.documents`; ConfigError for a zone that does not exist."""
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
    for i, source in enumerate(pairs.nodes):
        for j, target in enumerate(pairs.nodes):
            if i == j:
                continue
            ages = (pairs.loss_age_s[i][j], pairs.delay_age_s[i][j], pairs.throughput_age_s[i][j])
            known = [age for age in ages if age is not None]
            link = Link(source, target, pairs.loss_ratio[i][j], pairs.delay_ms[i][j], pairs.throughput_bps[i][j])
            links.append(replace(link, age_s=max(known)) if known else link)
    return tuple(links)
