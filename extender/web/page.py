"""What the page shows of one moment, in sections that change apart from each other, all from memory; and its addresses.

Why sections: a cluster of 5,000 nodes changes every second somewhere, and a viewer draws only what is new. So nothing
in a section moves with the clock alone: times are moments, and the viewer counts. Lists say of how many they are, and
all is below 500 KiB however large the cluster.

The heat-map is of one metric, by zone or, in one zone, by node. A cell of two zones shows the **median** between them,
and beside it how many of its pairs are bad, the worst value and the node with most bad pairs: one bad node among nine
must be seen, and must not look like a bad zone. Units: ratio, ms, bit/s, seconds.

Rule: the page's own files hold no data and need no right; whatever shows the cluster is below /v1, where the port's
authority decides. Nothing is loaded from elsewhere, and a header has the browser refuse it (Content-Security-Policy).
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from extender.api.problems import problem_response
from extender.api.views import Views
from extender.runtime.slices import next_slice
from scoring import PodUid, ZoneName
from scoring.model import Pod, Snapshot
from scoring.model.pod import CPU, MEMORY, PODS
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Floats, Ints, Metric, group_medians
from scoring.network.node_links import Grade, GradeBounds, bounds_of, rows_of_ends
from scoring.records import Queue

Document = dict[str, Any]
Bools: TypeAlias = np.typing.NDArray[np.bool_]
Sections = Mapping[str, bytes]

MOST_GANGS: Final = 150
MOST_GATES: Final = 40
MOST_ZONES: Final = 100
MOST_JOBS: Final = 100
MOST_ENDS: Final = 130  # Rows of a heat-map: 16,900 cells are about 200 KiB, still two pixels each on a small screen


def version(views: Views) -> tuple[object, ...]:
    """Something else than the last time if anything on the page may have changed. O(1)."""
    status, plan = views.network_status(), views.planner.current
    changed = (views.context.cache.version, plan.version, plan.network_version, views.recent.count)
    links = views.alarms.bad_now(), views.probe_agents()
    published = status.version if status is not None else None
    return (*changed, *links, views.binds.held_count, views.expected.looks, views.context.acting(), published)


async def sections_of(views: Views) -> Sections:
    """Every section as JSON. Cost: as /v1/queue, and O(nodes)."""
    sections: dict[str, bytes] = {}
    snapshot = views.planner.snapshot or views.context.cache.snapshot()
    for name, section in {"status": _status, "zones": _zones, "gates": _gates, "network": _network}.items():
        sections[name] = msgspec.json.encode(section(views, snapshot))
        await next_slice()
    told = ("what", "gang", "pod", "node", "reason")
    decisions = [{"at_s": at_s, **_shown(decision, *told)} for at_s, decision in views.recent.changes()]
    sections["decisions"] = msgspec.json.encode({"rows": decisions})
    if views.jobs is not None:
        jobs = await views.jobs.listed(limit=MOST_JOBS)
        shown = ("job", "kind", "state", "workers", "network", "refusal", "wish", "last_change")
        sections["jobs"] = msgspec.json.encode({"rows": [_shown(job, *shown) for job in jobs.jobs], "of": jobs.of})
    sections["queue"] = msgspec.json.encode(queue_section(await views.queue()))
    return sections


def _shown(source: object, *names: str) -> Document:
    return {name: getattr(source, name) for name in names}


def _status(views: Views, snapshot: Snapshot) -> Document:
    return {
        **_shown(views.readiness(), "ready", "reasons"),
        "leading": views.context.acting(),
        "nodes": len(snapshot.table.names),
        "usable_nodes": int(_usable(snapshot).sum()),
        "held_binds": views.binds.held_count,
        "plan_version": views.planner.current.version,
        "demo": views.demo,
    }


def _usable(snapshot: Snapshot) -> Bools:
    nodes = snapshot.table.nodes
    return np.array([node.ready and not node.unschedulable and not node.leaving for node in nodes], np.bool_)


def _zones(views: Views, snapshot: Snapshot) -> Document:
    """Per zone: nodes, what is free of each resource on usable nodes, and for which gangs room is reserved."""
    table = snapshot.table
    usable = _usable(snapshot)
    spread = (table.allocatable > 0).sum(axis=0)
    usual = (CPU, MEMORY, PODS, "ephemeral-storage")
    extended = [column for column in np.argsort(-spread, kind="stable").tolist() if table.axis[column] not in usual]
    plain = [column for column, name in enumerate(table.axis) if name in (CPU, MEMORY)]
    shown = [*plain, *extended][:4]  # cpu, memory, and the two extended resources that most nodes have
    free = np.maximum(table.allocatable - snapshot.used, 0)
    held: dict[str, list[str]] = {}
    for reserved in views.planner.current.held.values():
        for zone in reserved.zones:
            held.setdefault(zone, []).append(reserved.gang)
    zones = []
    for zone, rows in list(table.zones.items())[:MOST_ZONES]:
        use = rows[usable[rows]]
        zones.append(
            {
                "zone": zone,
                "nodes": len(rows),
                "usable": len(use),
                "resources": {
                    table.axis[column]: [int(free[use, column].sum()), int(table.allocatable[use, column].sum())]
                    for column in shown
                    if table.allocatable[rows, column].any()
                },
                "held_for": sorted(held.get(zone, [])),
            }
        )
    return {"rows": zones, "of": len(table.zones)}


def _gates(views: Views, snapshot: Snapshot) -> Document:
    keys = sorted(views.binds.gangs_under_way())
    rows = []
    for key in keys[:MOST_GATES]:
        gang, state = snapshot.gangs.get(key), views.binds.state(key)
        if gang is None:
            continue
        held, posting = (state.held, len(state.posting)) if state is not None else ((), 0)
        rows.append(
            {
                "gang": key,
                "stage": "committing" if posting else "held" if held else "being admitted",
                "least": gang.min_member,
                "bound": len(gang.placed),
                "held": len(held),
                "posting": posting,
                "pods": len(gang.members),
                "members": [_letter(pod, held) for pod in gang.members[:64]],
            }
        )
    return {"rows": rows, "of": len(keys)}


def _letter(pod: Pod, held: Container[PodUid]) -> str:
    if pod.node is not None:
        return "b"  # Bound
    if pod.uid in held:
        return "h"  # At bind
    return "g" if pod.gates else "w"  # Gated, waiting


def _network(views: Views, _: Snapshot) -> Document:
    status, fields = views.network_status(), ("name", "last_success_s", "error", "measurements", "since_s")
    sources = status.sources if status is not None else ()
    shown = [{**_shown(source, *fields), "problems": len(source.problems)} for source in sources]
    return {"sources": shown, "degraded": views.alarms.bad_now(), "agents": views.probe_agents()}


def queue_section(queue: Queue) -> Document:
    """The first gangs of the queue, with the planner's reason; the cause is in the document of /v1/explain."""
    fields = ("gang", "state", "rank", "priority", "waiting_since_s", "running_since_s", "admitted", "zone", "reason")
    rows = []
    for gang in queue.gangs[:MOST_GANGS]:
        more = {
            "detail": gang.detail[:300],
            "weight": float(f"{gang.weight.omega_prime:.4g}"),
            "members": list(_shown(gang.members, "min_available", "pending", "running", "succeeded").values()),
            "starves": gang.starves_in_s is not None and gang.state == "WAITING",
            "expected": None if gang.expected_start is None else _shown(gang.expected_start, "start_s", "after"),
        }
        rows.append(_shown(gang, *fields) | more)
    return {"order": queue.order, "counts": queue.counts, "rows": rows, "of": len(queue.gangs)}


