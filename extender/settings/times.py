"""How long others wait for us: kube-scheduler for a bind call, and the other replicas for a leader.

A bind call in all takes less than kube-scheduler's `httpTimeout`: the settings are refused by it, `netgang doctor`
compares the running kube-scheduler with it, and the client of the API server keeps to its part of it. A later answer
has no effect: kube-scheduler has given the pod up, and the Binding puts it where it is no longer wanted. Rule: a call
is held for the hold limit; its Binding has its turn within the commit timeout; and then takes as long as the slowest
one. All three can happen to one call.

Of leader election: whether there is one, which Lease, and how long it lasts. The other times follow from the duration
(`extender.leadership.election.LeaseTimes`).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from extender.settings.reading import Section

COMMIT_TIMEOUT_S: Final = 15.0
"""How long a gang's Bindings may wait for their turn and for the API server before they are answered as failed."""
BINDING_MAX_S: Final = 6.0
"""Longest that one Binding takes, with its repetitions and the read that finds out its outcome."""
MARGIN_S: Final = 1.0
"""For the pod that the watch has not brought yet (half a second), the network, and an event loop that is busy."""


def longest_bind_s(*, hold_s: float, commit_s: float = COMMIT_TIMEOUT_S) -> float:
    """Seconds from a bind call to its answer, at most.

    >>> longest_bind_s(hold_s=25.0), longest_bind_s(hold_s=10.0, commit_s=5.0)
    (47.0, 21.0)
    """
    return hold_s + commit_s + min(BINDING_MAX_S, commit_s) + MARGIN_S  # the last Binding may begin at the last moment


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
