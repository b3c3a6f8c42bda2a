"""What the page shows of one moment, in sections that change apart from each other, all from memory; and its addresses.

Why sections: a cluster of 5,000 nodes changes every second somewhere, and a viewer asks for those of its view and draws
what is new. So nothing in a section moves with the clock alone: times are moments, and the viewer counts. Lists say of
how many they are, what is empty is left out of rows, and a view of 1,000 gangs or nodes is below 500 KiB.

The heat-map is of one metric, by zone or, in one zone, by node. A cell of two zones shows the **median** between them,
with how many of its pairs are bad and the worst value: one bad node among nine must be seen, and must not look like a
bad zone. Units: ratio, ms, bit/s, seconds.

Rule: the page's own files hold no data and need no right; whatever shows the cluster is below /v1, where the port's
authority decides. Nothing is loaded from elsewhere, and a header has the browser refuse it (Content-Security-Policy).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args
from zlib import crc32

import msgspec
import numpy as np
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from extender.api.problems import problem_response
from extender.api.views import Views
from scoring import GangKey, NodeName, ZoneName
from scoring.model import Node, Reason, Snapshot
from scoring.model.pod import CPU, MEMORY, PODS
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Floats, Ints, Metric, group_medians
from scoring.network.node_links import Grade, are_bad, bounds_of, rows_of_ends
from scoring.plan import Plan
from scoring.records import Queue, Subject

Document = dict[str, Any]
Bools: TypeAlias = np.typing.NDArray[np.bool_]
View: TypeAlias = Literal["queue", "network", "cluster"]

MOST_GANGS: Final = 2000
MOST_NODES: Final = 2000
MOST_JOBS: Final = 100
MOST_ENDS: Final = 130  # Rows of a heat-map: 16,900 cells are about 200 KiB
MOST_MINUTES: Final = 720
MOST_MARKS: Final = 100
_OF_JOBS: Final = ("job", "gang", "kind", "state", "workers", "network", "refusal", "wish", "last_change")
_OF_DECISIONS: Final = ("what", "gang", "pod", "node", "reason")
_STEPS: Final = frozenset({"admit", "bind", "nudge", "post", "prioritize", "ungate"})  # Of each start, so no marks


@dataclass(eq=False, repr=False)
class RecentHistory:
    """The time axis: the last values of each minute with a plan, and what happened; of this process, bounded."""

    views: Views
    minutes: deque[tuple[float, int, int, int]] = field(default_factory=lambda: deque(maxlen=MOST_MINUTES), init=False)
    """Unix seconds, in use and all there is of the main resource, gangs that wait"""
    marks: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=MOST_MARKS), init=False)
    """Unix seconds, what, about whom"""
    _bad: frozenset[Subject] = field(default=frozenset(), init=False)
    _seen_s: float = field(default=0.0, init=False)  # Of the last decision that was looked at
    _resource: str = field(default="", init=False)

    def plan_made(self, plan: Plan) -> None:
        """Note how the cluster is. Cost: O(nodes + waiting gangs)."""
        snapshot, now_s = self.views.planner.snapshot, self.views.planner.now_s
        if snapshot is None:
            return
        column, minute_s = _columns(snapshot)[0], now_s // 60.0 * 60.0
        used, there = (int(amounts[:, column].sum()) for amounts in (snapshot.used, snapshot.table.allocatable))
        waiting = sum(wait.reason is not Reason.SURPLUS for wait in plan.waiting.values())
        if self._resource != (resource := snapshot.table.axis[column]):
            self.minutes.clear()  # amounts of two resources are no line
        elif self.minutes and self.minutes[-1][0] == minute_s:
            self.minutes.pop()
        self._resource = resource
        self.minutes.append((minute_s, used, there, waiting))
        news = [change for change in self.views.recent.changes() if change[0] > self._seen_s]
        for at_s, decision in reversed(news):
            if decision.what not in _STEPS:
                self.marks.append((at_s, decision.what, decision.gang or decision.pod))
        self._seen_s = news[0][0] if news else self._seen_s
        before, self._bad = self._bad, frozenset(links.about for links in self.views.alarms.look.degraded)
        for about in sorted(before ^ self._bad):
            what = "bad links" if about in self._bad else "good links"
            self.marks.append((now_s, what, f"{about.kind} {about.name}"))


def version(views: Views) -> tuple[object, ...]:
    """Something else than the last time if anything on the page may have changed. O(1)."""
    status, plan = views.network_status(), views.planner.current
    changed = (views.context.cache.version, plan.version, plan.network_version, views.recent.count)
    links = views.alarms.bad_now(), views.probe_agents()
    published = status.version if status is not None else None
    return (*changed, *links, views.binds.held_count, views.expected.looks, views.context.acting(), published)


async def sections_of(views: Views, history: RecentHistory, view: View) -> bytes:
    """All sections of the view as JSON. Cost: as /v1/queue, and in a thread O(nodes + pods)."""
    snapshot, plan = views.planner.snapshot or views.context.cache.snapshot(), views.planner.current
    queue = await views.queue()
    sections: dict[str, Any] = {"status": _status(views, snapshot, queue)}
    if view != "network":
        told = {gang.gang: _told(views, gang.gang) for gang in queue.gangs[:MOST_GANGS]}
        sections["queue"] = await asyncio.to_thread(queue_section, queue, snapshot, plan, told)
    if view == "queue" and views.jobs is not None:
        jobs = await views.jobs.listed(limit=MOST_JOBS)
        sections["jobs"] = {"rows": [_shown(job, *_OF_JOBS) for job in jobs.jobs], "of": jobs.of}
    if view != "queue":
        sections |= {"network": _network(views), "nodes": await asyncio.to_thread(_nodes, snapshot)}
    if view == "cluster":
        decisions = [{"at_s": at_s, **_shown(decision, *_OF_DECISIONS)} for at_s, decision in views.recent.changes()]
        minutes, marks = tuple(history.minutes), tuple(history.marks)
        sections["history"] = {"minutes": minutes, "marks": marks, "decisions": decisions}
    return await asyncio.to_thread(msgspec.json.encode, sections)


def _shown(source: object, *names: str) -> Document:
    return {name: getattr(source, name) for name in names}


def _status(views: Views, snapshot: Snapshot, queue: Queue) -> Document:
    return {
        **_shown(views.readiness(), "ready", "reasons"),
        "leading": views.context.acting(),
        "nodes": len(snapshot.table.names),
        "usable_nodes": sum(not _wrong(node) for node in snapshot.table.nodes),
        "gangs": queue.counts,
        "plan_version": views.planner.current.version,
        "demo": views.demo,
    }


def _wrong(node: Node) -> str:
    """Why no gang starts on it; empty: it may."""
    return "not ready" if not node.ready else "cordoned" if node.unschedulable else "leaving" if node.leaving else ""


def _columns(snapshot: Snapshot) -> list[int]:
    """The two extended resources that most nodes have, CPU, and memory; the first is what all is measured by."""
    table = snapshot.table
    spread, usual = (table.allocatable > 0).sum(axis=0), (CPU, MEMORY, PODS, "ephemeral-storage")
    extended = [column for column in np.argsort(-spread, kind="stable").tolist() if table.axis[column] not in usual]
    return [*[column for column in extended if spread[column]][:2], table.axis.index(CPU), table.axis.index(MEMORY)]


def _nodes(snapshot: Snapshot) -> Document:
    """Per node: name, zone, what is wrong with it, what is used and there of each resource, and its pods by gang."""
    table, gangs = snapshot.table, dict[NodeName, Counter[GangKey]]()
    for gang in snapshot.gangs.values():
        for pod in gang.members:
            if pod.node is not None and not pod.terminal:
                gangs.setdefault(pod.node, Counter())[gang.key] += 1
    columns, rows = _columns(snapshot), list[tuple[Any, ...]]()
    used, there = (amounts[:MOST_NODES, columns].tolist() for amounts in (snapshot.used, table.allocatable))
    for row, node in enumerate(table.nodes[:MOST_NODES]):
        rows.append((node.name, node.zone, _wrong(node), used[row], there[row], gangs.get(node.name, {})))
    return {"resources": [table.axis[column] for column in columns], "rows": rows, "of": len(table.nodes)}


def _network(views: Views) -> Document:
    status, fields = views.network_status(), ("name", "last_success_s", "error", "measurements", "since_s")
    sources = status.sources if status is not None else ()
    shown = [{**_shown(source, *fields), "problems": len(source.problems)} for source in sources]
    states = views.alarms.states
    bad = [(links, states[links.about].since_s if links.about in states else None) for links in views.alarms.bad_now()]
    degraded = [msgspec.structs.asdict(links) | {"since_s": since_s} for links, since_s in bad]
    return {"sources": shown, "degraded": degraded, "agents": views.probe_agents()}


def _told(views: Views, key: GangKey) -> Document:
    """What the service alone knows of a gang: how far its start is, and what one that runs has lost."""
    state = views.binds.state(key)
    held, posting = (len(state.held), len(state.posting)) if state is not None else (0, 0)
    stage = "committing" if posting else "held" if held else "admitted" if key in views.binds.admissions.open else ""
    return {"stage": stage, "at_bind": held + posting, "repair": views.repair(key)}


def queue_section(queue: Queue, snapshot: Snapshot, plan: Plan, told: Mapping[GangKey, Document]) -> Document:
    """The first gangs of the queue, with the planner's reason; the cause is in the document of /v1/explain."""
    fields = ("gang", "state", "rank", "waiting_since_s", "running_since_s", "admitted", "zone", "code", "leaves_for")
    rows, resource = list[Document](), snapshot.table.axis[_columns(snapshot)[0]]
    for gang in queue.gangs[:MOST_GANGS]:
        now, start = snapshot.gangs.get(gang.gang), gang.expected_start
        live = [pod for pod in now.members if not pod.terminal] if now is not None else []
        nodes = {node for pod in live if (node := pod.node or plan.node_of.get(pod.uid))}
        more = {
            "bad_link": gang.bad_link,
            "detail": gang.detail[:300],
            "weight": float(f"{gang.weight.omega_prime:.4g}"),
            **_shown(gang.members, "min_available", "pending", "running", "succeeded"),
            "expected": None if start is None else _shown(start, "start_s", "after"),
            "nodes": sorted(nodes)[:3],
            "of_nodes": len(nodes),
            "reserved": len(gang.held_nodes),
            "holds": sum(pod.requests.get(resource) for pod in live if pod.node is not None),
            "wants": sum(pod.requests.get(resource) for pod in live if pod.node is None),
        }
        row = _shown(gang, *fields) | more | told.get(gang.gang, {})
        rows.append({name: value for name, value in row.items() if value})
    reasons = {gang.code: gang.reason for gang in queue.gangs if gang.code}
    return {"order": queue.order, "reasons": reasons, "rows": rows, "of": len(queue.gangs)}