class _Cells(NamedTuple):
    ends: Sequence[str]
    of: int  # Ends there are, shown or not
    values: Floats
    ages_s: Floats
    own: Bools  # From an end to itself
    checked: Bools
    worst: Floats  # Of what is behind each cell
    behind: Document  # More of that, for people


def mesh_document(
    snapshot: Snapshot, policy: ScorePolicy, *, metric: Metric, zone: str | None = None
) -> Document | None:
    """One metric as a matrix [from][to]; `zone`: the nodes of that zone, else the zones; `None`: no such zone.

    `grades` has a letter a cell (see Grade; a space where nothing can be measured), `stale` a 1 where the value is
    older than the soft TTL. Cost: O(pairs of the metric), or O(nodes²) of the zone, at most 130 of them.
    """
    if zone is None:
        cells = _of_zones(snapshot, metric)
    elif (rows := snapshot.table.zones.get(ZoneName(zone))) is not None:
        cells = _of_nodes(snapshot, metric, rows)
    else:
        return None
    values, ages = cells.values, cells.ages_s
    bounds = bounds_of(metric, best=snapshot.network.best_bps)
    soft_s, hard_s = policy.soft_ttl_s.for_metric(metric), policy.hard_ttl_s.for_metric(metric)
    stale = ages > (np.inf if soft_s is None else soft_s)
    return {
        "version": snapshot.network.version,
        "metric": metric.value,
        "zone": zone,
        "ends": list(cells.ends),
        "of": cells.of,
        **_shown(bounds, "good", "poor", "highest_is_best"),
        "soft_ttl_s": soft_s,
        "hard_ttl_s": hard_s,
        "grades": _letters(cells, bounds),
        "stale": ["".join("1" if cell else "0" for cell in row) for row in stale.tolist()],
        "values": _shortened(values),
        "ages_s": [[None if age != age else round(age) for age in row] for row in ages.tolist()],
        "worst": _worst(cells, metric),
        **cells.behind,
    }


