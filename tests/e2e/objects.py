"""Objects of which several tests need the same: Indexed Jobs whose pods are a gang, a volume of one zone."""

from collections.abc import Mapping

from testbed.api import Object
from testbed.objects import ZONE_LABEL, gang_labels, pod
from testbed.processes.stages import DELETE_AFTER

OURS = "netgang"
GATE = "netgang.io/gang"


def indexed_job(
    name: str,
    namespace: str,
    size: int,
    *,
    gang: str | None = None,
    least: int | None = None,
    gated: bool = True,
    cpu: str = "1",
    priority_class: str = "",
    backoff_limit: int = 6,
    ends_after: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """An Indexed Job whose pods are a gang (of the Job's name) of all of them, or that needs `least`.

    `ends_after`: how long its pods take to end once they are told to; without it they end at once.
    """
    spec = pod("unused", scheduler=OURS, gates=[GATE] if gated else [], cpu=cpu, priority_class=priority_class)["spec"]
    noted = dict(annotations or {})
    if ends_after is not None:
        noted[DELETE_AFTER] = ends_after
        spec["terminationGracePeriodSeconds"] = 30
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "backoffLimit": backoff_limit,
            "template": {
                "metadata": {"labels": gang_labels(gang or name, least or size), "annotations": noted},
                "spec": {**spec, "restartPolicy": "Never"},
            },
        },
    }


def volume_in(namespace: str, zone: str) -> tuple[Object, Object]:
    """A volume of one zone and the claim that is bound to it, as the volume controller leaves them."""
    name = f"{namespace}-data"
    room = {"storage": "1Gi"}
    here = {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": [zone]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": room,
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            "claimRef": {"namespace": namespace, "name": "data"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": namespace,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": room},
            "volumeName": name,
            "storageClassName": "",
        },
    }
    return volume, claim
