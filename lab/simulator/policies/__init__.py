"""The policies that can be compared, by name.

- `default`: tf-operator on the default scheduler, pods one by one; jobs may be half started.
- `coscheduling`: gangs, first come, first served, spread.
- `shortest-first`: gangs, the shortest first, as if lengths were known.
- `tiresias`: two levels of attained service; whole jobs are suspended.
- `srpt`: the shortest remaining time, as if lengths were known; whole jobs are suspended.
- `srpt-suspendable`: the same, but only jobs that may be suspended are.
- `service-levels`: those that have had much shrink, or are suspended, for those that have had little.
- `paper-n`: gangs in one zone, nodes by the greedy method of PAPERS N3 on the published score.
- `kod2-literal`: KOD2's Algorithms 1 to 3 as published.
- `netgang`: netgang's planner and queue, every setting as installed: no elastic jobs, reservations after a
  week, GPUs in the weight.
- `netgang-fifo`: the same with `queue.order: fifo`.
- `netgang-reserving`: as installed, with reservations as soon as a gang is STARVING (`queue.reserve_after_s: 0`).
- `netgang-elastic`: elastic jobs (`elastic.enabled`), the weight as published, of CPU and memory alone
  (`queue.extended: []`), a STARVELIMIT of half an hour, and reservations as soon as a gang is STARVING.
- `netgang-elastic-fifo`: the same with `order: fifo`.
- `netgang-elastic-gpus`: the same with GPUs in the weight, as the service has it by default (`queue.extended`).
- `netgang-elastic-unreserved`: the same without room that is reserved for STARVING gangs (`queue.starving_share: 0`).
- `netgang-elastic-ungrown`: besides, without growth beyond the workers that a job asked for.
- `netgang-elastic-unchanged`: besides, without giving up workers.
- `netgang-elastic-any`: `netgang-elastic-unreserved` with workers for every gang that waits (`elastic.condition: any`).
- `netgang-rigid`: `netgang-elastic-unreserved` without elastic jobs (`elastic.enabled: false`).
- `netgang-easy`: as installed with `queue.backfill.mode: easy`; users declare the true lengths.
- `netgang-easy-declared`: the same, with lengths two to five times too long.
- `netgang-easy-half`: the same, with the true lengths of every other job.
- `netgang-conservative`: `netgang-easy` with `queue.backfill.mode: conservative`.
- `netgang-levels`: as installed with `preemption: levels`.
- `netgang-elastic-levels`: besides, elastic jobs shrink by service level, and grow back (`elastic: {enabled: true,
  condition: levels, decrement: null, increment: 0}`), members beyond a minimum come last (`queue.surplus: last`), and a
  gang is STARVING after a day (`queue.starve_limit_s: 86400`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.simulator.actions import Deciding
from lab.simulator.lengths import Learned, Lengths, of_half, too_long, true_length
from lab.simulator.policies.default import DEADLOCK_S, Default
from lab.simulator.policies.kod2 import Kod2
from lab.simulator.policies.levels import Levels
from lab.simulator.policies.planned import PAPER_N, Planned
from lab.simulator.policies.preemptive import Preemptive, by_level, by_remaining
from lab.simulator.policies.whole import Whole, by_arrival, by_length
from lab.simulator.speed.rate import GPU
from scoring.ids import ResourceName
from scoring.model.policy import Backfill, Order, Policy, Preempting, QueuePolicy, Surplus
from scoring.scaling.options import Condition, Options

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Choices:
    """What may be chosen about policies; the defaults are netgang's, but for STARVELIMIT."""

    seed: int = 0
    deadlock_s: float = DEADLOCK_S
    resubmit: bool = True
    starve_limit_s: float = 1800.0
    """Of netgang; that of `kod2-literal` is the next one."""
    kod2_starve_limit_s: float = 1800.0
    most_at_once: int | None = 2
    """l_dw and l_iw; `None`: no limit."""
    cool_down_s: float = 60.0
    surplus: Surplus = QueuePolicy().surplus
    condition: Condition = Options().condition


def elastic_jobs(
    choices: Choices,
    *,
    name: str = "netgang-elastic",
    elastic: bool = True,
    order: Order = Order.WEIGHT,
    extended: tuple[ResourceName, ...] = (),
    starving_share: float = QueuePolicy().starving_share,
    condition: Condition | None = None,
    gives: bool = True,
    grows: bool = True,
) -> Planned:
    """The service's planner, queue and scaling code; what is not chosen is as by default.

    `extended`: resources in the weight besides CPU and memory; `condition`: `None`: as chosen; `gives`: running jobs
    give up workers for others; `grows`: they get more than they asked for.
    """
    queue = QueuePolicy(
        order=order,
        starve_limit_s=choices.starve_limit_s,
        surplus=choices.surplus,
        extended=extended,
        starving_share=starving_share,
        reserve_after_s=0.0,
    )
    policy = Policy(queue=queue)
    most = choices.most_at_once
    scaling = Options(
        cool_down_s=choices.cool_down_s,
        decrement=most if gives else 0,
        increment=most if grows else 0,
        condition=condition or choices.condition,
    )
    return Planned(name, policy, scaling if elastic else None)


