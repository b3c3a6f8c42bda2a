"""How urgent a gang is: the KOD2 weight (PAPERS K1).

    ω′ = w_min / (cpu + mem)        ω = 1 / (1 + e^(−ω′))

`w_min` is the minimum number of workers; `cpu` and `mem` are what is requested, each divided by the cluster's total of
it, so that both are shares and may be added. A small job with many workers is expected to end soon and keeps little
from others: it goes first. Two readings, because the paper does not say whose requests are summed:

- `per_worker` (default): those of one worker (the mean, where workers differ).
- `whole_job`: those of the whole minimum set, ps and chiefs included; the number of workers then nearly cancels.

`extended` resources (GPUs) join the sum as further shares; the published weight has none.

Rule: ω′ is an exact fraction, so that equal jobs tie exactly on every machine and the order of two jobs depends on
nothing but their requests. ω is for people: above ω′ = 37 it is 1.0 in floating point, where all jobs would be equal.
`weight: literal` compares it all the same, as published.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, prod

from scoring.ids import ResourceName
from scoring.model import Gang, Phase, Pod, Role
from scoring.policy import QueuePolicy, Reading, WeightForm
from scoring.quorum import minimum_members
from scoring.resources import CPU, MEMORY
from scoring.snapshot import NodeTable

Totals = tuple[tuple[ResourceName, int], ...]
"""resource of the formula → how much of it all nodes have together, each in its own unit"""

_NEVER_LIGHTER = float("inf")
_LEADERS = (Role.PS, Role.CHIEF)


@dataclass(frozen=True, slots=True)
class Weight:
    """A gang's weight. `prime` is exact; `None`: the job asks for nothing, and outweighs all that ask for something."""

    prime: Fraction | None
    given: bool = False
    """Set by the operator (annotation `netgang.io/weight`), not computed."""

    @property
    def omega_prime(self) -> float:
        """ω′ as the nearest float; infinite where nothing is asked for."""
        return _NEVER_LIGHTER if self.prime is None else float(self.prime)

    @property
    def omega(self) -> float:
        """ω, from 0.5 to 1: for people only.

        >>> Weight(Fraction(0)).omega, round(Weight(Fraction(1)).omega, 6), Weight(Fraction(50)).omega
        (0.5, 0.731059, 1.0)
        """
        return 1.0 if self.prime is None else sigmoid(self.omega_prime)

    def key(self, form: WeightForm) -> tuple[float, Fraction]:
        """Sort key, heaviest first. Exact: the float decides where it can, which is fast, the fraction where it ties.

        >>> light, heavy = Weight(Fraction(40)), Weight(Fraction(41))
        >>> heavy.key(WeightForm.EXACT) < light.key(WeightForm.EXACT)
        True
        >>> heavy.key(WeightForm.LITERAL) == light.key(WeightForm.LITERAL)
        True
        """
        match form:
            case WeightForm.EXACT:
                return -self.omega_prime, _ZERO if self.prime is None else -self.prime
            case WeightForm.LITERAL:
                return -self.omega, _ZERO


_ZERO = Fraction(0)


def sigmoid(x: float) -> float:
    """1 / (1 + e^(−x)) for x ≥ 0.

    >>> sigmoid(0.0), round(sigmoid(2.0), 4)
    (0.5, 0.8808)
    """
    return 1.0 / (1.0 + exp(-x))


@dataclass(frozen=True, slots=True)
class Load:
    """What a gang's weight follows from, apart from the cluster's totals: these change with every node that comes."""

    workers: int
    """w_min"""
    asked: tuple[int, ...]
    """Of each resource of the formula, all counted members together"""
    counted: int
    """Through how many `asked` is divided"""

    def weight(self, totals: Totals) -> Weight:
        """The weight in a cluster of `totals`, which are of the same resources."""
        share = _ZERO
        for asked, (_, total) in zip(self.asked, totals, strict=True):
            if not asked:
                continue
            if not total:
                return Weight(_ZERO)
            share += Fraction(asked, total)
        return Weight(Fraction(self.workers) / (share / self.counted) if share else None)


