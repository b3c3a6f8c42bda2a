"""What an operator may choose about decisions, and what a gang's owner may ask for by annotation.

A plain value, read as settings are (`extender.settings.reading`): each field is the setting of its name, but for those
in `fixed`, which only tests and the simulator vary. An unknown annotation value is reported, and the default is used.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from scoring import EndpointId, Namespace, ZoneName
from scoring.model.gang import duration_s

_LIKE: Final = 0.75  # Two letters of a short word in the wrong order are just this
LIKE_VALUE: Final = 0.6  # For values of labels, of which few are known: "sdd" is 0.67 like "ssd"
_CHARS: Final = 128  # Longer ones are not compared: it costs their product


def nearest(name: str, choices: Iterable[str], *, like: float = _LIKE) -> str | None:
    """The one of `choices` that `name` is most like, at least `like` as difflib counts it (1: the same); remembered.

    >>> nearest("nmae", ["name", "min-available"]), nearest("zone", ["zones", "near"]), nearest("x", ["zones"])
    ('name', 'zones', None)
    >>> nearest("sdd", ["ssd", "nvme"]), nearest("sdd", ["ssd", "nvme"], like=LIKE_VALUE)
    (None, 'ssd')
    """
    return _nearest(name, tuple(sorted(choices)), like) if len(name) <= _CHARS else None


@lru_cache(maxsize=256)
def _nearest(name: str, choices: tuple[str, ...], like: float) -> str | None:
    return next(iter(get_close_matches(name, choices, n=1, cutoff=like)), None)


Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0.0)]
NotNegative: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0)]
LabelKey: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=317,
        pattern=r"^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        extra={"must": "be a Kubernetes label or annotation key such as topology.kubernetes.io/zone"},
    ),
]


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
    """Whether whole gangs that run leave for one that waits, as few as suffice; never a part of one."""

    OFF = "off"
    LEVELS = "levels"  # Gangs that may be suspended leave, also for one of the same priority that has had less
    GANGS = "gangs"  # Besides, any gang leaves for one of higher priority, unless it says that it must not


class Repair(StrEnum):
    """What a gang that had started is given when it lost members."""

    REPLACE = "replace"  # Successors go first in line, beside those that are left
    RESTART = "restart"  # The gang is restarted as a whole, where its owner allows it
    NONE = "none"  # Successors wait in the queue like all pods; none is removed and nothing is said


class BadLinks(StrEnum):
    """What a gang does where its best nodes have links whose grade is bad."""

    AVOID = "avoid"  # It takes those with the fewest
    REFUSE = "refuse"  # It waits


class Order(StrEnum):
    """Which gang of one priority is planned first."""

    WEIGHT = "weight"
    FIFO = "fifo"


class Ratios(msgspec.Struct, frozen=True):
    """Points that loss, delay and bandwidth can earn; 20 : 40 : 40 as published, any sum is scaled to 100."""

    loss: float = 20.0
    delay: float = 40.0
    bandwidth: float = 40.0

    def __post_init__(self) -> None:
        parts = (self.loss, self.delay, self.bandwidth)
        if not all(0.0 <= part < 1e6 for part in parts) or sum(parts) <= 0.0:
            raise ValueError("ratios must be three numbers of at least 0, not all 0, such as 20:40:40")

    @classmethod
    def written(cls, value: Any) -> "Ratios":
        """As a text or a list of three."""
        if isinstance(value, Ratios):
            return value
        try:
            loss, delay, bandwidth = map(float, value.split(":") if isinstance(value, str) else value)
        except (TypeError, ValueError):
            must = "must be three numbers of at least 0, not all 0, such as '20:40:40', in quotes"
            raise ValueError(f"{must}: YAML reads 20:40:40 without them as one number") from None
        return cls(loss, delay, bandwidth)


class Ttl(msgspec.Struct, frozen=True):
    """An age in seconds for each metric; `None`: never."""

    loss: Positive | None
    delay: Positive | None
    throughput: Positive | None

    @classmethod
    def written(cls, value: Any) -> Any:
        """One value in place of the three means all of them."""
        return value if isinstance(value, Mapping | Ttl) else dict.fromkeys(cls.__struct_fields__, value)

    def for_metric(self, metric: str) -> float | None:
        """The age for `loss`, `delay` or `throughput`."""
        return {"loss": self.loss, "delay": self.delay, "throughput": self.throughput}[metric]


class ScorePolicy(msgspec.Struct, frozen=True, cache_hash=True):
    """The pair score: 20:40:40 points for packet loss, delay and bandwidth (PAPERS N2)."""

    fixed: ClassVar = frozenset(
        {"reference_bps", "unknown_penalty_ratio", "soft_ttl_s", "hard_ttl_s", "bad_pairs_first"}
    )

    ratios: Ratios = Ratios()  # Points for loss : delay : bandwidth, such as 20:40:40; any sum is scaled to 100.
    loss_weight: NotNegative = 10.0  # Points lost per percent of packet loss.
    delay_weight: NotNegative = 1.0  # Points lost per millisecond of one-way delay.
    bandwidth_weight: NotNegative = 1.0  # Factor on the bandwidth term.
    reference_bps: float | None = None
    """Rate that earns the full bandwidth term; `None`: the best measured rate of the zone."""
    unknown_penalty_ratio: float = 0.05  # Share of a term's points that an unknown value loses against known ones
    soft_ttl_s: Ttl = Ttl(loss=5400.0, delay=5400.0, throughput=93_600.0)
    """Age from which a measurement fades towards neutral; `None`: it never fades."""
    hard_ttl_s: Ttl = Ttl(loss=10_800.0, delay=10_800.0, throughput=172_800.0)
    """Age from which a measurement counts as unknown; `None`: never."""
    bad_pairs_first: bool = True  # Ranks count bad pairs first; not so for the published selection, `paper`


class QueuePolicy(msgspec.Struct, frozen=True):
    """The order of the queue (docs/explanation/queue.md; PAPERS K1–K3, G5; docs/safety.md S14)."""

    fixed: ClassVar = frozenset({"reserve_after_s"})

    order: Order = Order.WEIGHT  # `weight`: heavier gangs first; `fifo`: older ones first. Both within one priority.
    weight_namespaces: frozenset[Namespace] = frozenset()
    """Namespaces whose pods may set their gang's ω′ by annotation `netgang.io/weight`; `*`: all."""
    starve_limit_s: Positive = 600.0
    """How long a gang that could start waits before it is STARVING, and goes first within its priority."""
    reserve_after_s: float = 604_800.0  # How long a STARVING gang has waited before room is reserved for it
    backfill: bool = True
    """Promise the first gang that cannot start its start, where jobs declare how long they run, so that no other gang
    delays it (docs/explanation/queue.md#back-fill-by-end-times)."""


