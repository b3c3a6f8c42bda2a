"""The settings of groups `network` and `score`: measurements, their endpoints and age, and how links become points.

Sources of archives are in `sources`, the mapping's parts in `mapping`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from extender.settings.mapping import EndpointRule, NodeEndpoints
from extender.settings.sources import OpenSearchSource, PrometheusSource, Server
from extender.settings.types import ByMetric, NotNegative, Positive, Section
from scoring.ids import NodeName, ZoneName
from scoring.model.policy import Ratios, Ttl
from scoring.network.matrix import METRICS


class FileSource(Section):
    """Measurements from a mesh file, read again whenever it changes."""

    kind: Literal["file"]
    """The word that makes this a file source."""
    path: Path
    """The mesh file, YAML or JSON (docs/reference/network.md)."""


GridNames: TypeAlias = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=1),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]


class MaddashNames(ByMetric):
    """Names by metric, for loss, delay and throughput; a text or a list in its place means all three.

    A text that is exactly a name means that one; any other is a pattern with `*`, `?` and `[…]`.
    """

    PLAIN = (str, list, tuple)

    loss: GridNames | None = None
    """For packet loss; `null`: not restricted."""
    delay: GridNames | None = None
    """For one-way delay or round-trip time (a plain MaDDash has none); `null`: not restricted."""
    throughput: GridNames | None = None
    """For throughput; `null`: not restricted."""


class MaddashSource(Server):
    """Measurements from a MaDDash server's REST API: one GET per grid."""

    kind: Literal["maddash"]
    """The word that makes this a MaDDash source."""
    url: str
    """Address of the server, such as https://maddash.example.org/maddash; without a path, /maddash is meant."""
    grids: MaddashNames = MaddashNames()
    """Which grids are read: a name, a list of them, or {loss, delay, throughput}; a name may have `*`, `?` and `[…]`.
    A metric that names none comes from every grid whose messages show it; a plain MaDDash has no delay."""
    checks: MaddashNames = MaddashNames()
    """Which checks of these grids count, written like `grids`; reverse checks have names of their own, such as
    Throughput - Reverse."""


Source: TypeAlias = Annotated[
    FileSource | MaddashSource | OpenSearchSource | PrometheusSource, Field(discriminator="kind")
]


class _Ages(ByMetric):
    """An age for each metric; one number, or `null`, in its place means all three."""

    PLAIN = (type(None), int, float, str)


class SoftTtl(_Ages):
    """Ages from which measurements fade towards neutral."""

    loss: Positive | None = 5400.0
    """Age in seconds from which packet loss fades towards neutral; `null`: it never fades. Default 5400: three rounds
    of a test that a plain MaDDash looks at every half hour."""
    delay: Positive | None = 5400.0
    """The same for delay."""
    throughput: Positive | None = 93_600.0
    """The same for throughput, which is measured hours apart: 26 hours."""


class HardTtl(_Ages):
    """Ages from which measurements count as unknown."""

    loss: Positive | None = 10_800.0
    """Age in seconds from which packet loss counts as unknown; `null`: never."""
    delay: Positive | None = 10_800.0
    """The same for delay."""
    throughput: Positive | None = 172_800.0
    """The same for throughput: two days."""


class NetworkSettings(Section):
    """Where measurements come from and how long they are believed."""

    sources: tuple[Source, ...] = ()
    """Places that know measurements; of several values for one pair the newest counts. None: all pairs are unknown."""
    mapping: Mapping[NodeName, NodeEndpoints] = Field(default_factory=dict)
    """node → endpoint, or node → {loss, delay, throughput}. Wins over annotation, rule, zone, address and name."""
    zone_mapping: Mapping[ZoneName, NodeEndpoints] = Field(default_factory=dict)
    """zone → endpoint of all its nodes for which mapping, annotation and rules say nothing: one endpoint per site."""
    rules: tuple[EndpointRule, ...] = ()
    r"""Endpoints by the form of the node name: `{pattern: 'node(\d+)', endpoint: 'ps-node\1.example.org'}`.

    For nodes for which mapping and annotation say nothing; of several rules the first that matches decides."""
    soft_ttl_s: SoftTtl = SoftTtl()
    """Ages in seconds from which measurements fade towards neutral; `null`: never. One value stands for all metrics.
    What is not said is at most the hard TTL."""
    hard_ttl_s: HardTtl = HardTtl()
    """Ages in seconds from which measurements count as unknown; `null`: never. One value stands for all metrics."""

    @model_validator(mode="after")
    def _soft_before_hard(self) -> Self:
        for metric in METRICS:
            soft, hard = self.soft_ttl().of(metric.value), self.hard_ttl().of(metric.value)
            if soft is not None and hard is not None and soft > hard:
                raise ValueError(f"soft_ttl_s.{metric} ({soft:g}) must not be above hard_ttl_s.{metric} ({hard:g})")
        return self

    def soft_ttl(self) -> Ttl:
        """As the scores take it; one that is not said ends at the hard one."""
        said = self.soft_ttl_s.model_fields_set if "soft_ttl_s" in self.model_fields_set else set[str]()
        ages: dict[str, float | None] = {}
        for metric in METRICS:
            soft, hard = getattr(self.soft_ttl_s, metric.value), getattr(self.hard_ttl_s, metric.value)
            ages[metric.value] = soft if metric.value in said or hard is None else min(soft, hard)
        return Ttl(**ages)

    def hard_ttl(self) -> Ttl:
        """As the scores take it."""
        return Ttl(**{metric.value: getattr(self.hard_ttl_s, metric.value) for metric in METRICS})


def _ratios(value: object) -> Ratios:
    if isinstance(value, Ratios):
        return value
    parts = value.split(":") if isinstance(value, str) else value
    try:
        loss, delay, bandwidth = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ValueError(
            "must be three numbers of at least 0, not all 0, such as '20:40:40', in quotes: YAML reads 20:40:40 "
            "without them as one number"
        ) from None
    return Ratios(loss, delay, bandwidth)


class ScoreSettings(Section):
    """The pair score: 20:40:40 points for packet loss, delay and bandwidth (docs/reference/extender.md)."""

    ratios: Annotated[Ratios, BeforeValidator(_ratios)] = Ratios()
    """Points for loss : delay : bandwidth, such as 20:40:40; any sum is scaled to 100."""
    loss_weight: NotNegative = 10.0
    """Points lost per percent of packet loss."""
    delay_weight: NotNegative = 1.0
    """Points lost per millisecond of one-way delay."""
    bandwidth_weight: NotNegative = 1.0
    """Factor on the bandwidth term."""
    reference_bps: Positive | None = None
    """Throughput in bit/s that earns the whole bandwidth term; `null`: the best measured one of the zone."""
