"""Hostile objects of every kind stop nothing: a short run of `python -m tests.fuzz` (docs/safety.md S21)."""

import gc
import linecache
import logging
import random
import tracemalloc
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from extender.kube.calls import NODES, POD_GROUPS, PODS
from tests.extender.scheduling.world import node_json, unfinished
from tests.fuzz.followed import Followed
from tests.fuzz.mutate import mutated, recorded
from tests.fuzz.runs import read_objects, read_texts

SEED = 20


def test_each_kind_that_is_followed_was_recorded() -> None:
    assert Followed().reflectors.keys() == recorded().keys()


@pytest.mark.slow
async def test_no_object_leaves_its_reader() -> None:
    found = await read_objects(1000, seed=SEED)
    assert (found.objects, found.relists_and_errors) == (1000, {})
    assert found.mean_ms < 20.0  # of CPU; a liveness bound: 0.4 when this was written
    assert len([kind for kind, count in found.unreadable.items() if count]) > 8


def test_no_text_leaves_its_reader() -> None:
    assert read_texts(40, seed=SEED).objects > 300


@pytest.mark.slow
async def test_what_is_left_of_objects_that_are_gone_is_bounded() -> None:
    rng, kinds = random.Random(SEED), recorded()
    order = [rng.choice(sorted(kinds)) for _ in range(40)]
    batches = [(kind, [mutated(rng, kinds[kind]) for _ in range(10)]) for kind in order]
    assert sum(len(raw) for _, batch in batches for raw in batch) > 20 * 2**20
    async with Followed() as followed:
        for kind, objects in kinds.items():
            await followed.take(kind, [msgspec.json.encode(one) for one in objects])
        tracemalloc.start()
        try:
            for kind, batch in batches:
                await followed.take(kind, batch)
                await followed.take(kind, batch, what="DELETED")
                followed.cache.snapshot()
            gc.collect()  # what is left, not what is still to be collected
            kept = tracemalloc.take_snapshot().statistics("lineno")
        finally:
            tracemalloc.stop()
    # Without the interpreter's table of interned strings: it doubles by megabytes when some line adds one too many
    lines = {one: linecache.getline(one.traceback[0].filename, one.traceback[0].lineno) for one in kept}
    assert sum(one.size for one, line in lines.items() if "intern(" not in line) < 2**20


@pytest.mark.slow
@pytest.mark.looptime
async def test_a_service_among_hostile_objects(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    rng, kinds = random.Random(SEED), recorded()
    served = {"pods": PODS, "nodes": NODES, "podgroups": POD_GROUPS}
    async with unfinished(*(node_json(f"n{i}", zone="a") for i in range(4))) as world:
        names: set[tuple[str, str]] = set()
        for _ in range(400):
            kind = rng.choice(sorted(served))
            obj = _as_stored(mutated(rng, kinds[kind]))
            if obj is None:
                continue
            names.add((obj["metadata"].get("namespace") or "default", obj["metadata"]["name"]))
            world.api.store.put(served[kind], obj)
            if rng.random() < 0.1:
                await world.settle(1.0)
        await world.settle(120.0)
        world.gang("good", 2)
        await world.settle(5.0)
        views = world.service.views
        for namespace, name in sorted(names):
            await views.explain(namespace, name)
        views.plan()
        assert world.offered("good-0")
        assert views.readiness().ready, views.readiness().reasons
        assert world.counted("internal_errors_total", place="plan") == 0.0
    assert [record.getMessage() for record in caplog.records] == []


def _as_stored(raw: bytes) -> dict[str, Any] | None:
    """The object as an API server could have it: with a name; `None`: it would have been refused."""
    with suppress(ValueError, RecursionError):
        match obj := msgspec.json.decode(raw, type=dict[str, Any]):
            case {"metadata": {"name": str(name), **more}} if name:
                return obj if all(isinstance(more.get(key, ""), str) for key in ("namespace", "uid")) else None
    return None
