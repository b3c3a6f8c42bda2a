"""Settings of leader election: whether there is one, which Lease, and how quickly who notices what.

Why the times must fit together: a leader that cannot renew has to stand down, and what it sent has to be over, before
another may take its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from extender.settings.types import Positive, Section

_NAME = r"^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$"
_LEAST_WRITE_S = 0.5
"""Shortest time that a request sent at the last moment must have."""
_DRIFT_RATIO = 0.05
"""As in extender.leadership: what was sent is over this much before the lease ends."""
_NOWHERE = "netgang-system"
"""Namespace of the Lease outside a cluster, as in manifests/."""


class LeaderElection(StrEnum):
    """Whether several replicas agree on one that acts."""

    OFF = "off"
    ON = "on"


def on_or_off(value: object) -> object:
    """YAML reads a bare `on` as true.

    >>> on_or_off(True), on_or_off(False), on_or_off("off")
    ('on', 'off', 'off')
    """
    return ("on" if value else "off") if isinstance(value, bool) else value


class LeaseSettings(Section):
    """The Lease (coordination.k8s.io) on which replicas agree, with `leader_election: on`."""

    name: str = Field(default="netgang-leader", pattern=_NAME)
    """Name of the Lease; replicas of one installation have the same."""
    namespace: str | None = Field(default=None, pattern=_NAME)
    """Its namespace; `null`: that of the pod (POD_NAMESPACE), outside a cluster netgang-system."""
    duration_s: int = Field(default=3, ge=1, le=3600)
    """How long the others wait for a leader that gives no sign; whole seconds. From a leader's death until another acts
    it takes at worst this, 0.4 of `retry_period_s` (a look of the others), and three answers of the API server: 3.2 s
    and those answers."""
    renew_deadline_s: Positive = 2.3
    """How long a leader tries to renew before it stands down by itself. The rest of `duration_s`, less 5 % of it for
    clocks, is the longest that a request sent at the last moment may take."""
    retry_period_s: Positive = 0.5
    """Pause between renewals of the leader; the others look 2.5 times as often."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        write_s = self.duration_s * (1.0 - _DRIFT_RATIO) - self.renew_deadline_s
        if write_s < _LEAST_WRITE_S:
            raise ValueError(
                f"renew_deadline_s ({self.renew_deadline_s:g}) must be {_LEAST_WRITE_S:g} s below 95 % of duration_s "
                f"({self.duration_s}): what a leader sends at the last moment must be over before another leads"
            )
        if 2.0 * self.retry_period_s > self.renew_deadline_s:
            raise ValueError(
                f"retry_period_s ({self.retry_period_s:g}) must be at most half of renew_deadline_s "
                f"({self.renew_deadline_s:g}): one lost answer would end the term"
            )
        return self


@dataclass(frozen=True, slots=True)
class OwnPod:
    """The pod that this process runs in."""

    namespace: str
    name: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "OwnPod | None":
        """As the downward API tells it; `None`: we are no pod, or were not told.

        >>> OwnPod.of({"POD_NAME": "netgang-0", "POD_NAMESPACE": "team"})
        OwnPod(namespace='team', name='netgang-0')
        >>> OwnPod.of({"POD_NAME": "netgang-0"}) is None
        True
        """
        namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
        return cls(namespace, name) if namespace and name else None


def lease_namespace(settings: LeaseSettings, pod: OwnPod | None) -> str:
    """Where the Lease is.

    >>> lease_namespace(LeaseSettings(), OwnPod("team", "p")), lease_namespace(LeaseSettings(), None)
    ('team', 'netgang-system')
    """
    return settings.namespace or (pod.namespace if pod is not None else _NOWHERE)
