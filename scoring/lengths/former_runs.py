"""Former runs of each job, and the length that they show: what is learned.

Rules:

- Of each job the newest 20 runs are kept, and a run counts for 0.9 of the next newer one, so the seven newest have half
  of the weight: jobs change, and an old habit must not outvote a new one.
- Nothing is learned from fewer than three runs: of two, the spread is a matter of chance, and it is the spread that
  promises are made from.
- Runs are sought under name and template together, then under the template alone (the same work under another name),
  then under the name alone (a renewed image): the first that has three.
- All of it is bounded in bytes. Where there is no room, of the namespace that takes most of it the job is forgotten
  that has had no run for longest: no tenant pushes out what was learned of others' jobs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.length import MOST_S, Length, LengthSource, from_samples

KEPT: Final = 20  # Runs of one job
LEAST: Final = 3  # Runs from which a length is learned
DECAY: Final = 0.9  # Weight of a run, of that of the next newer one
MOST_BYTES: Final = 480 * 1024  # As they are stored, which is never more than `cost` says
JOB_BYTES: Final = 136  # Of a job without runs: its namespace may have 63 letters
RUN_BYTES: Final = 24


class Run(NamedTuple):
    """One that ended well, in whole seconds."""

    length_s: int
    ended_s: int  # Unix seconds


class FormerRuns:
    """The runs by job. One writer; the same runs in the same order give the same answers."""

    def __init__(self, jobs: Iterable[tuple[Fingerprint, Sequence[Run]]] = (), *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._runs: dict[Fingerprint, tuple[Run, ...]] = {}  # job → its runs, newest first
        self._named: dict[tuple[str, str], set[Fingerprint]] = {}  # (namespace, name) → jobs
        self._made_from: dict[tuple[str, str], set[Fingerprint]] = {}  # (namespace, template) → jobs
        self._bytes: Counter[str] = Counter()  # namespace → what its jobs take
        self._bytes_in_all = 0
        for job, runs in jobs:
            self.put(job, runs)

    def __len__(self) -> int:
        return len(self._runs)

    def jobs(self) -> Iterator[tuple[Fingerprint, tuple[Run, ...]]]:
        """All jobs in a fixed order, each with its runs, newest first. Cost: O(n log n)."""
        yield from sorted(self._runs.items())

    def record(self, job: Fingerprint, run: Run) -> None:
        """One more run has ended well. Cost: O(1), and O(jobs) where another must be forgotten."""
        self.put(job, (*self._runs.get(job, ()), run))

    def put(self, job: Fingerprint, runs: Iterable[Run]) -> None:
        """These, in any order, are the runs of the job. Cost: as `record`."""
        kept = tuple(sorted(map(_bounded, runs), key=_newest_first)[:KEPT])
        before, self._runs[job] = self._runs.get(job), kept
        if before is None:
            self._named.setdefault((job.namespace, job.name), set()).add(job)
            self._made_from.setdefault((job.namespace, job.template), set()).add(job)
        self._takes(job.namespace, cost(len(kept)) - (cost(len(before)) if before is not None else 0))
        while self._bytes_in_all > self._most_bytes:
            self._forget_one()

    def length(self, job: Fingerprint) -> Length | None:
        """What its former runs show; `None`: too few are known. Cost: O(jobs of its name or template)."""
        for seen in self._looked_at(job):
            if len(seen) >= LEAST:
                runs = seen[:KEPT]
                weights = [DECAY**rank for rank in range(len(runs))]
                return from_samples([float(run.length_s) for run in runs], weights, LengthSource.LEARNED)
        return None

    def _looked_at(self, job: Fingerprint) -> Iterator[list[Run]]:
        yield list(self._runs.get(job, ()))
        for jobs in (
            self._made_from.get((job.namespace, job.template), ()),
            self._named.get((job.namespace, job.name), ()),
        ):
            runs = [run for one in jobs for run in self._runs[one]]
            yield sorted(runs, key=_newest_first)

    def _forget_one(self) -> None:
        most = max(self._bytes, key=lambda namespace: (self._bytes[namespace], namespace))
        theirs = (job for job in self._runs if job.namespace == most)
        oldest = min(theirs, key=lambda job: (self._runs[job][0].ended_s, job))
        self._takes(most, -cost(len(self._runs.pop(oldest))))
        places = (self._named, (most, oldest.name)), (self._made_from, (most, oldest.template))
        for index, key in places:
            index[key].discard(oldest)
            if not index[key]:
                del index[key]

    def _takes(self, namespace: str, more_bytes: int) -> None:
        self._bytes_in_all += more_bytes
        self._bytes[namespace] += more_bytes
        if not self._bytes[namespace]:
            del self._bytes[namespace]


def _bounded(run: Run) -> Run:
    return Run(min(max(run.length_s, 1), int(MOST_S)), min(max(run.ended_s, 0), 10**10 - 1))


def _newest_first(run: Run) -> tuple[int, int]:
    return -run.ended_s, run.length_s


def cost(runs: int) -> int:
    """Bytes that a job with so many runs takes at most, as it is stored."""
    return JOB_BYTES + RUN_BYTES * runs