class _Cells(NamedTuple):
    ends: Sequence[str]
    of: int  # Ends there are, shown or not
    values: Floats
    ages_s: Floats
    own: Bools  # From an end to itself
    checked: Bools
    behind: Document  # More of that, for people


def mesh_document(
    snapshot: Snapshot, policy: ScorePolicy, *, metric: Metric, zone: str | None = None, node: str | None = None
) -> Document | None:
    """One metric as a matrix [from][to]: the zones, or the nodes of `zone` with `node` first; `None`: no such zone.

    `grades` has a letter a cell (see Grade; a space where nothing can be measured), `stale` a 1 where the value is
    older than the soft TTL. Cost: O(pairs of the metric), or O(nodes²) of the zone, at most 130 of them.
    """
    if zone is None:
        cells = _of_zones(snapshot, metric)
    elif (rows := snapshot.table.zones.get(ZoneName(zone))) is not None:
        cells = _of_nodes(snapshot, metric, rows, node)
    else:
        return None
    values, ages = cells.values, cells.ages_s
    bounds = bounds_of(metric, best=snapshot.network.best_bps)
    soft_s = policy.soft_ttl_s.for_metric(metric)
    bad = are_bad(metric, values, best=snapshot.network.best_bps)
    good = values >= bounds.good if bounds.highest_is_best else values <= bounds.good
    stale = ages > (np.inf if soft_s is None else soft_s)
    return {
        "metric": metric.value,
        "zone": zone,
        "ends": list(cells.ends),
        "of": cells.of,
        **_shown(bounds, "good", "poor", "highest_is_best"),
        "soft_ttl_s": soft_s,
        "grades": _letters(cells, good, bad),
        "stale": ["".join("1" if cell else "0" for cell in row) for row in stale.tolist()],
        "values": _shortened(values),
        "ages_s": [[None if age != age else round(age) for age in row] for row in ages.tolist()],
        **cells.behind,
    }


