"""A gang whose members must be apart, on more nodes or zones than there are, backs off longer after each try.

The last member fits nowhere once the others are held, and is not refused any more as soon as they are not: what ends a
back-off must not come back with every try (docs/safety.md S5).
"""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import HOST_LABEL, ZONE_LABEL
from lab.testbed.parts.service import Netgang
from tests.e2e.objects import gang_of, name_of, shuns_gangs
from tests.e2e.stage import Stage, say

ROOM = {"a": 2, "b": 1}  # Nodes of each zone, every one with room for all members
SIZE = 3
SEEN_S = 60.0
FIRST_S, EARLY = 10.0, 1
HOLD_S = 15.0  # Longer than kube-scheduler takes to refuse a node twice
ADMIT_S = 30.0  # Longer than kube-scheduler's longest backoff: a member that waits it out is not silent

Change = Callable[[Object], Object]


def apart_in(key: str, **spec: object) -> Change:
    """No two members in the same domain of this topology."""

    def changed(one: Object) -> Object:
        shuns_gangs(one, [gang_of(name_of(one))])
        (term,) = one["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        term["topologyKey"] = key
        one["spec"] |= spec
        return one

    return changed


GANGS = {
    "hosts-of-one-zone": apart_in(HOST_LABEL, nodeSelector={ZONE_LABEL: "a"}),  # /filter is not asked about the last
    "hosts": apart_in(HOST_LABEL),  # /filter is asked, with nodes of the other zone
    "zones": apart_in(ZONE_LABEL),
}


@pytest.mark.timeout(180)
async def test_it_is_tried_again_after_10_s_20_s_and_so_on_and_once_earlier(stage: Stage) -> None:
    netgang = await stage.netgang({"hold_limit_s": HOLD_S, "admit_timeout_s": ADMIT_S}, on=ROOM, cpu="16")
    for name, change in GANGS.items():
        await stage.api.create_all([change(one) for one in stage.gang(name, SIZE, cpu="100m")])
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + SEEN_S
    tried = {name: set[tuple[float, str]]() for name in GANGS}

    async def look() -> bool:
        for name, found in tried.items():
            found |= await _tried(stage, netgang, name)
        return loop.time() >= ends_s

    await stage.api.until(look, bool, what="a minute of tries", limit_s=2 * SEEN_S)
    for name, found in tried.items():
        began_s = min(at_s for at_s, _ in found)
        say(f"{name}: " + ", ".join(f"{what} {at_s - began_s:.1f}" for at_s, what in sorted(found)))
    for name, found in tried.items():
        at_s = sorted(at_s for at_s, what in found if what == "admit")
        apart_s = [later - earlier for earlier, later in pairwise(at_s)]
        pauses_s = [one for one in apart_s if one >= FIRST_S]
        assert len(apart_s) - len(pauses_s) <= EARLY, f"{name}: admitted again too early: {apart_s}"
        assert pauses_s, f"{name}: never backed off"
        assert all(pause_s >= FIRST_S * 2**number for number, pause_s in enumerate(pauses_s)), f"{name}: {apart_s}"
    assert await stage.bound() == {}


async def _tried(stage: Stage, netgang: Netgang, name: str) -> set[tuple[float, str]]:
    """When, in Unix seconds, the gang was admitted (admit) and backed off (lapse)."""
    explained = await stage.explain(netgang, name)
    return {(one["at_s"], one["what"]) for one in explained["decisions"] if one["what"] in ("admit", "lapse")}
