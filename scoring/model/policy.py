"""What an operator may choose about decisions, and what a gang's owner may ask for by annotation.

Why apart from the service's settings: a recorded decision is re-run with the policy it was made under, so the policy
is a plain value that depends on nothing. A field that is a setting is described there (docs/reference/settings.md).
Rule: an unknown annotation value is reported and the default is used, never silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scoring.ids import EndpointId, Namespace, ZoneName
from scoring.lengths import duration_s
from scoring.model.nearest import nearest


class Selection(StrEnum):
    """How nodes are chosen inside a zone (PAPERS N3, K6)."""

    SUBSET = "subset"
    PAPER = "paper"
    PACK = "pack"


class AdmitTo(StrEnum):
    """What the required affinity of a pod names once its gate is removed."""

    NODES = "nodes"
    ZONE = "zone"


class ZonePolicy(StrEnum):
    """`required`: one zone or nothing. `preferred`: several zones after a wait (PAPERS N1)."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class Preempting(StrEnum):
    """Whether a waiting gang may take the place of gangs of lower priority that run."""

    OFF = "off"
    GANGS = "gangs"  # Whole gangs leave for it, as few as suffice; never a part of one
    LEVELS = "levels"  # Besides, gangs that may be suspended leave for one of the same priority that has had less


class Repair(StrEnum):
    """What a gang that had started is given when it lost members."""

    REPLACE = "replace"  # Successors go first in line, beside those that are left
    RESTART = "restart"  # The gang is restarted as a whole, where its owner allows it
    NONE = "none"  # Successors wait in the queue like all pods; none is removed and nothing is said


class Order(StrEnum):
    """Which gang of one priority is planned first."""

    WEIGHT = "weight"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True)
class Ratios:
    """Points that loss, delay and bandwidth can earn; 20 : 40 : 40 as published, any sum is scaled to 100."""

    loss: float = 20.0
    delay: float = 40.0
    bandwidth: float = 40.0

    def __post_init__(self) -> None:
        """Refuse negative, infinite and all-zero ratios."""
        parts = (self.loss, self.delay, self.bandwidth)
        if not all(0.0 <= part < 1e6 for part in parts) or sum(parts) <= 0.0:
            raise ValueError("ratios must be three numbers of at least 0, not all 0, such as 20:40:40")


class Ttl(msgspec.Struct, frozen=True):
    """An age in seconds for each metric; `None`: never."""

    loss: float | None
    delay: float | None
    throughput: float | None

    @classmethod
    def same(cls, age_s: float | None) -> "Ttl":
        """One age for all metrics."""
        return cls(age_s, age_s, age_s)

    def of(self, metric: str) -> float | None:
        """The age for `loss`, `delay` or `throughput`."""
        return {"loss": self.loss, "delay": self.delay, "throughput": self.throughput}[metric]


class ScorePolicy(msgspec.Struct, frozen=True, cache_hash=True):
    """The pair score's weights (PAPERS N2)."""

    ratios: Ratios = Ratios()
    loss_weight: float = 10.0  # Points lost per percent of packet loss, at the published ratio of 20
    delay_weight: float = 1.0  # Points lost per millisecond of one-way delay, at the published ratio of 40
    bandwidth_weight: float = 1.0  # Factor on the bandwidth term
    reference_bps: float | None = None
    """Rate that earns the full bandwidth term; `None`: the best measured rate of the zone."""
    unknown_penalty_ratio: float = 0.05  # Share of a term's points that an unknown value loses against known ones
    soft_ttl_s: Ttl = Ttl(loss=5400.0, delay=5400.0, throughput=93_600.0)
    """Age from which a measurement fades towards neutral; `None`: it never fades."""
    hard_ttl_s: Ttl = Ttl(loss=10_800.0, delay=10_800.0, throughput=172_800.0)
    """Age from which a measurement counts as unknown; `None`: never."""


class QueuePolicy(msgspec.Struct, frozen=True):
    """The order of the queue (PAPERS K1–K3, G5; docs/safety.md S14)."""

    order: Order = Order.WEIGHT
    weight_namespaces: frozenset[Namespace] = frozenset()
    """Where annotation `netgang.io/weight` is obeyed; `*`: everywhere."""
    starve_limit_s: float = 600.0  # STARVELIMIT: how long a gang waits before it is STARVING
    reserve_after_s: float = 604_800.0  # How long a STARVING gang has waited before room is reserved for it
    backfill: bool = True
    """The first gang that cannot start is promised a start, where the ends of what runs are known."""
    share_cap: float | None = None
    """Share of each resource of the cluster that the gangs of a namespace may have; `None`: all."""