def by_levels(_: Choices) -> Planned:
    """Jobs shrink, and are suspended, by what they have had; they grow back, and no further."""
    scaling = Options(condition=Condition.LEVELS, decrement=None, increment=0)
    queue = QueuePolicy(surplus=Surplus.LAST, starve_limit_s=_DAY_S)
    return Planned("netgang-elastic-levels", Policy(queue=queue, preemption=Preempting.LEVELS), scaling)


def by_end_times(
    name: str,
    lengths: Lengths,
    mode: Backfill = Backfill.EASY,
    *,
    wait_ratio: float = 0.0,
    preemption: Preempting = Preempting.OFF,
) -> Planned:
    """As installed, with back-fill by end times, and perhaps with suspensions by service level."""
    queue = QueuePolicy(backfill=mode, backfill_wait_ratio=wait_ratio)
    return Planned(name, Policy(queue=queue, preemption=preemption), lengths=lengths)


def by_learned_lengths(name: str) -> Planned:
    """The same with lengths that are learned from the jobs that have ended."""
    learned = Learned()
    policy = Policy(queue=QueuePolicy(backfill=Backfill.EASY))
    return Planned(name, policy, lengths=learned.length, looks=learned.look)


POLICIES: Mapping[str, Callable[[Choices], Deciding]] = {
    # name → makes a fresh one
    "default": lambda choices: Default(seed=choices.seed, deadlock_s=choices.deadlock_s, resubmit=choices.resubmit),
    "coscheduling": lambda _: Whole("coscheduling", by_arrival),
    "shortest-first": lambda _: Whole("shortest-first", by_length),
    "tiresias": lambda _: Preemptive("tiresias", by_level, levels=True),
    "srpt": lambda _: Preemptive("srpt", by_remaining),
    "srpt-suspendable": lambda _: Preemptive("srpt-suspendable", by_remaining, any_job=False),
    "service-levels": lambda _: Levels(),
    "paper-n": lambda _: Planned("paper-n", PAPER_N),
    "kod2-literal": lambda choices: Kod2(most_at_once=choices.most_at_once, starve_limit_s=choices.kod2_starve_limit_s),
    "netgang-elastic": elastic_jobs,
    "netgang-elastic-fifo": lambda choices: elastic_jobs(choices, name="netgang-elastic-fifo", order=Order.FIFO),
    "netgang-elastic-gpus": lambda choices: elastic_jobs(choices, name="netgang-elastic-gpus", extended=(GPU,)),
    "netgang-elastic-unreserved": lambda choices: elastic_jobs(
        choices, name="netgang-elastic-unreserved", starving_share=0.0
    ),
    "netgang-elastic-ungrown": lambda choices: elastic_jobs(
        choices, name="netgang-elastic-ungrown", starving_share=0.0, grows=False
    ),
    "netgang-elastic-unchanged": lambda choices: elastic_jobs(
        choices, name="netgang-elastic-unchanged", starving_share=0.0, gives=False, grows=False
    ),
    "netgang-elastic-any": lambda choices: elastic_jobs(
        choices, name="netgang-elastic-any", starving_share=0.0, condition=Condition.ANY
    ),
    "netgang": lambda _: Planned("netgang", Policy()),
    "netgang-fifo": lambda _: Planned("netgang-fifo", Policy(queue=QueuePolicy(order=Order.FIFO))),
    "netgang-reserving": lambda _: Planned("netgang-reserving", Policy(queue=QueuePolicy(reserve_after_s=0.0))),
    "netgang-easy": lambda _: by_end_times("netgang-easy", true_length),
    "netgang-easy-declared": lambda choices: by_end_times("netgang-easy-declared", too_long(choices.seed)),
    "netgang-easy-half": lambda choices: by_end_times("netgang-easy-half", of_half(choices.seed)),
    "netgang-easy-learned": lambda _: by_learned_lengths("netgang-easy-learned"),
    "netgang-easy-late": lambda _: by_end_times("netgang-easy-late", true_length, wait_ratio=1.0),
    "netgang-levels-easy": lambda _: by_end_times("netgang-levels-easy", true_length, preemption=Preempting.LEVELS),
    "netgang-levels-easy-late": lambda _: by_end_times(
        "netgang-levels-easy-late", true_length, wait_ratio=1.0, preemption=Preempting.LEVELS
    ),
    "netgang-conservative": lambda _: by_end_times("netgang-conservative", true_length, Backfill.CONSERVATIVE),
    "netgang-levels": lambda _: Planned("netgang-levels", Policy(preemption=Preempting.LEVELS)),
    "netgang-elastic-levels": by_levels,
    "netgang-rigid": lambda choices: elastic_jobs(choices, name="netgang-rigid", starving_share=0.0, elastic=False),
}

__all__ = ["POLICIES", "Choices", "Deciding"]
