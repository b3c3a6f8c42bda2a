"""Plain pods beside gangs, with the cluster's own kube-scheduler asking netgang about both (docs/safety.md S13)."""

from time import monotonic

from lab.testbed.objects import zone_nodes
from lab.testbed.processes.pace import slowness
from scoring.model.reasons import Reason
from tests.e2e.stage import Stage

DEFAULT = "default-scheduler"
SYSTEM = "system-cluster-critical"


async def test_a_plain_pod_does_not_take_what_is_reserved_for_a_starving_gang(stage: Stage) -> None:
    """Its zone fills no more: a plain pod waits for the gang's start, a system pod does not wait at all."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    netgang = await stage.default_scheduler(queue={"starve_limit_s": 3.0, "reserve_after_s": 0.0})
    await stage.create_pod("busy", cpu="3")
    await stage.until_bound("busy", 1)
    await stage.create_gang("g", 2, scheduler=DEFAULT, cpu="3", gated=True)

    def reserved(queue: dict[str, list[dict[str, list[str]]]]) -> bool:
        return sum(len(one["held_nodes"]) for one in queue["gangs"]) == 2

    await stage.until_document(netgang, "/v1/queue", reserved, "two nodes reserved", limit_s=20.0)
    await stage.create_pod("plain", cpu="1")
    await stage.until_refused(1, reason=Reason.RESERVED, begin="plain")
    await stage.create_pod("system", cpu="1", priority_class=SYSTEM)
    await stage.until_bound("system", 1, limit_s=10.0)
    assert set(await stage.bound()) == {"busy", "system"}
    await stage.end("busy")
    await stage.until_bound("g", 2)
    await stage.until_bound("plain", 1)


async def test_a_plain_pod_does_not_take_a_committed_gangs_place(stage: Stage) -> None:
    """One member is at bind, the other has not come: what it needs is refused until that lapses."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    pace = slowness()
    hold_s = 8.0 * pace
    netgang = await stage.default_scheduler(hold_limit_s=hold_s, commit_timeout_s=5.0 * pace, http_timeout_s=60.0)
    await stage.create_held_gang(netgang, "g", 2, scheduler=DEFAULT, cpu="3")
    began_s = monotonic()
    await stage.create_pod("big", cpu="2")
    await stage.until_refused(1, reason=Reason.RESERVED, begin="big", limit_s=6.0)
    await stage.create_pod("small", cpu="1")
    await stage.until_bound("small", 1, limit_s=5.0)
    assert set(await stage.bound()) == {"small"}
    assert monotonic() - began_s < hold_s, "too slow a machine: the hold is over"
    await stage.until_bound("big", 1)
    assert set(await stage.bound()) == {"small", "big"}
