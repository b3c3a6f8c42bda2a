"""Everything that decides: pure functions over a snapshot, a policy and `now_s`; here the names of things.

Why a package of its own: a decision that needs no clock, no chance and no I/O can be tested by tables and
properties, replayed bit for bit, and run unchanged in a simulator. Import direction: nothing here imports `extender`.
Why names as distinct types: all are strings, and mixing two of them up neither a test nor a reader sees at once.
"""

from enum import StrEnum
from typing import NewType

NodeName = NewType("NodeName", str)
ZoneName = NewType("ZoneName", str)
PodUid = NewType("PodUid", str)
PodName = NewType("PodName", str)
Namespace = NewType("Namespace", str)
GangKey = NewType("GangKey", str)  # `namespace/group`: a gang is named by its namespace and its group's name
JobKey = NewType("JobKey", str)  # `namespace/job` of the training job that a pod belongs to
ResourceName = NewType("ResourceName", str)
EndpointId = NewType("EndpointId", str)  # How measurements call an end of a link: address, host name, site

NO_ZONE = ZoneName("")  # Nodes without a zone label form this zone; only jobs with zone policy `preferred` use it


class Metric(StrEnum):
    """What is measured: packet loss (ratio 0..1), one-way delay (ms), throughput (bit/s)."""

    LOSS = "loss"
    DELAY = "delay"
    THROUGHPUT = "throughput"


METRICS: tuple[Metric, ...] = (Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT)


def value_text(metric: Metric, value: float) -> str:
    """A value in the unit that people read: %, ms or Mbit/s."""
    if metric is Metric.LOSS:
        return f"{100.0 * value:.3g} %"
    return f"{value:.3g} ms" if metric is Metric.DELAY else f"{value / 1e6:.4g} Mbit/s"