def _of_nodes(snapshot: Snapshot, metric: Metric, rows: Ints, node: str | None) -> _Cells:
    names = [snapshot.table.names[row] for row in rows]
    names.sort(key=lambda name: name != node)
    del names[MOST_ENDS:]
    block = snapshot.network.block(names, names)
    values, ages_s = block.values[metric], block.ages_s[metric]
    ends = np.array([snapshot.network.endpoint(name, metric) or "" for name in names])
    checked = (ends != "")[:, None] & (ends != "") & (ends[:, None] != ends)  # nodes at one end measure nothing between
    return _Cells(names, len(rows), values, ages_s, block.same, checked, {"pairs": None})


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
    poor = are_bad(metric, values, best=snapshot.network.best_bps)
    worst, oldest, median = np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan)
    (np.fmin if metric is Metric.THROUGHPUT else np.fmax).at(worst, cell, values)
    np.fmax.at(oldest, cell, ages_s)
    measured, medians, *_ = group_medians(cell, values)
    median[measured] = medians
    bad = np.bincount(cell[poor], minlength=size) if size else counts
    worst, counts = worst.reshape(shape), counts.reshape(shape)
    behind = {
        "pairs": counts.tolist(),  # With a value
        "bad": bad.reshape(shape).tolist(),
        "worst_values": _shortened(worst),
    }
    values, ages_s, own = median.reshape(shape), oldest.reshape(shape), np.zeros(shape, np.bool_)
    return _Cells(zones, len(table.zones), values, ages_s, own, counts > 0, behind)


