"""Put the use cases together over whatever cluster and sources there are.

The order of these lines is the order of listeners; what each part is made of stands in the modules beside this one.
Rule: nothing runs before `Service.run`.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from extender.bootstrap.candidacy import Candidacy
from extender.bootstrap.common import Common, common_of
from extender.bootstrap.parts.answers import answering_of
from extender.bootstrap.parts.controllers import Caring, caring_of
from extender.bootstrap.parts.elastic import Feeds
from extender.bootstrap.parts.network import NodesWatched, refresh_of
from extender.bootstrap.parts.starts import Starting, starting_of
from extender.bootstrap.service import Service
from extender.bootstrap.terms import FOLLOW, Terms, tasks_of
from extender.cache import ClusterCache
from extender.cache.seen_groups import SeenGroups
from extender.cache.unreadable import UnreadableObjects
from extender.kube.watch.reflector import Reflector
from extender.network.refresh import NetworkRefresh, Polled
from extender.notes import Notes
from extender.notes.keeper import KeyKeeper
from extender.ports import Clock, ClusterApi, Reviews
from extender.scheduling.admission.degraded_nodes import Degrading
from extender.scheduling.planning.housekeeping import Housekeeping
from extender.scheduling.watch_catchup import CatchUp
from extender.server.dispatch import Callers
from extender.server.tls.rotation import Rotation
from extender.settings.settings import Settings


def assemble(
    settings: Settings,
    cache: ClusterCache,
    api: ClusterApi,
    clock: Clock,
    rng: random.Random,
    *,
    reflectors: Mapping[str, Reflector[Any]],
    sources: Sequence[Polled],
    groups: SeenGroups | None = None,
    unreadable: UnreadableObjects | None = None,
    callers: Callers = Callers.SCHEDULER_AND_CURL,
    reviews: Reviews | None = None,
    stands: Candidacy | None = None,
    heard: Callable[[], None] = lambda: None,
    feeds: Feeds | None = None,
    notes: Notes,
    keys: KeyKeeper | None = None,
) -> Service:
    """The service over `cache`, which `reflectors` or the caller fill, writing through `api`.

    With `stands` it acts only while it leads; `heard` is called when the API server answers the election. `keys` keeps
    those of `notes`, where they are in the cluster.
    """
    common = common_of(
        settings,
        cache,
        api,
        clock,
        rng,
        notes=notes,
        reflectors=reflectors,
        unreadable=unreadable if unreadable is not None else UnreadableObjects(),
        stands=stands,
        feeds=feeds,
    )
    tls = Rotation(settings.tls, clock, common.telemetry) if settings.tls.cert_file is not None else None
    starting = starting_of(common)
    caring = caring_of(common, starting, groups)
    catch_up = CatchUp(cache, clock)
    refresh = refresh_of(settings, sources, common.planner, cache, clock, rng)
    answering = answering_of(common, starting, caring, catch_up, refresh, callers=callers, reviews=reviews)
    housekeeping = _listening(common, starting, caring, refresh)
    _follow_changes(common, catch_up)
    terms = Terms(common, starting, caring, housekeeping, refresh)
    tasks = tasks_of(common, starting, caring, terms) | {"housekeeping": housekeeping.run, **answering.tasks}
    if keys is not None:
        keys.acting, keys.on_change = common.acting, common.telemetry.note_keys
        tasks["keys for notes"] = keys.run
        tasks |= {name: partial(_after, keys.answered, run) for name, run in tasks.items() if name.startswith(FOLLOW)}
    if refresh is not None:
        tasks["network"] = refresh.run
    if tls is not None:
        tasks["certificates"] = tls.follow
    if common.leadership is not None:
        common.leadership.duties = terms.duties(heard)
        tasks["leadership"] = common.leadership.run
    return Service(
        cache,
        common.planner,
        starting.binds,
        starting.admissions,
        answering.verbs,
        answering.views,
        common.telemetry,
        *answering.ports,
        tls,
        tasks,
        common.leadership,
        answering.reports,
        caring.restarts,
        answering.feed,
    )


async def _after(first: asyncio.Event, run: Callable[[], Any]) -> None:
    """Run once `first` is set: notes on what is read then can be checked."""
    await first.wait()
    await run()


def _listening(common: Common, starting: Starting, caring: Caring, refresh: NetworkRefresh | None) -> Housekeeping:
    """The listeners to each new plan, in order."""
    settings, cache, planner, clock = common.settings, common.cache, common.planner, common.clock
    housekeeping = Housekeeping(
        cache,
        planner,
        starting.binds,
        starting.parking,
        starting.wakes,
        starting.admissions,
        starting.arrivals,
        starting.health,
        clock,
        also=caring.looks,
        acting=common.acting,
    )
    planner.subscribe(housekeeping.plan_made)
    planner.subscribe(lambda plan: starting.wakes.add(starting.plain.woken_by(plan)))
    if settings.network.unusable_loss_ratio is not None:
        degrading = Degrading(
            cache,
            starting.binds,
            clock,
            common.log,
            loss_ratio=settings.network.unusable_loss_ratio,
            hard_ttl_s=settings.network.hard_ttl_s.loss,
            exclusion_ttl_s=settings.exclusion_ttl_s,
        )
        planner.subscribe(degrading.look)
    planner.subscribe(lambda _: starting.context.quiet.look())
    planner.subscribe(lambda _: caring.overcommits.look())
    if refresh is not None:
        planner.subscribe(NodesWatched(cache, refresh.nodes_changed).look)
    return housekeeping


def _follow_changes(common: Common, catch_up: CatchUp) -> None:
    """The listeners to each change of the cache."""

    def changed() -> None:
        common.planner.mark_dirty()
        catch_up.changed()

    def came_true() -> None:
        common.planner.mark_expected()
        catch_up.changed()

    common.cache.on_change = changed
    common.cache.on_expected_change = came_true
