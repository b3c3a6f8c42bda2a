"""Observe how long gangs run: from the moment that the minimum of each ran until its workers had all succeeded.

Both are times of this very run: the begin is that of API objects (`scoring.queue.states.running_since_s`), so a run
that lasted over a change of leader is measured whole; the end is when this process sees it, to the second. Rules: only
by the leader, and only of runs that it has seen before their end, so none is counted twice; not of runs that failed or
were deleted, and not of a part of a run, after a suspension. Bounded by the gangs that exist.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.lengths.keeper import FormerRunsKeeper
from extender.runtime.length_metrics import LengthMetrics
from scoring.ids import GangKey, PodUid
from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.former_runs import Run
from scoring.model import Gang, GangSource
from scoring.queue.gang_length import fingerprint_of, has_ended_well
from scoring.queue.states import running_since_s

_GANGS_A_STEP: Final = 64


@dataclass(slots=True)
class _Seen:
    gang: Gang
    job: Fingerprint
    members: frozenset[PodUid]
    began_s: float | None  # Unix seconds; `None`: it has not started
    ended: bool


@dataclass(eq=False, repr=False)
class FinishedGangs:
    """What was seen of each gang's run."""

    context: ControllerContext
    keeper: FormerRunsKeeper
    metrics: LengthMetrics
    _: KW_ONLY
    _runs: dict[GangKey, _Seen] = field(default_factory=dict, init=False)

    def look(self) -> Iterator[None]:
        """Once a second, in steps. Cost: O(gangs), and O(members log members) for those that changed."""
        snapshot = self.context.cache.snapshot()
        before, now = self._runs, {}  # type: dict[GangKey, _Seen], dict[GangKey, _Seen]
        sources: Counter[str] = Counter()
        learned: list[Fingerprint] = []
        for number, (key, gang) in enumerate(snapshot.gangs.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            if not gang.own or gang.source is GangSource.NATIVE:
                continue
            sources[gang.length.source.value if gang.length is not None else "unknown"] += 1
            known = before.get(key)
            if known is not None and known.gang is gang:
                now[key] = known
                continue
            now[key] = seen = _seen(gang, known)
            if known is None or known.ended or not seen.ended or seen.began_s is None:
                continue
            if key not in snapshot.attained_h and known.members & seen.members:
                length_s = self.context.clock.now_s() - seen.began_s
                self.keeper.record(known.job, Run(round(length_s), round(self.context.clock.now_s())))
                learned.append(known.job)
        self._runs = now
        self.metrics.gangs(sources)
        yield from self._measure(learned)

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._runs.clear()

    def _measure(self, learned: list[Fingerprint]) -> Iterator[None]:
        """Give gangs of the jobs from which something was learned their new lengths."""
        named = {(job.namespace, job.name) for job in learned}
        made_from = {(job.namespace, job.template) for job in learned}
        keys = [
            key
            for key, seen in (self._runs.items() if learned else ())
            if (seen.job.namespace, seen.job.name) in named or (seen.job.namespace, seen.job.template) in made_from
        ]
        for begin in range(0, len(keys), _GANGS_A_STEP):
            yield
            self.context.cache.measure_gangs(keys[begin : begin + _GANGS_A_STEP])


def _seen(gang: Gang, known: _Seen | None) -> _Seen:
    """The gang as it is now, with the begin of its run if it is the one that was known."""
    members = frozenset(pod.uid for pod in gang.members)
    same = known is not None and not known.members.isdisjoint(members)
    began_s = running_since_s(gang) if gang.started else None
    if known is not None and same and known.began_s is not None:
        began_s = known.began_s if began_s is None else min(began_s, known.began_s)
    return _Seen(gang, fingerprint_of(gang), members, began_s, has_ended_well(gang))
