"""A saved cluster behind the API's port: bound and evicted in the cache, nothing else."""

import pytest

from extender.cache.cluster import ClusterCache
from extender.errors import ConflictError, NotFoundError
from extender.kube.embedded import EmbeddedCluster
from extender.ports import Binding
from scoring import NodeName, PodUid
from scoring.model import Phase
from tests.builders import node, pod
from tests.fakes.clock import FakeClock

UID = pod("p").uid


@pytest.fixture
def cache() -> ClusterCache:
    made = ClusterCache()
    made.nodes.put(node("n1"))
    made.pods.put(pod("p"))
    return made


@pytest.fixture
def api(cache: ClusterCache) -> EmbeddedCluster:
    return EmbeddedCluster(cache, {"default/p": b"{}"}, FakeClock(7.0))


def binding(where: str = "n1", *, uid: PodUid = UID) -> Binding:
    return Binding("default", "p", uid, NodeName(where))


async def test_a_bound_pod_runs(cache: ClusterCache, api: EmbeddedCluster) -> None:
    await api.bind(binding())
    await api.bind(binding())
    found = cache.pod(UID)
    assert found is not None
    assert (found.node, found.phase, found.scheduled_s) == ("n1", Phase.RUNNING, 7.0)
    with pytest.raises(ConflictError, match="is on node n1"):
        await api.bind(binding("n2"))


async def test_an_evicted_pod_is_gone(cache: ClusterCache, api: EmbeddedCluster) -> None:
    await api.annotate_pod("default", "p", UID, {"a": "b"})
    await api.evict("default", "p", UID)
    assert cache.pod(UID) is None
    for call in (api.bind(binding()), api.annotate_pod("default", "p", UID, {}), api.evict("default", "p", UID)):
        with pytest.raises(NotFoundError):
            await call


async def test_pods_are_read_as_they_were(api: EmbeddedCluster) -> None:
    assert (await api.get_pod("default", "p"), [one async for one in api.labelled_owners("a=b")]) == (b"{}", [])
    await api.create_event("default", {"reason": "x"})