class ServicePolicy(msgspec.Struct, frozen=True):
    """Levels of attained service (`scoring.queue.service_levels`)."""

    thresholds_h: tuple[float, ...] = (1 / 16, 1.0)  # Cluster-hours of a gang's dominant share: one level up each
    min_run_s: float = 1800.0
    """A gang is not suspended sooner after its start: with 300 s the recorded workloads end no sooner on average, and
    have three times as many suspensions."""
    wide_share: float = 0.25
    """Share of the cluster from which on a gang is wide: it takes no room by its level before it is STARVING."""


class RestartLimits(msgspec.Struct, frozen=True):
    """When and how often a gang that lost members is restarted as a whole."""

    settle_s: float = 10.0  # How long it must have been broken; a node may come back meanwhile
    most_per_hour: int = 3
    backoff_s: float = 60.0  # Least time between the first and the second; it doubles with each further one of the hour


class Policy(msgspec.Struct, frozen=True):
    """All choices that decide, in one value."""

    score: ScorePolicy = ScorePolicy()
    selection: Selection = Selection.SUBSET
    zone_policy: ZonePolicy = ZonePolicy.REQUIRED
    spill_wait_s: float = 300.0  # `preferred`: how long a gang waits for a single zone before it may be spread
    zone_distance_ms: tuple[tuple[tuple[ZoneName, ZoneName], float], ...] = ()
    """Configured one-way delay between two zones (or an endpoint and a zone), used where none is measured."""
    exact_zone_size: int = 12  # Zones of at most this many candidate nodes are searched exactly by `subset`
    admit_to: AdmitTo = AdmitTo.NODES  # `nodes`: the planned nodes and some spares; `zone`: only the zone's label
    spares: int = 4  # `nodes`: further nodes of the zone that are named, so that a dead node is harmless
    zone_label: str = "topology.kubernetes.io/zone"  # The node label that names the zone
    hold_limit_s: float = 25.0
    """How long a bind is held for quorum; with the worst commit time below the extender entry's httpTimeout."""
    partial_timeout_s: float = 120.0
    """How long a gang that never started may stay partly bound before its bound pods are evicted."""
    exclusion_ttl_s: float = 300.0  # How long a refusal learned from NodeNames is believed
    queue: QueuePolicy = QueuePolicy()
    repair: Repair = Repair.REPLACE
    restarts: RestartLimits = RestartLimits()
    preemption: Preempting = Preempting.OFF
    service: ServicePolicy = ServicePolicy()


class GangOptions(msgspec.Struct, frozen=True):
    """What a gang's owner asked for, merged with the defaults of the policy."""

    zones: tuple[ZoneName, ...] | None = None  # Allowed zones in order of preference; `None`: all
    near: EndpointId | ZoneName | None = None  # Zone or measurement endpoint the job's users are at
    zone_policy: ZonePolicy = ZonePolicy.REQUIRED
    selection: Selection = Selection.SUBSET
    ratios: Ratios | None = None
    weight: Fraction | None = None  # ω′ as the operator wants it; `None`: it is computed
    repair: Repair = Repair.REPLACE
    preemptible: bool = True  # Whether it may be made to leave for a gang of higher priority
    suspendable: bool = False
    problems: tuple[str, ...] = ()  # One sentence per annotation that was not understood; the default was used for it


OPTION_CHARS: Final = 253  # Longest value of an annotation: what names a zone, a node or an endpoint is no longer
LIST_CHARS: Final = 4096
LIST_ENTRIES: Final = 64  # Longest list of zones, and most entries in it
_RATIO_STEP: Final = 5.0  # Percent. Each set of ratios costs a scoring of every link, so there are only so many
_SHOWN_CHARS: Final = 60

KNOWN_OPTIONS = frozenset(
    {
        *("zones", "near", "zone-policy", "ratios", "selection"),
        *("min-workers", "max-workers", "scaling", "weight", "admitted"),
        *("preempts", "preemptible", "suspendable", "repair", "expected-duration"),
    }
)
"""Annotations `netgang.io/<name>` that exist; another name is reported as a probable typing mistake."""
_OWN_OF_PODS = ("role", "index")  # Read before they come here; here are those with a wrong value


def gang_options(annotations: Mapping[str, str], policy: Policy, *, namespace: str | None = None) -> GangOptions:
    """Read the `netgang.io/…` annotations (keys without the prefix); what is not understood becomes a problem.

    `weight` is obeyed in the policy's namespaces only; without a `namespace` it is not looked at.

    >>> gang_options({"zones": "D, C", "near": "D", "ratios": "1:1:2"}, Policy()).zones
    ('D', 'C')
    >>> trusted = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("ops")})))
    >>> gang_options({"weight": "2.5"}, trusted, namespace="ops").weight
    Fraction(5, 2)
    >>> gang_options({"weight": "2.5"}, trusted, namespace="team").problems
    ('netgang.io/weight: namespace team may not set weights; the computed one is used',)
    >>> gang_options({"selection": "best"}, Policy()).problems
    ("netgang.io/selection: 'best' is not one of subset, paper, pack; subset is used",)
    """
    options = GangOptions(zone_policy=policy.zone_policy, selection=policy.selection, repair=policy.repair)
    problems: list[str] = []
    for name, text in sorted(annotations.items()):
        try:
            options = replace(options, **_field(name, text, policy, namespace))
        except ValueError as problem:
            problems.append(f"netgang.io/{name}: {problem}")
    return replace(options, problems=tuple(problems)) if problems else options


