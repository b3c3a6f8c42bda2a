"""Keep former runs, and what intervals were worth, in step with netgang's ConfigMap, so that a restart forgets none.

The ConfigMap is in the manifests, empty: a right to create them cannot be limited to a name. Rules: what is in it
counts, if it is signed (`document`); every replica reads it once a minute, and only the one that acts writes, at most
once a minute, what it has seen since. A replica that already knows runs puts them back when the ConfigMap was emptied,
damaged, or written by another client; of two calibrations that of more intervals counts. What cannot be read or written
is said (log, metric, `/readyz`) and tried again, less and less often; then lengths are learned from what this process
sees, and nothing else stops.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from extender.cache import ClusterCache
from extender.controllers.lengths.document import Jobs, Kept, kept_in, written
from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.notes import NoteKind, Notes
from extender.notes.signed_text import signed
from extender.ports import StoredText, TextStore
from extender.runtime.length_metrics import LengthMetrics
from extender.runtime.slices import in_slices
from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.former_runs import FormerRuns, Run
from scoring.plan.expected import Calibration, FirstIntervals
from scoring.plan.steps import Steps

EACH_S: Final = 60.0
AGAIN_S: Final = 5.0
MOST_AGAIN_S: Final = 300.0
_CONFLICT_S: Final = 1.0
_MOST_UNWRITTEN: Final = 4096  # Runs that are put on top of what is read; older ones are in the table alone
_GANGS_A_STEP: Final = 64

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class FormerRunsKeeper:
    """One process's view of the ConfigMap; `run` it."""

    store: TextStore
    cache: ClusterCache
    notes: Notes
    metrics: LengthMetrics
    _: KW_ONLY
    intervals: FirstIntervals = field(default_factory=FirstIntervals)  # Their calibration is kept
    acting: Callable[[], bool] = lambda: True
    problem: str = "they have not been read yet"  # Why former runs do not outlive this process; empty: they do
    _version: str = field(default="", init=False)  # Of the ConfigMap that was looked at last
    _spoilt: bool = field(default=False, init=False)  # It lacks what this process knows
    _unwritten: list[tuple[Fingerprint, Run]] = field(default_factory=list, init=False)
    _calibration: Calibration = field(default_factory=Calibration, init=False)  # What is in it
    _again_s: float = field(default=AGAIN_S, init=False)
    _complaint: str = field(default="", init=False)

    def record(self, job: Fingerprint, run: Run) -> None:
        """A run has ended well: it counts at once, and is written with the next look."""
        self.cache.lengths.former.record(job, run)
        self._unwritten.append((job, run))
        del self._unwritten[:-_MOST_UNWRITTEN]
        self.metrics.learned()

    async def run(self) -> None:
        """Look at the ConfigMap until cancelled."""
        while True:
            pause_s = await self.look()
            await asyncio.sleep(pause_s)

    async def look(self) -> float:
        """Read the ConfigMap once, and write what is due; seconds until the next look."""
        if self.notes.problem:
            return self._failed(self.notes.problem)
        try:
            stored = await self.store.read()
            if stored is None:
                return self._failed(f"there is no ConfigMap {self.store.place}: apply manifests/components/lengths")
            if stored.resource_version != self._version:
                await self._adopt(stored)
            if self.acting() and (self._unwritten or self._spoilt or self._calibration != self.intervals.calibration):
                await self._write(stored)
        except ConflictError:
            return _CONFLICT_S
        except (ApiError, ApiUnavailableError) as error:
            return self._failed(f"ConfigMap {self.store.place}: {error}")
        self._again_s = AGAIN_S
        self._said()
        return EACH_S

    async def _adopt(self, stored: StoredText) -> None:
        """Take over what is in it; what this process knows stays if nothing is, or if it cannot be used."""
        self._version = stored.resource_version
        try:
            kept = kept_in(stored, self.notes)
            self.problem = ""
        except ValueError as error:
            kept = Kept()
            self.problem = f"ConfigMap {self.store.place} is not used: {error}"
        self._spoilt = not kept.jobs and len(self.cache.lengths.former) > 0
        self._calibration = kept.calibration
        if kept.calibration.known > self.intervals.calibration.known:
            self.intervals.calibration = kept.calibration
        if kept.jobs:
            await in_slices(self._use(kept.jobs))

    def _use(self, jobs: Jobs) -> Steps[None]:
        former = FormerRuns()
        for number, (job, runs) in enumerate(jobs, start=1):
            former.put(job, runs)
            if number % _GANGS_A_STEP == 0:
                yield
        for job, run in self._unwritten:
            former.record(job, run)
        self.cache.lengths.former = former
        keys = self.cache.built_gangs
        for begin in range(0, len(keys), _GANGS_A_STEP):
            yield
            self.cache.measure_gangs(keys[begin : begin + _GANGS_A_STEP])

    async def _write(self, over: StoredText) -> None:
        count, calibration = len(self._unwritten), self.intervals.calibration
        text = written(self.cache.lengths.former, calibration)
        stored = await self.store.write(text, signed(NoteKind.FORMER_RUNS, text, over, self.notes), over)
        self._version = stored.resource_version
        del self._unwritten[:count]
        self.problem, self._spoilt, self._calibration = "", False, calibration

    def _failed(self, why: str) -> float:
        self.problem = why
        self._said()
        pause_s, self._again_s = self._again_s, min(2.0 * self._again_s, MOST_AGAIN_S)
        return pause_s

    def _said(self) -> None:
        self.metrics.kept(not self.problem, len(self.cache.lengths.former))
        if self.problem and self.problem != self._complaint:
            _log.warning("former runs of jobs are not kept, so their lengths may be unknown: %s", self.problem)
        elif self._complaint and not self.problem:
            _log.info("former runs of jobs are kept in ConfigMap %s", self.store.place)
        self._complaint = self.problem
