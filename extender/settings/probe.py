"""The settings of group `probe`: netgang's own measurements between nodes."""

from typing import Self

from pydantic import Field, model_validator

from extender.settings.types import Section


class ThroughputSettings(Section):
    """Throughput of links, measured by iperf3 in single bursts: one pair of nodes at a time in the whole cluster."""

    enabled: bool = False
    """Have agents measure throughput. Their image needs iperf3, and their NetworkPolicy TCP ports 8863 to 8870."""


class ProbeSettings(Section):
    """Packet loss and delay that agents on the nodes measure and report at `reports.port` (docs/reference/probe.md)."""

    enabled: bool = False
    """Take reports of agents at `POST /v1/probe`, assign their peers, and use what they measure."""
    service_account: str = Field(
        default="netgang-system/netgang-probe", pattern=r"^[a-z0-9.-]{1,63}/[a-z0-9.-]{1,253}$"
    )
    """`namespace/name` of the agents' service account: only its tokens, each bound to a pod, may report links."""
    throughput: ThroughputSettings = ThroughputSettings()
    """Bursts of throughput; off by default."""

    @model_validator(mode="after")
    def _throughput_needs_agents(self) -> Self:
        if self.throughput.enabled and not self.enabled:
            raise ValueError("throughput.enabled needs enabled: true: the probe's agents run the bursts")
        return self
