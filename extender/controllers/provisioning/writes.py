"""Make a ProvisioningRequest with its PodTemplates, mark the pods that it stands for, and take all of it back.

Rules: templates are made before the request that names them, and taken back after it. All belong to the gang's
PodGroup, else to its pods' controller, else to a pod, and go with it. Names say what was asked, so that making it again
after a lost answer finds it there, and taking it back twice is taking it back once.
"""

import logging
from typing import Any

from extender.controllers.context import ControllerContext
from extender.convert import provisioning
from extender.errors import ApiError, ConflictError, NotFoundError
from scoring.explain.words import zone_text
from scoring.model import Controller, Gang
from scoring.provisioning.requests import Create, Request

_log = logging.getLogger(__name__)


class ProvisioningWrites:
    """What is written for requests. Errors of all calls: ApiError, ApiUnavailableError; ValueError: a broken pod."""

    def __init__(self, context: ControllerContext, *, class_name: str, zone_label: str) -> None:
        self._groups = context.groups
        self._api = context.api
        self._class_name = class_name
        self._zone_label = zone_label

    async def create(self, step: Create, gang: Gang) -> str:
        """Make the request and its templates; its name. One that is refused leaves no templates."""
        namespace, owner = step.gang.partition("/")[0], self._owner(gang)
        name = provisioning.request_name(step, owner.uid)
        templates = provisioning.template_names(name, len(step.sets))
        for template, pods in zip(templates, step.sets, strict=True):
            raw = await self._api.get_pod(namespace, pods[0].name)
            content = provisioning.template_json(
                raw, name=template, owner=owner, zones=step.zones, zone_label=self._zone_label
            )
            await self._made("v1", "PodTemplate", namespace, content)
        content = provisioning.request_json(step, name=name, class_name=self._class_name, owner=owner)
        try:
            await self._made(provisioning.API_VERSION, provisioning.KIND, namespace, content)
        except ApiError:
            await self._remove_templates(namespace, templates)
            raise
        where = f" in {' or '.join(map(zone_text, step.zones))}" if step.zones else ""
        pods_asked = sum(map(len, step.sets))
        _log.info("ProvisioningRequest %s asks for nodes for %d pods of %s%s", name, pods_asked, step.gang, where)
        return name

    async def mark(self, step: Create, name: str) -> None:
        """Mark for autoscalers that pods which they see (those without a gate) are asked for already."""
        notes = {provisioning.CONSUMES: name, provisioning.CONSUMES_CLASS: self._class_name}
        for pod in (pod for pods in step.sets for pod in pods if not pod.gated):
            try:
                await self._api.annotate_pod(pod.namespace, pod.name, pod.uid, notes)
            except (ConflictError, NotFoundError):
                continue  # the pod is gone, and what is asked for changes with it

    async def delete(self, request: Request) -> None:
        """Take a request back, and its templates."""
        namespace = request.gang.partition("/")[0]
        try:
            await self._api.delete_object(provisioning.API_VERSION, provisioning.KIND, namespace, request.name)
        except NotFoundError:
            _log.info("ProvisioningRequest %s was gone already", request.name)
        await self._remove_templates(namespace, provisioning.template_names(request.name, request.sets))

    async def _made(self, api_version: str, kind: str, namespace: str, content: dict[str, Any]) -> None:
        """Create it; what has that name was made by us for just this."""
        try:
            await self._api.create_object(api_version, kind, namespace, content)
        except ConflictError:
            _log.info("%s %s is there already", kind, content["metadata"]["name"])

    async def _remove_templates(self, namespace: str, names: tuple[str, ...]) -> None:
        for name in names:
            try:
                await self._api.delete_object("v1", "PodTemplate", namespace, name)
            except NotFoundError:
                continue  # it was not made, or went with its owner

    def _owner(self, gang: Gang) -> Controller:
        seen = self._groups.of(gang)
        if seen is not None and seen.uid:
            return Controller("scheduling.x-k8s.io/v1alpha1", "PodGroup", gang.key.partition("/")[2], seen.uid)
        owners = {pod.owner for pod in gang.members}
        owner = owners.pop() if len(owners) == 1 else None
        first = gang.members[0]
        return owner if owner is not None else Controller("v1", "Pod", first.name, first.uid)