def _letters(cells: _Cells, good: Bools, poor: Bools) -> list[str]:
    unknown = np.isnan(cells.values)
    letters = np.select(
        [cells.own, unknown & ~cells.checked, unknown, good, poor],
        [" ", Grade.UNCHECKED.value, Grade.UNKNOWN.value, Grade.GOOD.value, Grade.POOR.value],
        Grade.FAIR.value,
    )
    return ["".join(row) for row in letters.tolist()]


def _shortened(values: Floats) -> list[list[float | None]]:
    """Three digits are what a tooltip shows; NaN is null."""
    return [[None if value != value else float(f"{value:.3g}") for value in row] for row in values.tolist()]


@dataclass(eq=False, repr=False)
class Shown:
    """What the page shows, worked out once for all that look; nothing while no page asks."""

    sections: Callable[[], Awaitable[bytes]]  # As JSON
    version: Callable[[], object]  # Something else than the last time when there may be news
    _body: bytes = field(default=b"{}", init=False)
    _seen: object = field(default=None, init=False)
    _again_s: float = field(default=0.0, init=False)  # Not before that, by the loop's clock
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def render(self) -> tuple[bytes, str]:
        """All sections as JSON, at most some seconds old, and their entity tag."""
        async with self._looking:
            now_s = asyncio.get_running_loop().time()
            if now_s >= self._again_s and (version := self.version()) != self._seen:
                self._body = await self.sections()
                self._seen = version
                cost_s = asyncio.get_running_loop().time() - now_s
                self._again_s = now_s + min(max(cost_s * 25.0, 1.0), 5.0)  # pages take at most 1/25 of the time
            return self._body, f'"{crc32(self._body):x}"'


_TYPES: Final = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES: Final = {file.name: file for file in (files("extender.web") / "static").iterdir()}
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_Tag: TypeAlias = Annotated[str | None, Header(include_in_schema=False)]
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Nodes of this zone; else zone by zone")]
_Node: TypeAlias = Annotated[str | None, Query(max_length=253, description="One of the zone that is not left out")]


def page_router(views: Views) -> APIRouter:
    """The routes. Heat-maps are made once for all that look: of very large meshes one takes tens of milliseconds."""
    router = APIRouter(tags=["page"])
    history = RecentHistory(views)
    views.planner.subscribe(history.plan_made)
    news = partial(version, views)
    shown = {view: Shown(partial(sections_of, views, history, view), news) for view in get_args(View)}
    cached: dict[tuple[Metric, str | None, str | None], tuple[int, int, bytes | None]] = {}
    drawing = asyncio.Lock()

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @router.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _FILES:
            return problem_response(HTTPStatus.NOT_FOUND, f"the page has no file {name[:64]}")
        return _file(name)

    @router.get("/v1/page", summary="What a view of the page shows, section by section")
    async def sections(view: View = "queue", if_none_match: _Tag = None) -> Response:
        body, tag = await shown[view].render()
        headers = {"etag": tag, "cache-control": "no-cache"}
        if if_none_match == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    @router.get("/v1/page/mesh", summary="One metric as a heat-map: zone by zone, or node by node in one zone")
    async def heat_map(metric: Metric = Metric.LOSS, zone: _Zone = None, node: _Node = None) -> Response:
        snapshot = views.planner.snapshot or views.context.cache.snapshot()
        now, which = (snapshot.network.version, snapshot.table.version), (metric, zone, node)
        async with drawing:
            *before, body = cached.get(which, (-1, -1, None))
            if (*before,) != now:
                score = views.planner.policy.score
                ask = partial(mesh_document, snapshot, score, metric=metric, zone=zone, node=node)
                document = await asyncio.to_thread(ask)
                body = None if document is None else msgspec.json.encode(document)
                while len(cached) >= 8:
                    del cached[next(iter(cached))]
                cached[which] = (*now, body)
        if body is None:
            return problem_response(HTTPStatus.NOT_FOUND, "no node is in that zone")
        return Response(body, media_type="application/json")

    return router


def _file(name: str) -> Response:
    content_type = _TYPES[name.rpartition(".")[2]]
    return Response(_FILES[name].read_bytes(), headers={"content-type": content_type, **_HEADERS})
