"""Writing a PodGroup's status: the call on the wire."""

import pytest

from bench.apiserver import LoopbackApi
from extender.errors import ApiError
from extender.kube.client import KubeClient


async def test_a_status_patch_on_the_wire(loopback: LoopbackApi, client: KubeClient) -> None:
    """A merge patch of the subresource, under a field manager of our own; names stay in their place."""
    with pytest.raises(ApiError):  # this API server has no such subresource
        await client.patch_group_status("team-a", "../x", b'{"status":{"running":1}}')
    (seen,) = loopback.seen
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/podgroups/..%2Fx/status?fieldManager=netgang"
    assert (seen.method, seen.path, seen.body) == ("PATCH", path, b'{"status":{"running":1}}')
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
