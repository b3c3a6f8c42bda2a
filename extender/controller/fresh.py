"""A gang as the API server has it now: read before anything is removed (S11).

Rule: a consistent list, not the cache; a member is compared by what a decision to remove it rests on. A kubelet writes
into the status of pods that run, so the version alone says too little, and the version that was read goes into each
request all the same.
"""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from extender.convert import pod_from_json
from extender.ports import ClusterApi
from scoring.ids import GangKey
from scoring.model import Gang, GangSource, Pod

_PAGE = 500
_LABEL = {
    # where a gang's name comes from → the label that its members have; of others all pods of the namespace are read
    GangSource.POD_GROUP: "scheduling.x-k8s.io/pod-group",
    GangSource.LABELS: "pod-group.scheduling.sigs.k8s.io/name",
}


@dataclass(frozen=True, slots=True)
class Fresh:
    """A member as it was read: our record, and the object itself."""

    pod: Pod
    raw: bytes


async def read_members(api: ClusterApi, key: GangKey, source: GangSource | None) -> tuple[Fresh, ...]:
    """All pods that name the gang, by name. Errors: ApiError and its kind; ValueError: a pod is not readable.

    Cost: one list of the gang's pods; of the namespace where it is named by an annotation, or by nobody knows what.
    """
    namespace, _, name = key.partition("/")
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    if source is not None and (label := _LABEL.get(source)) is not None:
        path += f"?{urlencode({'labelSelector': f'{label}={name}'})}"
    found: list[Fresh] = []
    token = ""
    while True:
        page = await api.list_page(path, limit=_PAGE, continue_token=token)
        for raw in page.items:
            pod = pod_from_json(raw)
            if pod.group is not None and pod.group.key == key:
                found.append(Fresh(pod, raw))
        token = page.continue_token
        if not token:
            return tuple(sorted(found, key=lambda one: one.pod.name))


def same_as_known(gang: Gang, fresh: tuple[Fresh, ...]) -> bool:
    """Whether the members are those of the cache, where the cache has them, in the phase that it knows."""
    return {looks(pod) for pod in gang.members} == {looks(one.pod) for one in fresh}


def looks(pod: Pod) -> tuple[object, ...]:
    """What must not have changed since the decision."""
    return pod.uid, pod.node, pod.phase, pod.deleting