class ServicePolicy(msgspec.Struct, frozen=True):
    """Levels of attained service (`scoring.queue.weights`)."""

    thresholds_h: tuple[float, ...] = (1 / 16, 1.0)  # Cluster-hours of a gang's dominant share: one level up each
    wide_share: float = 0.25
    """Share of the cluster above which a gang is wide: no room by its level until it was STARVING for `long_s`."""
    long_s: float = 86_400.0
    """A suspendable gang that was STARVING so long starts with its minimum. Why both: docs/research/simulator.md."""


class RepairPolicy(msgspec.Struct, frozen=True):
    """Gangs that lost members after they had started (docs/explanation/repair.md)."""

    fixed: ClassVar = frozenset({"settle_s", "most_per_hour", "backoff_s"})

    policy: Repair = Repair.REPLACE
    """For gangs without annotation `netgang.io/repair`. `replace`: successors go first in line, beside those that are
    left; `restart`: the whole gang is started again through its owner's suspend and resume; `none`: successors wait
    their turn."""
    settle_s: float = 10.0  # How long it must have been broken before a restart; a node may come back meanwhile
    most_per_hour: int = 3
    backoff_s: float = 60.0  # Least time between the first and the second; it doubles with each further one of the hour


class Policy(msgspec.Struct, frozen=True):
    """All choices that decide, in one value: the settings of these names (`fixed`: what is none)."""

    fixed: ClassVar = frozenset({"exact_zone_size", "spares", "partial_timeout_s", "exclusion_ttl_s", "service"})

    score: ScorePolicy = ScorePolicy()  # How a measured link becomes points.
    selection: Selection = Selection.SUBSET
    """How nodes are chosen inside a zone: the best subset, the published greedy walk, or the fewest nodes."""
    zone_policy: ZonePolicy = ZonePolicy.REQUIRED
    """`required`: one zone or nothing; `preferred`: several zones after `spill_wait_s`."""
    spill_wait_s: NotNegative = 300.0  # How long a gang with zone policy `preferred` waits for a single zone.
    zone_distance_ms: Mapping[ZoneName, Mapping[ZoneName, NotNegative]] = {}
    """zone or endpoint → zone → one-way delay in ms, where none is measured; one direction stands for both."""
    exact_zone_size: int = 12  # Zones of at most this many candidate nodes are searched exactly by `subset`
    admit_to: AdmitTo = AdmitTo.NODES
    """What a pod's required node affinity names once its gate `netgang.io/gang` is removed: the planned `nodes` and
    spares (kube-scheduler then looks at those alone), or only the `zone`."""
    spares: int = 4  # `nodes`: further nodes of the zone that are named, so that a dead node is harmless
    zone_label: LabelKey = "topology.kubernetes.io/zone"  # Node label that names the node's zone.
    hold_limit_s: Positive = 25.0
    """How long a bind is held until min-available members are there. Members of a gang arrive tens of milliseconds
    apart; the room of held members is idle, so seconds suffice."""
    partial_timeout_s: float = 120.0
    """How long a gang that never started may stay partly bound before its bound pods are evicted."""
    exclusion_ttl_s: float = 300.0  # How long a refusal learned from NodeNames is believed
    queue: QueuePolicy = QueuePolicy()  # The order of the queue, and how much a namespace may have.
    repair: RepairPolicy = RepairPolicy()  # Gangs that lost members after they had started.
    preemption: Preempting = Preempting.LEVELS
    """`levels`: gangs that may be suspended leave for one of higher priority, or that has had less of the cluster;
    `gangs`: besides, any gang for one of higher priority; `off`: none (docs/how-to/preemption-and-suspension.md)."""
    min_run_s: NotNegative = 1800.0
    """How long a gang has run at least before it leaves by its level; longer than between two checkpoints."""
    service: ServicePolicy = ServicePolicy()

    def __post_init__(self) -> None:
        for zone, row in self.zone_distance_ms.items():
            if zone in row:
                problem = f"names the distance from {zone!r} to itself, which is always 0: leave it out"
                raise ValueError(f"zone_distance_ms: {problem}")


