"""Reading owners of pods and evicting exactly what was read: the calls on the wire."""

import json

import pytest

from bench.apiserver import LoopbackApi
from extender.errors import NotFoundError
from extender.kube.calls import OWNERS, PODS, owner_path
from extender.kube.client import KubeClient
from scoring.ids import PodUid

UNREADABLE = {
    "another kind": ("batch/v1", "CronJob"),
    "a kind of another group": ("batch.volcano.sh/v1alpha1", "Job"),
    "no group": ("v1", "Job"),
    "no version": ("batch/", "Job"),
    "a path for a version": ("batch/v1/namespaces/x/secrets", "Job"),
}


@pytest.mark.parametrize(("api_version", "kind"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_not_in_the_table_is_not_read(api_version: str, kind: str) -> None:
    """A pod may name anything as its owner; only known kinds in well-formed versions become a path."""
    with pytest.raises(ValueError, match="not an owner"):
        owner_path(api_version, kind, "team-a", "x")


@pytest.mark.parametrize(("group", "kind"), OWNERS)
def test_names_stay_in_their_place(group: str, kind: str) -> None:
    """Each kind has a path in the pod's namespace, and a name cannot leave it."""
    path = owner_path(f"{group}/v1", kind, "team-a", "../../x")
    assert path == f"/apis/{group}/v1/namespaces/team-a/{OWNERS[group, kind].plural}/..%2F..%2Fx"


async def test_an_owner_on_the_wire(loopback: LoopbackApi, client: KubeClient) -> None:
    """GET, without a resourceVersion, which would allow an old answer."""
    with pytest.raises(NotFoundError):
        await client.get_object("kubeflow.org/v2beta1", "MPIJob", "team-a", "horovod")
    (seen,) = loopback.seen
    assert (seen.method, seen.path) == ("GET", "/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs/horovod")


async def test_an_eviction_of_what_was_read(loopback: LoopbackApi, client: KubeClient) -> None:
    """The version that was read is a precondition beside the uid."""
    pod = loopback.store.put(PODS, {"metadata": {"name": "p"}})["metadata"]
    await client.evict("default", "p", PodUid(pod["uid"]), resource_version=pod["resourceVersion"])
    (seen,) = loopback.seen
    unless = {"uid": pod["uid"], "resourceVersion": pod["resourceVersion"]}
    assert json.loads(seen.body)["deleteOptions"] == {"preconditions": unless}
