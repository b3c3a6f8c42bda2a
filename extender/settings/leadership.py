"""Settings of leader election: whether there is one, which Lease, and how long it lasts.

The other times follow from the duration (`extender.leadership.election.LeaseTimes`).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from extender.settings.reading import Section


class LeaderElection(StrEnum):
    """Whether several replicas agree on one that acts."""

    OFF = "off"
    ON = "on"


LEASE_NAME = "netgang-leader"  # Replicas of one installation are in one namespace
HOME = "netgang-system"  # Netgang's own namespace, as in manifests/


class LeaseSettings(Section, frozen=True):
    """The Lease (coordination.k8s.io) on which replicas agree, with `leader_election: on`."""

    duration_s: Annotated[int, Meta(ge=1, le=3600)] = 3
    """How long the others wait for a leader that gives no sign; whole seconds. From a leader's death until another acts
    it takes at worst this, 1/15 of it (a look of the others), and three answers of the API server: 3.2 s and those
    answers."""


class OwnPod(msgspec.Struct, frozen=True):
    """The pod that this process runs in."""

    namespace: str
    name: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "OwnPod | None":
        """As the downward API has it; `None`: we are no pod, or it is not known.

        >>> OwnPod.of({"POD_NAME": "netgang-0", "POD_NAMESPACE": "team"})
        OwnPod(namespace='team', name='netgang-0')
        >>> OwnPod.of({"POD_NAME": "netgang-0"}) is None
        True
        """
        namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
        return cls(namespace, name) if namespace and name else None


def lease_namespace(pod: OwnPod | None) -> str:
    """Where the Lease is; outside a cluster as in manifests/.

    >>> lease_namespace(OwnPod("team", "p")), lease_namespace(None)
    ('team', 'netgang-system')
    """
    return pod.namespace if pod is not None else HOME