@dataclass(frozen=True, slots=True)
class Scale:
    """Totals, ready to sort a long queue by: no fraction need be reduced for a sort key."""

    whole: int
    """Product of all totals that are not 0"""
    parts: tuple[int, ...]
    """Per resource: `whole` by its total; 0 where there is nothing of it"""

    @classmethod
    def of(cls, totals: Totals) -> "Scale":
        """Of the cluster's totals."""
        whole = prod([total for _, total in totals if total])
        return cls(whole, tuple([whole // total if total else 0 for _, total in totals]))

    def key(self, load: Load, form: WeightForm) -> tuple[float, "Exact"]:
        """Sort key, heaviest first; it orders, and ties, as `Weight.key` does.

        >>> totals = ((CPU, 100), (MEMORY, 50))
        >>> light, heavy = Load(4, (2, 3), 1), Load(4, (2, 2), 1)
        >>> Scale.of(totals).key(heavy, WeightForm.EXACT) < Scale.of(totals).key(light, WeightForm.EXACT)
        True
        >>> Scale.of(totals).key(heavy, WeightForm.EXACT)[0] == -heavy.weight(totals).omega_prime
        True
        """
        share = 0
        for asked, part in zip(load.asked, self.parts, strict=True):
            if asked and not part:
                return exact_key(Weight(_ZERO), form)
            share += asked * part
        if not share:
            return exact_key(Weight(None), form)
        over = load.workers * load.counted * self.whole
        prime = over / share  # correctly rounded, as `float` of the fraction is
        return (-prime, Exact(over, share)) if form is WeightForm.EXACT else (-sigmoid(prime), _TIED)


class Exact:
    """A fraction that is compared by multiplying, and never reduced; the greater goes first. For sort keys only."""

    __slots__ = ("_over", "_under")

    def __init__(self, over: int, under: int) -> None:
        self._over, self._under = over, under

    def __lt__(self, other: "Exact") -> bool:
        return self._over * other._under > other._over * self._under

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self._over * other._under == other._over * self._under

    __hash__ = None  # type: ignore[assignment]


_TIED = Exact(0, 1)


def exact_key(weight: Weight, form: WeightForm) -> tuple[float, Exact]:
    """`Weight.key` of a weight that no load gives, to be compared with those of a `Scale`."""
    if form is WeightForm.LITERAL:
        return -weight.omega, _TIED
    return -weight.omega_prime, _TIED if weight.prime is None else Exact(*weight.prime.as_integer_ratio())


def totals_of(table: NodeTable, policy: QueuePolicy) -> Totals:
    """What all nodes have together of the formula's resources. Cost: O(nodes)."""
    columns = {name: i for i, name in enumerate(table.axis)}
    return tuple(
        (name, int(table.allocatable[:, columns[name]].sum()) if name in columns else 0) for name in _resources(policy)
    )


def _resources(policy: QueuePolicy) -> tuple[ResourceName, ...]:
    """Those of the formula."""
    return CPU, MEMORY, *(name for name in policy.extended if name not in (CPU, MEMORY))


def weight_of(gang: Gang, totals: Totals, policy: QueuePolicy, *, given: Fraction | None = None) -> Weight:
    """Weigh `gang` against a cluster of `totals`; `given`: the operator's word. Cost: O(n log n) in members.

    A gang that asks for what no node has is the lightest there can be.

    >>> from tests.builders import gang
    >>> cluster = ((CPU, 100_000), (MEMORY, 0))
    >>> policy = QueuePolicy()
    >>> weight_of(gang("g", 4, cpu="2"), cluster, policy).prime  # 4 / (2 / 100)
    Fraction(200, 1)
    >>> weight_of(gang("g", 4, cpu="2"), cluster, QueuePolicy(reading=Reading.WHOLE_JOB)).prime  # 4 / (8 / 100)
    Fraction(50, 1)
    >>> weight_of(gang("g", 4, cpu="2"), cluster, policy, given=Fraction(7)).prime
    Fraction(7, 1)
    """
    return Weight(given, given=True) if given is not None else load_of(gang, policy).weight(totals)


def load_of(gang: Gang, policy: QueuePolicy) -> Load:
    """What the gang's weight follows from. Cost: O(n log n) in members."""
    members = _minimum(gang)
    workers = _workers(members)
    alone = policy.reading is Reading.PER_WORKER
    counted = workers if alone else members
    asked = tuple([sum([pod.requests.get(name) for pod in counted]) for name in _resources(policy)])
    return Load(least_workers(gang), asked, len(workers) if alone else 1)


def least_workers(gang: Gang) -> int:
    """`w_min`: how many workers the gang cannot do without; at least 1.

    >>> from tests.builders import gang, pod
    >>> ps, chief = pod("ps", role=Role.PS), pod("c", role=Role.CHIEF)
    >>> workers = [pod(f"w{i}", role=Role.WORKER, index=i) for i in range(5)]
    >>> least_workers(gang("g", members=[ps, chief, *workers], min_member=4)), least_workers(gang("g", 3))
    (2, 3)
    """
    others = len({(p.role, p.index, p.name if p.index is None else "") for p in gang.members if p.role in _LEADERS})
    if not any(pod.role is Role.WORKER for pod in gang.members):
        others = 0  # a gang that is all masters, or of unknown roles: everybody works
    return max(gang.min_member - others, 1)


def _minimum(gang: Gang) -> tuple[Pod, ...]:
    """The minimum set; of a gang whose last members have failed, all there were."""
    if len(gang.members) == gang.min_member and not any(p.deleting or p.phase is Phase.FAILED for p in gang.members):
        return gang.members
    return minimum_members(gang) or gang.members


def _workers(members: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """Members with role worker; without any, everybody."""
    return tuple([pod for pod in members if pod.role is Role.WORKER]) or members