def _field(name: str, text: str, policy: Policy, namespace: str | None) -> dict[str, Any]:
    """The field that annotation `netgang.io/<name>` sets; ValueError says what is wrong, and what is used instead."""
    if len(text) > option_chars(name):
        raise ValueError(f"longer than {option_chars(name)} characters; it is ignored")
    value = text.strip()
    match name:
        case "zones":
            zones = tuple(dict.fromkeys(ZoneName(z.strip()) for z in value.split(",") if z.strip()))
            if not zones:
                raise ValueError("no zone is named; all zones are allowed")
            if len(zones) > LIST_ENTRIES:
                raise ValueError(f"more than {LIST_ENTRIES} zones are named; all are allowed")
            return {"zones": zones}
        case "near":
            return {"near": ZoneName(value) or None}
        case "zone-policy" | "selection" | "repair":
            field = name.replace("-", "_")
            default: StrEnum = getattr(policy, field)
            if value not in list(type(default)):
                words = ", ".join(type(default))
                raise ValueError(f"{_shown(value)} is not one of {words}; {default} is used")
            return {field: type(default)(value)}
        case "preemptible" | "suspendable":
            if value not in ("true", "false"):
                used = "true is used" if name == "preemptible" else "it is ignored"
                raise ValueError(f"{_shown(value)} is neither true nor false; {used}")
            return {name: value == "true"}
        case "expected-duration":
            try:
                duration_s(value)  # the gang's record has it as its length
            except ValueError as problem:
                raise ValueError(f"{_shown(value)} {problem}; it is ignored") from None
            return {}
        case "ratios":
            try:
                loss, delay, bandwidth = map(float, value.split(":"))
                return {"ratios": _in_steps(Ratios(loss, delay, bandwidth))}
            except ValueError:
                said = f"{_shown(value)} is not three numbers such as 20:40:40; the default is used"
                raise ValueError(said) from None
        case "weight" if namespace is not None:
            if policy.queue.weight_namespaces.isdisjoint({namespace, "*"}):
                raise ValueError(f"namespace {namespace} may not set weights; the computed one is used")
            if (weight := _weight(value)) is None:
                example = "a number of at least 0 such as 2.5 or 5/2"
                raise ValueError(f"{_shown(value)} is not {example}; the computed one is used")
            return {"weight": weight}
        case _ if name not in KNOWN_OPTIONS:
            meant = nearest(name, (*KNOWN_OPTIONS, *_OWN_OF_PODS))
            asked = f"; did you mean netgang.io/{meant}?" if meant is not None else "; it is ignored"
            raise ValueError(f"no such annotation{asked}")
        case _:
            return {}  # read by the queue and by the scaling loop


def option_chars(name: str) -> int:
    """Longest value that annotation `netgang.io/<name>` may have."""
    return LIST_CHARS if name in ("zones", "preempts") else OPTION_CHARS


def _in_steps(ratios: Ratios) -> Ratios:
    """The ratios in percent, each rounded to a step; equal parts stay equal, and a part that counts stays above 0.

    >>> _in_steps(Ratios(1, 1, 2)), _in_steps(Ratios(1, 1, 1)), _in_steps(Ratios(1, 0, 999))
    (Ratios(loss=25.0, delay=25.0, bandwidth=50.0), Ratios(loss=35.0, delay=35.0, bandwidth=35.0), \
Ratios(loss=5.0, delay=0.0, bandwidth=100.0))
    """
    parts = (ratios.loss, ratios.delay, ratios.bandwidth)
    whole = sum(parts)
    steps = [round(part / whole * 100.0 / _RATIO_STEP) for part in parts]
    return Ratios(*(_RATIO_STEP * max(step, 1 if part else 0) for step, part in zip(steps, parts, strict=True)))


def _shown(text: str) -> str:
    """A value as a sentence quotes it.

    >>> _shown("best"), len(_shown("x" * 200))
    ("'best'", 63)
    """
    return repr(text) if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]!r}…"


def _weight(text: str) -> Fraction | None:
    """Read a weight, exactly as it is written; `None`: it is none, or too long.

    >>> _weight("2.5"), _weight("1/3"), _weight("-1"), _weight("nan"), _weight("1e999")
    (Fraction(5, 2), Fraction(1, 3), None, None, None)
    """
    if len(text) > 40 or not set(text) <= set("0123456789./"):
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None
