"""The table of calls: what may be read, and how paths are made."""

from contextlib import nullcontext

import pytest

from extender.kube import calls
from extender.kube.calls import CALLS, NODES, OWNERS, POD_GROUPS, PODS, resource_of, served_as

COLLECTIONS: dict[str, tuple[str, calls.Resource | None]] = {  # case: (path, what may be listed and watched there)
    "all pods": ("/api/v1/pods", PODS),
    "pods of a namespace": ("/api/v1/namespaces/team-a/pods", PODS),
    "with a selector": ("/api/v1/namespaces/team-a/pods?labelSelector=a%3Db", PODS),
    "nodes": ("/api/v1/nodes", NODES),
    "PodGroups": ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", POD_GROUPS),
    "secrets": ("/api/v1/secrets", None),
    "one pod": ("/api/v1/namespaces/team-a/pods/p", None),
    "nodes are not in namespaces": ("/api/v1/namespaces/team-a/nodes", None),
    "events are only created": ("/apis/events.k8s.io/v1/events", None),
    "another version": ("/apis/scheduling.x-k8s.io/v1beta1/podgroups", None),
    "no namespace": ("/api/v1/namespaces//pods", None),
}


@pytest.mark.parametrize(("path", "want"), COLLECTIONS.values(), ids=COLLECTIONS)
def test_collections(path: str, want: calls.Resource | None) -> None:
    """A path of a readable kind, in one namespace or all, is that kind; others cannot be listed or watched."""
    with nullcontext() if want else pytest.raises(ValueError, match="not a collection that"):
        assert want == resource_of(path)


@pytest.mark.parametrize(
    "owner",
    ["batch/v1 CronJob", "batch.volcano.sh/v1alpha1 Job", "v1 Job", "batch/ Job", "batch/v1/namespaces/x/secrets Job"],
)
def test_what_is_not_in_the_table_is_not_read(owner: str) -> None:
    with pytest.raises(ValueError, match="not an owner"):
        served_as(*owner.split())


@pytest.mark.parametrize(("group", "kind"), OWNERS)
def test_names_stay_in_their_place(group: str, kind: str) -> None:
    path = served_as(f"{group}/v1", kind).path("team-a", "../../x")
    assert path == f"/apis/{group}/v1/namespaces/team-a/{OWNERS[group, kind].plural}/..%2F..%2Fx"


def test_every_readable_kind_is_listed_and_watched() -> None:
    """A reflector needs both verbs; what is only listed is looked at when somebody asks."""
    listed, watched = ({one[1:] for one in CALLS if one[0] == verb} for verb in ("list", "watch"))
    suspended = {("kubeflow.org", f"{kind}jobs") for kind in ("xgboost", "paddle", "jax")}
    assert listed - watched == {("", "resourcequotas"), ("policy", "poddisruptionbudgets")} | suspended
    assert watched <= listed