class GangOptions(msgspec.Struct, frozen=True):
    """What a gang's owner asked for, merged with the defaults of the policy."""

    zones: tuple[ZoneName, ...] | None = None  # Allowed zones in order of preference; `None`: all
    near: EndpointId | ZoneName | None = None  # Zone or measurement endpoint the job's users are at
    zone_policy: ZonePolicy = ZonePolicy.REQUIRED
    selection: Selection = Selection.SUBSET
    ratios: Ratios | None = None
    weight: Fraction | None = None  # ω′ as the operator wants it; `None`: it is computed
    repair: Repair = Repair.REPLACE
    preemptible: bool = True  # Whether it may be made to leave for another gang, by priority or by service level
    suspendable: bool = False
    bad_links: BadLinks = BadLinks.AVOID
    problems: tuple[str, ...] = ()  # One sentence per annotation that was not understood; the default was used for it


OPTION_CHARS: Final = 253  # Longest value of an annotation: what names a zone, a node or an endpoint is no longer
LIST_CHARS: Final = 4096
LIST_ENTRIES: Final = 64  # Longest list of zones, and most entries in it
_RATIO_STEP: Final = 5.0  # Percent. Each set of ratios costs a scoring of every link, so there are only so many
_SHOWN_CHARS: Final = 60

KNOWN_OPTIONS = frozenset(
    {
        *("zones", "near", "zone-policy", "ratios", "selection", "min-workers", "max-workers", "scaling", "weight"),
        *("admitted", "preempts", "preemptible", "suspendable", "repair", "expected-duration", "bad-links"),
    }
)
"""Annotations `netgang.io/<name>` that exist; another name is reported as a probable typing mistake."""


def gang_options(annotations: Mapping[str, str], policy: Policy, *, namespace: str | None = None) -> GangOptions:
    """Read the `netgang.io/…` annotations (keys without the prefix); what is not understood becomes a problem.

    `weight` is obeyed in the policy's namespaces only; without a `namespace` it is not looked at.
    """
    options = GangOptions(zone_policy=policy.zone_policy, selection=policy.selection, repair=policy.repair.policy)
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
        case "zone-policy" | "selection" | "repair" | "bad-links":
            field = name.replace("-", "_")
            default: StrEnum = policy.repair.policy if field == "repair" else getattr(policy, field, BadLinks.AVOID)
            if value not in list(type(default)):
                raise ValueError(f"{_shown(value)} is not one of {', '.join(type(default))}; {default} is used")
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
                message = f"{_shown(value)} is not three numbers such as 20:40:40; the default is used"
                raise ValueError(message) from None
        case "weight" if namespace is not None:
            if policy.queue.weight_namespaces.isdisjoint({namespace, "*"}):
                raise ValueError(f"namespace {namespace} may not set weights; the computed one is used")
            try:
                if len(value) > 40 or not set(value) <= set("0123456789./"):
                    raise ValueError
                return {"weight": Fraction(value)}
            except (ValueError, ZeroDivisionError):
                example = "a number of at least 0 such as 2.5 or 5/2"
                raise ValueError(f"{_shown(value)} is not {example}; the computed one is used") from None
        case _ if name not in KNOWN_OPTIONS:
            meant = nearest(name, (*KNOWN_OPTIONS, "role", "index"))  # right values of these two were read before
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
    steps = [max(round(part / sum(parts) * 100.0 / _RATIO_STEP), 1 if part else 0) for part in parts]
    return Ratios(*(_RATIO_STEP * step for step in steps))


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]!r}…"