def _of_nodes(snapshot: Snapshot, metric: Metric, rows: Ints) -> _Cells:
    names = [snapshot.table.names[row] for row in rows[:MOST_ENDS]]
    block = snapshot.network.block(names, names)
    values, ages_s = block.values[metric], block.ages_s[metric]
    mapped = np.array([snapshot.network.endpoint(name, metric) is not None for name in names], np.bool_)
    checked = mapped[:, None] & mapped[None, :]
    return _Cells(names, len(rows), values, ages_s, block.same, checked, values, {"pairs": None})


def _of_zones(snapshot: Snapshot, metric: Metric) -> _Cells:
    table, network = snapshot.table, snapshot.network
    zones = list(table.zones)[:MOST_ENDS]
    number = {zone: i for i, zone in enumerate(zones)}
    row_of = rows_of_ends(network, table.index, metric)
    zone_of = np.array([*(number.get(node.zone, -1) for node in table.nodes), -1], np.int64)
    sources, targets, values, ages_s = network.measured_values(metric)
    a, b = row_of[sources], row_of[targets]
    inside = (zone_of[a] >= 0) & (zone_of[b] >= 0)
    a, b, values, ages_s = a[inside], b[inside], values[inside], ages_s[inside]
    shape, size = (len(zones), len(zones)), len(zones) ** 2
    cell = zone_of[a] * len(zones) + zone_of[b]
    counts = np.bincount(cell, minlength=size) if size else np.zeros(0, np.int64)
    bounds = bounds_of(metric, best=snapshot.network.best_bps)
    poor = values < bounds.poor if bounds.highest_is_best else values >= bounds.poor
    worst, oldest, median = np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan)
    (np.fmin if bounds.highest_is_best else np.fmax).at(worst, cell, values)
    np.fmax.at(oldest, cell, ages_s)
    measured, medians, *_ = group_medians(cell, values)
    median[measured] = medians
    bad = np.bincount(cell[poor], minlength=size) if size else counts
    worst, counts = worst.reshape(shape), counts.reshape(shape)
    behind = {
        "pairs": counts.tolist(),  # With a value
        "bad": bad.reshape(shape).tolist(),
        "worst_values": _shortened(worst),
        "worst_at": _worst_nodes(snapshot, cell, a, b, poor, shape),
    }
    values, ages_s, own = median.reshape(shape), oldest.reshape(shape), np.zeros(shape, np.bool_)
    return _Cells(zones, len(table.zones), values, ages_s, own, counts > 0, worst, behind)


