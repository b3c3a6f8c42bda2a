"""Turn what running jobs report into lengths: one look at all of them now and then.

Why not with each report: a job may report each second, and another length is another version of the cluster, from which
the planner must plan again. Rules: only of gangs that run, and in the namespaces of `queue.report_namespaces`
(`extender.controllers.elastic.reports.ends`); a length that is off by less than a tenth of what is left stays as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.elastic.records import JobView
from extender.controllers.elastic.reports.ends import ReportedEnds
from scoring.ids import GangKey
from scoring.lengths.length import Length, remaining_s
from scoring.lengths.reported import reported_length
from scoring.model import Gang
from scoring.queue.states import running_since_s
from scoring.queue.wait_outcomes import is_running

EACH_S: Final = 30.0
_NEWS_RATIO: Final = 0.1  # Of what is left: a smaller change is none
_GANGS_A_STEP: Final = 64


@dataclass(eq=False, repr=False)
class ReportedLengths:
    """Due once a second; most looks do nothing."""

    context: ControllerContext
    ends: ReportedEnds
    _next_s: float = field(default=0.0, init=False)

    def look(self) -> Iterator[None]:
        """Look at all gangs that run, in steps. Cost: O(gangs), and O(points) for each job that reports."""
        clock, cache = self.context.clock, self.context.cache
        if clock.monotonic_s() < self._next_s:
            return
        self._next_s = clock.monotonic_s() + EACH_S
        found: dict[GangKey, Length] = {}
        views = self.ends.by_gang()
        for number, (key, jobs) in enumerate(views.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            gang = cache.gang(key)
            known = cache.lengths.reported.get(key)
            if gang is not None and (length := self._length(gang, jobs, known)) is not None:
                found[key] = length
        before, cache.lengths.reported = cache.lengths.reported, found
        changed = [key for key in before.keys() | found.keys() if before.get(key) != found.get(key)]
        for begin in range(0, len(changed), _GANGS_A_STEP):
            yield
            cache.measure_gangs(changed[begin : begin + _GANGS_A_STEP])

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._next_s = 0.0
        self.context.cache.lengths.reported = {}

    def _length(self, gang: Gang, jobs: Sequence[JobView], known: Length | None) -> Length | None:
        now_s, since_s = self.context.clock.now_s(), running_since_s(gang)
        if since_s is None or not is_running(gang):
            return None
        left = self.ends.left(gang, jobs, now_s=now_s)
        if left is None or left.seconds is None:
            return None
        ran_s = max(now_s - since_s, 0.0)
        if known is not None and abs(remaining_s(known, ran_s, 0.5) - left.seconds) <= _NEWS_RATIO * left.seconds:
            return known
        return reported_length(ran_s, left.seconds)
