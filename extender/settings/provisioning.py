"""Settings of asking an autoscaler for nodes (docs/how-to/provisioning.md). A part of the settings.

Rule: off unless asked for: nodes cost money.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from extender.settings.types import NotNegative, Positive, Section
from scoring.provisioning import AskingLimits


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


def _word(value: object) -> object:
    """The word that YAML 1.1 took for a truth value: `off` without quotes."""
    return AutoscalingMode.OFF if value is False else value


class AutoscalingSettings(Section):
    """Nodes for gangs that wait for room (docs/how-to/provisioning.md)."""

    mode: Annotated[AutoscalingMode, BeforeValidator(_word)] = AutoscalingMode.OFF
    """`provisioning-request`: a ProvisioningRequest (autoscaling.x-k8s.io/v1) for each gang that waits for room, for
    all pods that its minimum lacks; needs manifests/components/provisioning."""
    class_name: ProvisioningClass = ProvisioningClass.BEST_EFFORT_ATOMIC_SCALE_UP
    """What is asked for: nodes for all pods or none, or only whether there is room."""
    after_s: NotNegative = 30.0
    """How long a gang waits before it asks."""
    most: int = Field(default=10, ge=1, le=100)
    """Most requests at a time, over all gangs; the first of the queue ask first."""
    backoff_s: Positive = 60.0
    """From a request that failed or lapsed to the next of the same gang; doubles with each, up to half an hour."""

    def limits(self) -> AskingLimits:
        """The part that decides."""
        return AskingLimits(self.most, self.after_s, self.backoff_s)
