"""Put the use cases together over whatever cluster and sources there are.

The order of these lines is the order of listeners; what each part is made of stands in the modules beside this one.
Rule: nothing runs before `Service.run`.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from extender.bootstrap.common import Common
from extender.bootstrap.parts.answers import service_of
from extender.bootstrap.parts.controllers import Caring
from extender.bootstrap.parts.network import NodesWatched, refresh_of
from extender.bootstrap.parts.starts import Starting
from extender.bootstrap.service import Service
from extender.bootstrap.terms import FOLLOW, Terms, tasks_of
from extender.cache.seen_groups import SeenGroups
from extender.network.refresh import NetworkRefresh, Polled
from extender.notes.keeper import KeyKeeper
from extender.ports import Reviews
from extender.scheduling.admission.degraded_nodes import Degrading
from extender.scheduling.planning.housekeeping import Housekeeping
from extender.scheduling.watch_catchup import CatchUp
from extender.server.dispatch import Callers


def assemble(
    common: Common,
    groups: SeenGroups,
    sources: Sequence[Polled],
    *,
    callers: Callers = Callers.SCHEDULER_AND_CURL,
    reviews: Reviews | None = None,
    heard: Callable[[], None] = lambda: None,
    keys: KeyKeeper | None = None,
) -> Service:
    """The service over what `common` follows, or over what the caller has put into the cache.

    `heard` is called when the API server answers the election. `keys` keeps those for notes, where they are in the
    cluster.
    """
    cache, clock = common.cache, common.clock
    starting = Starting(common)
    caring = Caring(common, starting, groups)
    catch_up = CatchUp(cache, clock)
    refresh = refresh_of(common.settings, sources, common.planner, cache, clock, common.rng)
    housekeeping = _listening(common, starting, caring, refresh)
    _follow_changes(common, catch_up)
    terms = Terms(common, starting, caring, housekeeping, refresh)
    tasks = tasks_of(common, starting, caring, terms) | {"housekeeping": housekeeping.run}
    if keys is not None:
        keys.acting, keys.on_change = common.acting, common.telemetry.note_keys
        tasks["keys for notes"] = keys.run
        tasks |= {name: partial(_after, keys.answered, run) for name, run in tasks.items() if name.startswith(FOLLOW)}
    if refresh is not None:
        tasks["network"] = refresh.run
    if common.leadership is not None:
        common.leadership.duties = terms.duties(heard)
        tasks["leadership"] = common.leadership.run
    return service_of(common, starting, caring, catch_up, refresh, tasks, callers=callers, reviews=reviews)


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
        starting.health,
        clock,
        also=caring.looks,
        acting=common.acting,
    )
    planner.subscribe(housekeeping.plan_made)
    planner.subscribe(lambda plan: starting.wakes.add(starting.plain.woken_by(plan)))
    if settings.network.unusable_loss_ratio is not None:
        hard_ttl_s = settings.network.hard_ttl_s.loss
        degrading = Degrading(
            cache,
            starting.binds,
            clock,
            common.log,
            loss_ratio=settings.network.unusable_loss_ratio,
            hard_ttl_s=math.inf if hard_ttl_s is None else hard_ttl_s,
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
