"""Raw API objects → facts: replicas, budgets, versions; only the fields that a check reads."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cli.doctor.facts import Budget, Replica
from cli.doctor.installed import container_of
from extender.kube.leases import ROLE_LABEL


class _Owner(msgspec.Struct):
    kind: str = ""


class _Meta(msgspec.Struct):
    owners: list[_Owner] = msgspec.field(name="ownerReferences", default_factory=list)


class _Owned(msgspec.Struct):
    metadata: _Meta


_OWNED = msgspec.json.Decoder(_Owned)


def of_daemon_set(item: bytes) -> bool:
    """Whether a DaemonSet made this pod: it takes no room that another pod could have had.

    >>> of_daemon_set(b'{"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}'), of_daemon_set(b'{"metadata": {}}')
    (True, False)
    """
    return any(owner.kind == "DaemonSet" for owner in _OWNED.decode(item).metadata.owners)


def replica_of(pod: Mapping[str, Any]) -> Replica:
    """A pod of netgang's."""
    meta, status = pod["metadata"], pod.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    role = (meta.get("labels") or {}).get(ROLE_LABEL, "")
    return Replica(meta["name"], str(container_of(pod).get("image", "")), ready=ready, role=role)


def budget_of(one: Mapping[str, Any]) -> Budget:
    """A PodDisruptionBudget."""
    spec, status = one["spec"], one.get("status") or {}
    return Budget(
        one["metadata"]["namespace"],
        one["metadata"]["name"],
        spec.get("minAvailable"),
        spec.get("maxUnavailable"),
        allowed=int(status.get("disruptionsAllowed", 0)),
        expected=int(status.get("expectedPods", 0)),
    )


def version_of(image: str) -> str | None:
    """The version in an image's name; `None`: there is none, such as in a digest.

    >>> version_of("registry.k8s.io/kube-scheduler:v1.36.3"), version_of("localhost:5000/kube-scheduler")
    ('1.36.3', None)
    """
    name, _, tag = image.partition("@")[0].rpartition(":")
    return tag.removeprefix("v") if name and "/" not in tag else None
