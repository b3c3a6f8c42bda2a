"""The three verbs in /openapi.json: they bypass FastAPI (hot path), so that it does not know them.

The types are those of `k8s.io/kube-scheduler/extender/v1`: keys are Go's field names, every one is sent, and absent
values are null. The records below are read by the OpenAPI document alone; `extender.convert.wire` reads the bytes.
"""

from typing import Any, Final

import msgspec

from extender.convert.wire import MAX_SCORE

_POD: Final = {
    "metadata": {
        "name": "case1-0",
        "namespace": "demo",
        "uid": "demo-case1-0",
        "labels": {
            "pod-group.scheduling.sigs.k8s.io/name": "case1",
            "pod-group.scheduling.sigs.k8s.io/min-available": "6",
        },
    },
    "spec": {"schedulerName": "netgang", "containers": [{"name": "main", "resources": {"requests": {"cpu": "10"}}}]},
}
ASKED: Final = {"Pod": _POD, "Nodes": None, "NodeNames": ["node28", "node33"]}
BOUND: Final = {"PodName": "case1-0", "PodNamespace": "demo", "PodUID": "demo-case1-0", "Node": "node28"}
_OTHER: Final = "netgang: the plan has another node for this member"


class ExtenderArgs(msgspec.Struct):
    """One pod, and the nodes that are left for it."""

    Pod: dict[str, Any]  # The whole Pod.
    NodeNames: list[str] | None  # With nodeCacheCapable, as netgang's configuration has it.
    Nodes: dict[str, Any] | None = None  # A NodeList, without it.


class ExtenderFilterResult(msgspec.Struct):
    """The nodes that may be used, and a reason for each of the others."""

    NodeNames: list[str] | None
    Nodes: dict[str, Any] | None
    FailedNodes: dict[str, str] | None  # Another pod could leave: kube-scheduler may preempt.
    FailedAndUnresolvableNodes: dict[str, str] | None
    Error: str  # "" or what went wrong.


class HostPriority(msgspec.Struct):
    """How good a node is."""

    Host: str
    Score: int  # 0 to 10.


class ExtenderBindingArgs(msgspec.Struct):
    """Bind this pod to this node."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderBindingResult(msgspec.Struct):
    """Empty `Error`: the API server has confirmed the Binding."""

    Error: str


_VERBS: Final = {  # verb: (summary, type of the request, of the answer, example of the request, of the answer)
    "filter": (
        "Which of the nodes this pod may use",
        ExtenderArgs,
        ExtenderFilterResult,
        ASKED,
        {
            "Nodes": None,
            "NodeNames": ["node28"],
            "FailedNodes": None,
            "FailedAndUnresolvableNodes": {"node33": _OTHER},
            "Error": "",
        },
    ),
    "prioritize": (
        f"How good each node is for this pod, 0 to {MAX_SCORE}",
        ExtenderArgs,
        list[HostPriority],
        ASKED,
        [{"Host": "node28", "Score": 10}, {"Host": "node33", "Score": 0}],
    ),
    "bind": (
        "Hold the pod until its gang is whole, then bind it",
        ExtenderBindingArgs,
        ExtenderBindingResult,
        BOUND,
        {"Error": ""},
    ),
}


def add_verbs(document: dict[str, Any]) -> None:
    """Add the verbs and their types to an OpenAPI document."""
    types = [kind for _, asked, answered, *_ in _VERBS.values() for kind in (asked, answered)]
    schemas, found = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    document.setdefault("components", {}).setdefault("schemas", {}).update(found)
    for at, (verb, (summary, _, _, request, answer)) in enumerate(_VERBS.items()):
        asked, answered = schemas[2 * at], schemas[2 * at + 1]
        content = {"application/json": {"schema": asked, "example": request}}
        document["paths"][f"/{verb}"] = {
            "post": {
                "tags": ["verbs"],
                "summary": summary,
                "description": "Always answers 200; `Error` says what is wrong. The people's port only looks.",
                "operationId": verb,
                "requestBody": {"required": True, "content": content},
                "responses": {
                    "200": {
                        "description": "The answer, or its `Error`",
                        "content": {"application/json": {"schema": answered, "example": answer}},
                    }
                },
            }
        }
