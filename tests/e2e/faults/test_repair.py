"""Gangs that lose members long after they started: replaced, or restarted as a whole (docs/safety.md S8, S10, S11)."""

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.operator import condition, start_operator, tf_job
from lab.testbed.processes.stages import HOLD
from tests.e2e.objects import GATE, indexed_job, name_of, silence
from tests.e2e.site import site_on
from tests.e2e.stage import LIMIT_S, Stage, metric

site = site_on(zone_nodes({"a": 12, "b": 12}, cpu="4", prefix="n"), {"node_lost_s": 3}, kinds=("Job", "TFJob"))


@pytest.mark.timeout(230)
async def test_lost_members(site: Stage) -> None:
    """A node of each gang is deleted and one stops answering: `replace`, `restart`, a TFJob, and one that finishes."""
    await start_operator(site.cluster)
    await site.api.create(job_of("keep", site, "replace"))
    await site.api.create(job_of("anew", site, "restart"))
    await site.api.create(job_of("ends", site, "restart", size=4))
    made = tf_job("tf", workers=7, namespace=site.namespace, cpu="2", dynamic=False, gates=[GATE])
    for replicas in made["spec"]["tfReplicaSpecs"].values():
        replicas["template"]["metadata"]["annotations"] |= {"netgang.io/repair": "restart"}
    await site.api.create(made)
    keep = await site.until_running("keep", 8)
    anew = await site.until_running("anew", 8)
    ends = await site.until_running("ends", 4)
    tf = await site.until_running("tf", 8)
    home = await site.zones(set(keep.values()))
    assert len(home) == 1
    done = _node_of_one(ends, besides={*keep.values(), *anew.values(), *tf.values()})
    for one in await site.pods("ends-"):
        if one["spec"]["nodeName"] == done:
            await site.patch_pod(name_of(one), status={"phase": "Succeeded"})

    silent = _node_of_one(keep, besides={*anew.values(), *tf.values(), *ends.values()})
    await silence(site.api, silent)
    for gang, besides in ((anew, (keep, tf, ends)), (tf, (keep, anew, ends))):
        await site.api.delete("Node", _node_of_one(gang, besides={node for one in besides for node in one.values()}))
    await site.api.delete("Node", done)

    path, waits = f"/v1/explain/{site.namespace}/keep", f"waiting for node {silent} to be removed or to come back"
    await site.until_document(
        site.service, path, lambda told: waits in told.get("repair", ""), "the wait explained", limit_s=LIMIT_S
    )
    await site.until_events("GangBroken", lambda found: any(silent in note for note in found.values()))

    again = await site.until_running("anew", 8, without=frozenset(anew))
    job = await site.api.get("Job", "anew", namespace=site.namespace)
    assert job["spec"]["suspend"] is False
    assert job["status"].get("failed", 0) <= 2, "only those that were on the node count"
    assert not condition(job, "Failed")
    assert len(await site.zones(set(again.values()))) == 1

    again = await site.until_running("tf", 8, without=frozenset(tf))
    # its operator writes it a moment after the last pod runs
    job = await site.until_job("tf", lambda found: condition(found, "Running"), "the TFJob running", kind="TFJob")
    assert not condition(job, "Failed")
    assert len(await site.zones(set(again.values()))) == 1
    assert await metric(site.service, "netgang_evictions_total") == 0

    # The taint manager deletes what is on a dead node; its kubelet never confirms.
    for one in await site.pods("keep-"):
        if one["spec"]["nodeName"] == silent:
            await site.annotate_pod(name_of(one), **{HOLD: "pod-delete"})
            await site.api.delete("Pod", name_of(one), namespace=site.namespace, grace_s=30)
    whole = await site.until_running("keep", 8)
    survivors = {uid for uid, node in keep.items() if node != silent}
    assert survivors <= whole.keys()
    assert await site.zones(set(whole.values())) == home
    assert silent not in whole.values()

    # A kubelet finds no room for what was bound to it.
    victim = (await site.pods("keep-"))[-1]
    await site.patch_pod(name_of(victim), status={"phase": "Failed", "reason": "OutOfcpu"})
    after = await site.until_running("keep", 8, without=frozenset({victim["metadata"]["uid"]}))
    assert len(after.keys() & whole.keys()) == 7
    assert await site.zones(set(after.values())) == home

    # Two members of this one have succeeded and were collected with their node: it never begins again.
    left = {uid: node for uid, node in ends.items() if node != done}
    assert left
    assert await site.running("ends") == left
    await site.until_pods(lambda found: len(found) == len(left), "pods collected", begin="ends-")
    (lost, *_) = [one for one in await site.pods("ends-") if one["metadata"]["uid"] in left]
    await site.api.delete("Pod", lost["metadata"]["name"], namespace=site.namespace)
    await site.until_running("ends", len(left), without=frozenset({lost["metadata"]["uid"]}))
    assert (await site.events("GangRestarted", kind="Job")).keys() == {"anew"}
    assert (await site.events("GangRestarted", kind="TFJob")).keys() == {"tf"}
    assert {name.partition("-")[0] for name in await site.events("GangRestarted", kind="Pod")} == {"anew", "tf"}


async def test_a_node_from_which_pods_are_evicted_is_left(site: Stage) -> None:
    """kube-scheduler takes a taint that is tolerated for five seconds for one that is tolerated (S12)."""
    job = indexed_job("train", site.namespace, 3, cpu="3")
    toleration = {"key": "maint", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    job["spec"]["template"]["spec"]["tolerations"] = [toleration]
    await site.api.create(job)
    nodes = await site.until_running("train", 3)
    node = min(nodes.values())
    await site.api.patch("Node", node, {"spec": {"taints": [{"key": "maint", "value": "1", "effect": "NoExecute"}]}})
    [evicted] = [one for one in await site.pods("train-") if one["spec"]["nodeName"] == node]
    await site.end(name_of(evicted))  # as the taint manager does after five seconds
    after = await site.until_running("train", 3, without=frozenset({evicted["metadata"]["uid"]}))
    assert node not in after.values()
    assert len(after.keys() & nodes.keys()) == 2


def _node_of_one(gang: dict[str, str], *, besides: set[str]) -> str:
    return next(node for node in sorted(gang.values()) if node not in besides)


def job_of(name: str, site: Stage, repair: str, *, size: int = 8) -> Object:
    annotations = {"netgang.io/repair": repair}
    return indexed_job(name, site.namespace, size, cpu="2", ends_after="1s", annotations=annotations)
