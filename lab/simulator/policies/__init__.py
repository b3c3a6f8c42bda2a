"""The policies that can be compared, by name.

- `default`: tf-operator on the default scheduler, pods one by one; jobs may be half started.
- `coscheduling`: gangs, first come, first served, spread.
- `tiresias`: two levels of attained service; whole jobs are suspended.
- `srpt`: the shortest remaining time, as if lengths were known; whole jobs are suspended.
- `paper-n`: gangs in one zone, nodes by the greedy method of PAPERS N3 on the published score.
- `kod2-literal`: KOD2's Algorithms 1 to 3 as published. What the paper gives no number for may be said after it:
  `kod2-literal STARVELIMIT=600`, `kod2-literal l=1` (l_dw and l_iw; 0: no limit).
- `netgang`: netgang's planner, queue and scaling, every setting as installed. With settings after it, such as
  `netgang queue.order=fifo`, it differs in these (`SETTINGS`).
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from lab.simulator.actions import Deciding
from lab.simulator.policies.default import Default
from lab.simulator.policies.kod2 import LIMIT_S, MOST, Kod2
from lab.simulator.policies.planned import PaperN, Planned
from lab.simulator.policies.preemptive import Preemptive, by_level, by_remaining
from lab.simulator.policies.spread import Coscheduling
from scoring.model.policy import Order, Policy, Preempting
from scoring.scaling.job import ElasticCondition, Options

NETGANG, KOD2 = "netgang", "kod2-literal"
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "queue.order": (Order.WEIGHT, Order.FIFO),
    "preemption": (Preempting.LEVELS, Preempting.OFF),
    "elastic.enabled": ("true", "false"),
    "elastic.condition": (ElasticCondition.LEVELS, ElasticCondition.LIGHTER),
}
"""setting of netgang that may be varied → its values"""


POLICIES: Mapping[str, Callable[[int], Deciding]] = {
    # name → makes a fresh one with a seed
    "default": Default,
    "coscheduling": lambda _: Coscheduling(),
    "tiresias": lambda _: Preemptive("tiresias", by_level, levels=True),
    "srpt": lambda _: Preemptive("srpt", by_remaining),
    "paper-n": lambda _: PaperN(),
    KOD2: lambda _: Kod2(KOD2),
    NETGANG: lambda _: Planned(NETGANG, Policy(), Options()),
}


def made(text: str, seed: int = 0) -> Deciding:
    """A fresh policy of this name, perhaps with settings. ValueError says what is known.

    >>> made("netgang preemption=off").name
    'netgang preemption=off'
    >>> made("netgang preemption=gangs")
    Traceback (most recent call last):
    ...
    ValueError: preemption is one of levels, off, not 'gangs'
    """
    name, *changes = text.split()
    if name not in POLICIES:
        raise ValueError(f"policy {name!r} is not one of {', '.join(POLICIES)}")
    if not changes:
        return POLICIES[name](seed)
    values = dict(change.partition("=")[::2] for change in changes)
    if name == KOD2 and values.keys() <= {"STARVELIMIT", "l"}:
        return Kod2(text, limit_s=float(values.get("STARVELIMIT", LIMIT_S)), most=int(values.get("l", MOST)) or None)
    if name != NETGANG:
        raise ValueError(f"{', '.join(values)}: no settings of {name}")
    for setting, value in values.items():
        if setting not in SETTINGS:
            raise ValueError(f"setting {setting!r} is not one of {', '.join(SETTINGS)}")
        if value not in SETTINGS[setting]:
            raise ValueError(f"{setting} is one of {', '.join(SETTINGS[setting])}, not {value!r}")
    policy = Policy()
    queue = replace(policy.queue, order=Order(values.get("queue.order", policy.queue.order)))
    preemption = Preempting(values.get("preemption", policy.preemption))
    scaling = Options(condition=ElasticCondition(values.get("elastic.condition", ElasticCondition.LEVELS)))
    scaled = values.get("elastic.enabled") != "false"
    return Planned(text, replace(policy, queue=queue, preemption=preemption), scaling if scaled else None)


__all__ = ["NETGANG", "POLICIES", "SETTINGS", "Deciding", "made"]