def _worst_nodes(
    snapshot: Snapshot, cell: Ints, a: Ints, b: Ints, poor: Bools, shape: tuple[int, int]
) -> list[list[str | None]]:
    """Per cell the node with most bad pairs, of equal ones the first; None: there is none. Cost: O(bad pairs)."""
    names: list[list[str | None]] = [[None] * shape[1] for _ in range(shape[0])]
    nodes = max(len(snapshot.table.names), 1)
    keys, counts = np.unique(np.concatenate([cell[poor] * nodes + ends[poor] for ends in (a, b)]), return_counts=True)
    for at in np.argsort(counts, kind="stable").tolist():  # the last that is written has most
        of_cell, row = divmod(int(keys[at]), nodes)
        names[of_cell // shape[1]][of_cell % shape[1]] = snapshot.table.names[row]
    return names


def _letters(cells: _Cells, bounds: GradeBounds) -> list[str]:
    values, unknown = cells.values, np.isnan(cells.values)
    if bounds.highest_is_best:
        good, poor = values >= bounds.good, values < bounds.poor
    else:
        good, poor = values <= bounds.good, values >= bounds.poor
    letters = np.select(
        [cells.own, unknown & ~cells.checked, unknown, good, poor],
        [" ", Grade.UNCHECKED.value, Grade.UNKNOWN.value, Grade.GOOD.value, Grade.POOR.value],
        Grade.FAIR.value,
    )
    return ["".join(row) for row in letters.tolist()]


def _worst(cells: _Cells, metric: Metric) -> list[list[int]]:
    """(row, column) of the worst cells, worst first; of equal ones the first."""
    order = cells.worst if metric is Metric.THROUGHPUT else -cells.worst
    flat = np.where(cells.own | np.isnan(order), np.inf, order).ravel()
    first = np.argsort(flat, kind="stable")[:8]
    return [list(divmod(int(at), len(cells.ends))) for at in first if np.isfinite(flat[at])]


def _shortened(values: Floats) -> list[list[float | None]]:
    """Three digits are what a tooltip shows; NaN is null."""
    return [[None if value != value else float(f"{value:.3g}") for value in row] for row in values.tolist()]


@dataclass(eq=False, repr=False)
class Shown:
    """What the page shows, worked out once for all that look; nothing while no page asks."""

    sections: Callable[[], Awaitable[Sections]]
    version: Callable[[], object]  # Something else than the last time when there may be news
    _body: bytes = field(default=b"{}", init=False)
    _seen: object = field(default=None, init=False)
    _again_s: float = field(default=0.0, init=False)  # Not before that, by the loop's clock
    _number: int = field(default=0, init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def render(self) -> tuple[bytes, str]:
        """All sections as JSON, at most some seconds old, and their entity tag."""
        async with self._looking:
            now_s = asyncio.get_running_loop().time()
            if now_s >= self._again_s and (version := self.version()) != self._seen:
                self._seen = version
                sections = await self.sections()
                cost_s = asyncio.get_running_loop().time() - now_s
                body = b",".join(b"%s:%s" % (msgspec.json.encode(name), text) for name, text in sections.items())
                self._number += b"{%s}" % body != self._body
                self._body = b"{%s}" % body
                self._again_s = now_s + min(max(cost_s * 25.0, 1.0), 5.0)  # pages take at most 1/25 of the time
            return self._body, f'"{self._number}"'


_TYPES: Final = {
    "html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml",
}  # fmt: skip
_FILES: Final = (
    "page.css", "page.js", "poll.js", "draw.js", "heat.js", "links.js", "panels.js", "explain.js", "icon.svg",
)  # fmt: skip
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Nodes of this zone; else zone by zone")]


def page_router(views: Views) -> APIRouter:
    """The routes. Heat-maps are made once for all that look: of very large meshes one takes tens of milliseconds."""
    router = APIRouter(tags=["page"])
    shown = Shown(partial(sections_of, views), partial(version, views))
    cached: dict[tuple[Metric, str | None], tuple[object, object, bytes | None]] = {}

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @router.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _FILES:
            return problem_response(HTTPStatus.NOT_FOUND, f"the page has no file {name[:64]}")
        return _file(name)

    @router.get("/v1/page", summary="What the page shows, section by section")
    async def sections(if_none_match: Annotated[str | None, Header(include_in_schema=False)] = None) -> Response:
        body, tag = await shown.render()
        headers = {"etag": tag, "cache-control": "no-cache"}
        if if_none_match == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    @router.get("/v1/page/mesh", summary="One metric as a heat-map: zone by zone, or node by node in one zone")
    async def heat_map(metric: Metric = Metric.LOSS, zone: _Zone = None) -> Response:
        snapshot = views.planner.snapshot or views.context.cache.snapshot()
        network, table, body = cached.get((metric, zone), (None, None, None))
        if network is not snapshot.network or table is not snapshot.table:
            score = views.planner.policy.score
            document = await asyncio.to_thread(mesh_document, snapshot, score, metric=metric, zone=zone)
            body = None if document is None else msgspec.json.encode(document)
            while len(cached) >= 8:
                del cached[next(iter(cached))]
            cached[metric, zone] = snapshot.network, snapshot.table, body
        if body is None:
            return problem_response(HTTPStatus.NOT_FOUND, "no node is in that zone")
        return Response(body, media_type="application/json")

    return router


def _file(name: str) -> Response:
    body = (files("extender.web") / "static" / name).read_bytes()
    return Response(body, headers={"content-type": _TYPES[name.rpartition(".")[2]], **_HEADERS})
