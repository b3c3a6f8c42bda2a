"""Gangs wait at their gate and are admitted whole: the service in virtual time, with its fake API server."""

import asyncio
from typing import Any

import pytest

from extender.convert.wire import Passed
from extender.errors import ApiError
from scoring.model import GATE
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import GATED, World, key, listed, node_json, required_terms, running, unfinished
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime


def nodes(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [node_json(f"n{i}", cpu="1500m", **fields) for i in range(1, count + 1)]


async def test_a_gang_that_fits_is_let_in_with_its_nodes_and_spares() -> None:
    async with running(*nodes(6), spares=2) as world:
        names = await world.planned_gang("g", 3, **GATED)
        assert sorted(world.api.admitted) == sorted(names)
        planned = set(world.committed[key("g")].values())
        assert len(planned) == 3
        for name in names:
            pod = world.api.pod(name)
            assert "schedulingGates" not in pod["spec"]
            assert planned < listed(pod)
            assert len(required_terms(pod)) == 5
            node = pod["metadata"]["annotations"]["netgang.io/admitted"].partition(" ")[0]
            assert node == world.committed[key("g")][pod["metadata"]["uid"]]
        await world.starts(*names)


NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


def near_a_leader(world: World) -> None:
    for name, affinity in (("a", NEAR), ("b", NEAR), ("leader", {})):
        world.pod(name, gang="g", size=3, affinity=affinity, **GATED)


async def test_who_needs_others_near_it_is_let_in_when_the_first_of_them_is_held() -> None:
    async with running(*nodes(3)) as world:
        near_a_leader(world)
        await world.settle()
        assert world.api.admitted == ["leader"]
        [held] = await world.bind_and_settle("leader")
        assert sorted(world.api.admitted) == ["a", "b", "leader"]
        await world.starts("a", "b", beside=[held])


async def test_a_refusal_of_who_needs_others_is_not_believed_before_they_come() -> None:
    """No node does for it as the leader has none yet: that says nothing of the nodes. Its gate waits for a second."""
    async with running(*nodes(3)) as world:
        near_a_leader(world)
        await world.settle(3.0)
        assert sorted(world.api.admitted) == ["a", "b", "leader"]
        world.says("0/3 nodes are available: 3 node(s) didn't match pod affinity rules.", "a", "b")
        await world.settle(5.0)
        assert world.service.cache.snapshot().exclusions == {}
        [held] = await world.bind_and_settle("leader")
        await world.starts("a", "b", beside=[held])


async def test_nobody_takes_back_what_is_being_admitted() -> None:
    """docs/safety.md S4: from the first removed gate on, a gang of higher priority waits."""
    async with running(*nodes(3), writes_per_s=2.0) as world:
        names = world.gang("g", 3, **GATED)
        await world.settle(0.6)
        assert 0 < len(world.api.admitted) < 3
        world.gang("urgent", 3, **GATED, priority=1000)
        await world.settle(3.0)
        assert sorted(world.api.admitted) == sorted(names)
        assert world.waits_for("urgent") is Reason.BEHIND
        await world.starts(*names)


async def test_an_admission_survives_a_restart() -> None:
    api = FakeClusterApi()
    async with unfinished(*nodes(5), api=api, writes_per_s=2.0) as world:
        names = world.gang("g", 5, **GATED)
        while len(api.admitted) < 3:
            await world.settle(0.1)
        first = world.committed[key("g")]
        noted = {world.uid(name): first[world.uid(name)] for name in api.admitted}
    world.gang("urgent", 5, **GATED, priority=1000)
    async with running(api=api) as world:
        await world.settle()
        assert noted.items() <= world.committed[key("g")].items()
        assert sorted(set(api.admitted)) == sorted(names)
        await world.starts(*names)


async def test_what_the_api_server_refuses_for_good_is_said_and_gives_room_back() -> None:
    async with running(*nodes(2)) as world:
        world.api.fail_next("admit", ApiError(422, "spec.affinity: Invalid value"))
        await world.planned_gang("g", 1, **GATED)
        await world.settle(2.0)
        assert world.committed == {}
        assert world.waits_for("g") is Reason.BACKING_OFF
        assert "Invalid value" in (world.explained("g").admission_refused or "")
        assert "spec.affinity: Invalid value" in world.told_to("AdmissionLapsed")["g-0"]
        world.delete("g-0")
        await world.settle(2.0)
        [name] = await world.planned_gang("g", 1, **GATED)
        assert world.api.admitted == [name]


REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


async def test_what_did_not_fit_does_not_come_back() -> None:
    """Unschedulable without asking us: no listed node will do, another of the zone may (docs/safety.md S6, S27)."""
    async with running(*nodes(3), spares=1, exclusion_ttl_s=60.0) as world:
        [name] = await world.planned_gang("g", 1, **GATED)
        closed = listed(world.api.pod(name))
        world.api.add({**world.api.pod(name), "status": REFUSED})
        await world.settle(4.0)
        assert (key("g") in world.committed, world.waits_for("g")) == (False, Reason.FILTERED)
        assert [set(nodes) for nodes in world.service.cache.snapshot().exclusions.values()] == [closed]
        world.delete(name)
        [name] = await world.planned_gang("g", 1, **GATED)
        assert {world.committed[key("g")][world.uid(name)]}.isdisjoint(closed)
        [term] = required_terms(world.api.pod(name))
        assert [one["key"] for one in term["matchExpressions"]] == ["topology.kubernetes.io/zone"]


async def test_what_is_refused_once_more_is_believed_once_more() -> None:
    """The word of kube-scheduler stands until it asks about a node: after its time the gang is not sent there again."""
    async with running(*nodes(1), spares=0, exclusion_ttl_s=20.0, admit_timeout_s=5.0) as world:
        [name] = await world.planned_gang("g", 1, **GATED)
        world.api.add({**world.api.pod(name), "status": REFUSED})
        await world.settle(60.0)
        assert world.waits_for("g") is Reason.FILTERED
        assert world.offered(name) == "n1"


NOT_OPENED: dict[str, dict[str, Any]] = {
    "a foreign gate, without which no pod can come (docs/safety.md S5)": {
        "schedulingGates": [{"name": GATE}, {"name": "example.com/quota"}]
    },
    "another scheduler (docs/safety.md S1)": {**GATED, "scheduler": "volcano"},
}


@pytest.mark.parametrize("fields", NOT_OPENED.values(), ids=NOT_OPENED)
async def test_gates_that_stay(fields: dict[str, Any]) -> None:
    async with running(*nodes(2)) as world:
        world.gang("g", 2, **fields)
        await world.settle(5.0)
        assert (world.api.admitted, world.committed) == ([], {})
        assert key("g") not in world.plan.admitted


async def test_gated_and_ungated_members_start_together() -> None:
    async with running(*nodes(3)) as world:
        for number in range(3):
            await world.planned_pod(f"g-{number}", gang="g", size=3, **(GATED if number else {}))
        assert sorted(world.api.admitted) == ["g-1", "g-2"]
        await world.starts("g-0", "g-1", "g-2")


async def test_two_terms_of_their_own_and_a_spread() -> None:
    """docs/safety.md S6: each term of the pod is narrowed by host name; a pod that must be spread gets the zone."""
    terms = [{"matchExpressions": [{"key": "disk", "operator": op}]} for op in ("Exists", "DoesNotExist")]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    named = [node_json(f"n{i}", cpu="1500m") for i in range(1, 4)]
    for one in named:
        one["metadata"]["labels"]["kubernetes.io/hostname"] = one["metadata"]["name"]
    async with running(*named, spares=1) as world:
        [own] = world.gang("own", 1, **GATED, affinity=affinity)
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        [wide] = await world.planned_gang("wide", 1, **GATED, topologySpreadConstraints=[spread])
        found = [[one["key"] for one in term["matchExpressions"]] for term in required_terms(world.api.pod(own))]
        assert found == [["disk", "kubernetes.io/hostname"]] * 2
        [zone] = required_terms(world.api.pod(wide))
        assert zone == {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}
        await world.bind_and_settle(own, wide)


async def test_a_volume_elsewhere_takes_the_whole_gang_along() -> None:
    """With a claim in the gang no member is narrowed, so the plan can still follow the volume into its zone."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    zone_b = [node_json(f"b{i}", zone="b", cpu="1500m") for i in range(2)]
    async with running(node_json("n1"), *zone_b) as world:
        for number in range(2):
            await world.planned_pod(f"g-{number}", gang="g", size=2, **GATED, volumes=[claim] if number else [])
        assert sorted(world.api.admitted) == ["g-0", "g-1"]
        assert [world.api.pod(name)["spec"].get("affinity") for name in ("g-0", "g-1")] == [None, None]
        assert set(world.committed[key("g")].values()) == {"n1"}
        for _ in range(2):
            world.filter("g-1", nodes=["b0", "b1"])
            await world.settle(1.2)
        await world.bind_and_settle("g-0", "g-1")
        assert set(world.bound().values()) <= {"b0", "b1"}


async def test_our_own_no_is_not_another_filters() -> None:
    """A refusal of ours leaves its words in the condition: it says nothing of the node."""
    async with running(*nodes(2), spares=1) as world:
        [name] = await world.planned_gang("g", 1, **GATED)
        before = dict(world.committed[key("g")])
        world.says(f"0/2 nodes are available: 2 {Reason.BACKING_OFF}.", name)
        await world.settle(4.0)
        assert world.committed[key("g")] == before


async def test_a_hold_that_ends_while_others_are_still_let_in_is_no_lapse() -> None:
    """kube-scheduler may hear of some members only after an outage: those at bind are tried again, the places stay."""
    async with running(*nodes(3)) as world:
        names = await world.planned_gang("g", 3, **GATED)
        before = world.committed[key("g")]
        [early] = world.bind_offered(names[0])
        await world.settle(26.0)
        assert early.answer is Reason.QUORUM_TIMEOUT
        assert world.committed[key("g")] == before
        await world.starts(*names)


async def test_holding_again_and_again_does_not_put_off_the_lapse() -> None:
    async with running(*nodes(2)) as world:
        [first, _] = await world.planned_gang("g", 2, **GATED)
        for _ in range(4):
            if isinstance(world.filter(first), Passed):
                world.bind_offered(first)
            await world.settle(26.0)
        assert world.told("AdmissionLapsed")


PER_S = 100.0
GANGS, SIZE = 40, 5


@pytest.mark.parametrize("way", ["gated", "parked"])
async def test_a_burst_is_spread_over_time(way: str) -> None:
    async with running(*(node_json(f"n{i}", cpu="8") for i in range(30)), writes_per_s=PER_S) as world:
        world.occupy("n0", cpu="8", name="first")
        for node in range(1, 30):
            world.occupy(f"n{node}", cpu="8", name=f"full-{node}")
        gates = GATED if way == "gated" else {}
        names = [name for number in range(GANGS) for name in world.gang(f"g{number:02}", SIZE, cpu="1", **gates)]
        await world.settle(2.0)
        if way == "parked":
            for name in names:
                world.refusal(name)
            await world.settle(2.0)
        written = world.api.admitted if way == "gated" else world.api.patches
        before = len(written)
        world.delete(*(f"full-{node}" for node in range(1, 30)))
        by_tenths = [before]
        for _ in range(40):
            await asyncio.sleep(0.1)
            by_tenths.append(len(written))
        assert by_tenths[-1] - before >= len(names)
        seconds = [after - now for now, after in zip(by_tenths, by_tenths[10:], strict=False)]
        assert max(seconds) <= PER_S * 1.05 + 1
        world.delete(*names)


async def test_gates_open_in_the_order_of_the_queue() -> None:
    async with running(*(node_json(f"n{i}", cpu="8") for i in range(10)), writes_per_s=PER_S) as world:
        for node in range(10):
            world.occupy(f"n{node}", cpu="8", name=f"full-{node}")
        sizes = {"light": 2, "middle": 4, "heavy": 8}
        for name, size in sizes.items():
            world.gang(name, size, cpu="1", **GATED)
        await world.settle(2.0)
        assert world.api.admitted == []
        world.delete(*(f"full-{node}" for node in range(10)))
        await world.settle(5.0)
        assert len(world.api.admitted) == sum(sizes.values())
        order = list(dict.fromkeys(name.rpartition("-")[0] for name in world.api.admitted))
        assert order == ["heavy", "middle", "light"]
        for name, size in sizes.items():
            world.delete(*(f"{name}-{i}" for i in range(size)))
