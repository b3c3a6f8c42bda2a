"""How a simulated kube-scheduler is configured: the parts of KubeSchedulerConfiguration that matter here.

Rule: `SECOND` says what scheduler-config/second-scheduler.yaml and its Deployment say; a test compares them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerProfile:
    """One kube-scheduler with one profile."""

    name: str
    """`spec.schedulerName` of its pods."""
    extender: bool = False
    """Netgang is asked: filter, prioritize, bind."""
    weight: int = 12
    """Of the extender's scores."""
    http_timeout_s: float = 60.0
    """Of the extender entry with the bind verb."""
    percentage: int | None = None
    """percentageOfNodesToScore; `None`: its own sampling."""
    pops_backoff: bool = True
    """Feature gate SchedulerPopFromBackoffQ."""
    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    gangs: bool = False
    """A plugin after PAPERS G gangs the pods: PreFilter, Permit, Unreserve, QueueSort."""
    permit_s: float = 60.0
    """How long a member waits at Permit."""


SECOND = SchedulerProfile("netgang", extender=True, percentage=100)
"""The second scheduler of the recommended configuration."""
DEFAULT = SchedulerProfile("default-scheduler")
"""kube-scheduler as it comes."""
COSCHEDULING = SchedulerProfile("coscheduling", gangs=True)
"""kube-scheduler with a coscheduling plugin."""
