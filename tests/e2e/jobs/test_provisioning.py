"""Nodes that are asked for, on a real API server: what netgang makes is accepted there, and its rights suffice."""

from functools import partial

import yaml

from lab.testbed.api import Object
from lab.testbed.errors import ApiRefused
from lab.testbed.objects import ZONE_LABEL, GangDialect, pod_group, zone_nodes
from lab.testbed.parts.service import ROOT
from tests.e2e.objects import required_terms
from tests.e2e.stage import Stage

GROUP, PLURAL = "autoscaling.x-k8s.io", "provisioningrequests"
DEFINITION = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {PLURAL}.{GROUP}}}
spec:
  group: {GROUP}
  scope: Namespaced
  names: {{kind: ProvisioningRequest, listKind: ProvisioningRequestList, plural: {PLURAL}}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [podSets, provisioningClassName]
            properties:
              provisioningClassName: {{type: string, maxLength: 253, pattern: '^[a-z0-9.-]+$'}}
              podSets:
                type: array
                minItems: 1
                maxItems: 32
                items:
                  type: object
                  required: [count, podTemplateRef]
                  properties:
                    count: {{type: integer, minimum: 1}}
                    podTemplateRef:
                      type: object
                      required: [name]
                      properties: {{name: {{type: string, maxLength: 253, pattern: '^[a-z0-9.-]+$'}}}}
          status:
            type: object
            properties:
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type, status, lastTransitionTime, reason, message]
                  properties:
                    type: {{type: string}}
                    status: {{type: string}}
                    reason: {{type: string}}
                    message: {{type: string}}
                    lastTransitionTime: {{type: string, format: date-time}}
"""
_HOST = "kubernetes.io/hostname"
_TERM = {"matchExpressions": [{"key": _HOST, "operator": "Exists"}]}
_SPREAD = {"maxSkew": 9, "topologyKey": _HOST, "whenUnsatisfiable": "ScheduleAnyway"}
DRESSED: Object = {
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{**_SPREAD, "labelSelector": {"matchLabels": {"app": "x"}}}],
    "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}],
}


def condition(kind: str, message: str) -> Object:
    one = {"type": kind, "status": "True", "reason": kind, "message": message}
    return {"status": {"conditions": [one | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}


async def asked(stage: Stage) -> list[Object] | None:
    """The requests of the namespace; `None`: the API server is not ready for a kind that is new to it."""
    try:
        return await stage.api.list_all("ProvisioningRequest", namespace=stage.namespace)
    except ApiRefused as refused:
        if refused.status not in (404, 429):
            raise
        return None


async def test_nodes_are_asked_for_and_the_gang_starts_when_they_come(stage: Stage) -> None:
    """With the component's rights: one request for four gated pods, one template that the API server takes as it is."""
    await stage.api.apply(ROOT / "manifests/components/provisioning/rbac.yaml")
    await stage.api.apply(yaml.safe_load(DEFINITION))
    requests = partial(asked, stage)
    await stage.api.until(requests, lambda found: found is not None, what="the kind served")
    await stage.add_nodes(*zone_nodes({"a": 1}, cpu="2"))
    mode = {"mode": "provisioning-request", "after_s": 0.0}
    netgang = await stage.netgang({"autoscaling": mode})
    group = await stage.api.create(pod_group("g", 4, namespace=stage.namespace))
    pods = stage.gang("g", 4, gated=True, dialect=GangDialect.POD_GROUP)
    for one in pods:
        one["spec"] |= DRESSED
    await stage.api.create_all(pods)

    found = await stage.api.until(requests, bool, what="nodes asked for")
    assert found is not None
    (request,) = found
    (template,) = await stage.api.list_all("PodTemplate", namespace=stage.namespace)
    assert request["spec"]["podSets"] == [{"count": 4, "podTemplateRef": {"name": template["metadata"]["name"]}}]
    for one in (request, template):
        assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == [group["metadata"]["uid"]]
    stored = template["template"]["spec"]
    assert stored["topologySpreadConstraints"] == DRESSED["topologySpreadConstraints"]
    assert [one["name"] for one in (*stored["initContainers"], *stored["containers"])] == ["side", "main"]
    [term] = required_terms({"spec": stored})
    assert [line["key"] for line in term["matchExpressions"]] == [_HOST, ZONE_LABEL]

    name = request["metadata"]["name"]
    answer = condition("Provisioned", "3 machines")
    await stage.api.patch("ProvisioningRequest", name, answer, namespace=stage.namespace, subresource="status")
    await stage.until_document(
        netgang,
        f"/v1/explain/{stage.namespace}/g",
        lambda found: any(one["text"].endswith("on its way: 3 machines") for one in found["notes"]),
        "the answer explained",
    )
    await stage.add_nodes(*zone_nodes({"a": 3}, cpu="2", prefix="more"))
    await stage.until_bound("g", 4)
    await stage.api.until(requests, lambda found: found == [], what="the request taken back")
    templates = partial(stage.api.list_all, "PodTemplate", namespace=stage.namespace)
    await stage.api.until(templates, lambda found: found == [], what="its template, which is deleted after it")
