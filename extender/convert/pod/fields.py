"""The fields of a v1.Pod that are read; all others are passed over while it is decoded.

Parts that all pods of a template hold alike stay raw bytes: they are keys of what is computed once per template.
"""

import msgspec

from extender.convert.decode import NO_RAW, Json, Metadata


class Container(Json):
    """Of `spec.containers` and `spec.initContainers`."""

    name: str = ""
    resources: msgspec.Raw = NO_RAW
    ports: msgspec.Raw = NO_RAW
    restart_policy: str | None = None


class Gate(Json):
    """Of `spec.schedulingGates`."""

    name: str


class SchedulingGroup(Json):
    """`spec.schedulingGroup`: Kubernetes' own PodGroup (1.36)."""

    pod_group_name: str | None = None


class PodSpec(Json):
    """`spec`, and `spec.template.spec` of a workload."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    node_selector: msgspec.Raw = NO_RAW
    affinity: msgspec.Raw = NO_RAW
    tolerations: msgspec.Raw = NO_RAW
    host_network: bool | None = None
    volumes: msgspec.Raw = NO_RAW
    resource_claims: msgspec.Raw = NO_RAW
    topology_spread_constraints: msgspec.Raw = NO_RAW
    scheduling_gates: list[Gate] | None = None
    scheduling_group: SchedulingGroup | None = None
    active_deadline_seconds: int | float | None = None


class ContainerStatus(Json):
    """Of `status.containerStatuses`: what a container has, which a resize in place changes."""

    name: str = ""
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW


class PodStatus(Json):
    """`status`."""

    phase: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    conditions: msgspec.Raw = NO_RAW
    resource_claim_statuses: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW


class PodFields(Json):
    """A v1.Pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None
