"""Settings of optional features: repair, preemption, autoscaling, PodGroup status and the decision log.

Rule: what evicts pods of a running gang or costs money is off by default.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from extender.settings.types import NotNegative, OnOrOff, Section
from scoring.model.policy import Repair
from scoring.provisioning.requests import AskingLimits


class RepairSettings(Section):
    """Gangs that lost members after they had started (docs/explanation/repair.md)."""

    policy: Repair = Repair.REPLACE
    """For gangs without annotation `netgang.io/repair`. `replace`: successors go first in line, beside those that are
    left; `restart`: the whole gang is started again through its owner's suspend and resume (needs
    manifests/components/restart); `none`: successors wait their turn."""
    restarts_per_hour: int = Field(default=3, ge=1, le=60)
    """`restart`: most restarts of one gang in an hour."""


class AutoscalingMode(StrEnum):
    """How an autoscaler hears of gangs that wait for nodes."""

    OFF = "off"
    PROVISIONING_REQUEST = "provisioning-request"


class ProvisioningClass(StrEnum):
    """`spec.provisioningClassName`: what an autoscaler is to do."""

    CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
    """Say whether the cluster has the room, and keep it for a while"""
    BEST_EFFORT_ATOMIC_SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    """Add nodes for all pods, or for none"""


class AutoscalingSettings(Section):
    """Nodes for gangs that wait for room (docs/how-to/provisioning.md)."""

    mode: Annotated[AutoscalingMode, OnOrOff] = AutoscalingMode.OFF
    """`provisioning-request`: a ProvisioningRequest (autoscaling.x-k8s.io/v1) for each gang that waits for room, for
    all pods that its minimum lacks; needs manifests/components/provisioning."""
    class_name: ProvisioningClass = ProvisioningClass.BEST_EFFORT_ATOMIC_SCALE_UP
    """What is asked for: nodes for all pods or none, or only whether there is room."""
    after_s: NotNegative = 30.0
    """How long a gang waits before it asks."""
    most: int = Field(default=10, ge=1, le=100)
    """Most requests at a time, over all gangs; the first of the queue ask first."""

    def limits(self) -> AskingLimits:
        """What limits the requests."""
        return AskingLimits(self.most, self.after_s)


class StatusMode(StrEnum):
    """Whether netgang writes the status of the PodGroups of its gangs."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class RecordSettings(Section):
    """What went into each decision, kept in memory and served at `/v1/record` (docs/how-to/replay.md)."""

    enabled: bool = False
    """Keep it. It costs a thread about as much CPU as planning does."""
    most_mib: int = Field(default=16, ge=1, le=1024)
    """Compressed size of what is kept, in MiB; the oldest goes first. 16 MiB are hours of a busy cluster."""
