"""The queue on a real control plane: heavier gangs first, the lightest one once it starves (PAPERS K1–K3)."""

from datetime import datetime
from functools import partial
from typing import Any

import pytest

from lab.testbed.api import Object
from lab.testbed.parts.service import Netgang
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.objects import OURS, gang_of, name_of
from tests.e2e.stage import Stage

SHAPES = ((1, "11500m"), (2, "5700m"), (3, "3800m"), (4, "2850m"), (6, "1900m"), (12, "950m"))
"""(members, CPU of each): each gang needs a node of 12 CPUs to itself, to the last pod; the lightest first."""
HEAVIEST_FIRST = ["w12", "w06", "w04", "w03", "w02", "w01"]


async def create(stage: Stage, *shapes: tuple[int, str]) -> None:
    for size, cpu in shapes:
        await stage.create_gang(f"w{size:02}", size, gated=True, cpu=cpu)


async def full(stage: Stage, settings: dict[str, Any] | None = None) -> Netgang:
    netgang = await stage.netgang(settings, on={"a": 1}, cpu="12")
    await stage.create_gang("full", 12, gated=True, cpu="950m")
    await stage.until_bound("full", 12)
    return netgang


async def until_waiting(stage: Stage, netgang: Netgang, *names: str, state: str = "") -> dict[str, dict[str, Any]]:
    """Wait until these gangs wait, the first of the queue in `state`; they are given in the order of the queue."""
    return await stage.api.until(
        partial(stage.waiting, netgang),
        lambda found: found.keys() == set(names) and (not state or next(iter(found.values()))["state"] == state),
        what=f"{', '.join(names)} wait",
    )


def says(status: str, found: list[Object]) -> bool:
    both = {(kind, status) for kind in ("PodScheduled", "netgang.io/Admitted")}
    return all(both <= {(one["type"], one["status"]) for one in pod["status"].get("conditions", ())} for pod in found)


async def test_heavier_gangs_first(stage: Stage) -> None:
    netgang = await full(stage)
    async with invariants_hold(stage.api, netgang, stage.namespace):
        await create(stage, *SHAPES)
        waiting = await until_waiting(stage, netgang, *HEAVIEST_FIRST)
        assert list(waiting) == HEAVIEST_FIRST
        weights = [one["weight"]["omega_prime"] for one in waiting.values()]
        assert weights == sorted(weights, reverse=True)
        assert len(set(weights)) == 6
        await stage.until_pods(partial(says, "False"), "all say why they wait", begin="w")
        running = "full"
        for name in HEAVIEST_FIRST:
            await stage.end(*await stage.bound(running))
            running = gang_of(min(await stage.until_bound("", 1)))
            whole = await stage.until_bound(running, int(running[1:]))
            assert (running, len(await stage.bound())) == (name, len(whole))
        await stage.until_pods(partial(says, "True"), "it says that it was admitted", begin=running)
        await until_nothing_is_promised(stage.api, netgang)


@pytest.mark.parametrize("gangs", [False, True], ids=["plain pods", "gangs of one"])
async def test_what_comes_free_goes_to_the_broken_gang(stage: Stage, gangs: bool) -> None:
    """kube-scheduler asks about older pods first, and they fit the node as well."""
    await stage.netgang(on={"a": 2})
    members = [keep_off_cordoned(one) for one in stage.gang("train", 2)]
    await stage.api.create_all(members)
    node, lost = (await stage.until_bound("train", 2))[name_of(members[1])], members[1]
    await stage.api.patch("Node", node, {"spec": {"unschedulable": True}})
    await stage.end(name_of(lost))
    singles = [stage.gang(f"other-{i}", 1)[0] if gangs else stage.pod(f"other-{i}", scheduler=OURS) for i in range(4)]
    await stage.api.create_all([keep_off_cordoned(one) for one in singles])
    await stage.until_refused(4, begin="other")
    await stage.api.create(lost)
    await stage.until_refused(1, begin="train")
    await stage.api.patch("Node", node, {"spec": {"unschedulable": False}})
    assert (await stage.until_bound("train", 2)).keys() == (await stage.bound()).keys()


def keep_off_cordoned(one: Object) -> Object:
    """Pods of tests tolerate everything, as no controller takes the taints of young nodes away."""
    one["spec"]["tolerations"] = []
    return one


async def test_the_lightest_first_once_it_starves(stage: Stage) -> None:
    netgang = await full(stage, {"queue": {"starve_limit_s": 8.0}})
    await create(stage, SHAPES[0])
    await until_waiting(stage, netgang, "w01", state="WAITING")
    await until_waiting(stage, netgang, "w01", state="STARVING")
    await create(stage, *SHAPES[1:])
    waiting = await until_waiting(stage, netgang, *HEAVIEST_FIRST)
    assert list(waiting) == ["w01", *HEAVIEST_FIRST[:-1]]
    [pod] = await stage.pods("w01")
    created_s = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
    assert waiting["w01"]["waiting_since_s"] == created_s
    await stage.end(*await stage.bound("full"))
    await stage.until_bound("w01", 1)
    assert set(await stage.bound()) == {"w01-worker-0"}
