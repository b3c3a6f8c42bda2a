"""When room comes free: what each gang of known length takes on its nodes, and until when.

Why: the start of a gang that waits follows from the ends of those that run. Rules: a gang of unknown length has no end,
so its room never comes free here; one whose start is not known is taken to have started just now, which is late at
worst. Gangs that are committed, or that this run has admitted, end too. What running gangs take is kept from run to
run: reading two thousand of them takes 40 ms, of which an event changed one.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import scatter_add
from scoring.ids import GangKey, NodeName, PodUid
from scoring.lengths import remaining_s
from scoring.model import Gang
from scoring.network.matrix import Floats, Ints
from scoring.plan.result import Admission
from scoring.plan.run import Run
from scoring.plan.steps import Steps
from scoring.queue.states import running_since_s

EARLY: Final = 0.1  # Ends at this level and the next one enclose 80 % of them
LATE: Final = 0.9
ROUNDING_S: Final = 0.001
"""What ends are rounded to: the same end, found at two moments, is the same number."""
_GANGS_A_STEP: Final = 64


def rounded(at_s: float) -> float:
    """A moment in whole milliseconds."""
    return round(at_s, 3)


class Endings:
    """What comes free, entry by entry: a row, an amount, and its end at each of three levels; Unix seconds."""

    def __init__(self, run: Run, *, now_s: float, level: float) -> None:
        """`level`: share of gangs that have ended by the time that counts."""
        self._run, self._now_s, self._levels = run, now_s, (level, EARLY, LATE)
        self.gangs: list[GangKey] = []
        """Whose entries they are, by number"""
        self._rows: list[Ints] = []
        self._amounts: list[Ints] = []
        self._ends: list[tuple[float, float, float, float]] = []
        """Of each gang: at the three levels, and as it was expected when it started"""
        self._stacked: tuple[Ints, Ints, Ints, Floats] | None = None

    def read(self, admitted: Mapping[GangKey, Admission]) -> Steps[None]:
        """Add what runs, is committed, or was admitted by this run; some gangs in a step."""
        snapshot, left = self._run.snapshot, _GANGS_A_STEP
        for gang in snapshot.gangs.values():
            if gang.length is None:
                continue
            left -= self._read(gang)
            admission = admitted.get(gang.key)
            commitment = snapshot.commitments.get(gang.key)
            members = admission.members if admission is not None else None
            if members is None and commitment is not None:
                members = commitment.assignment
            if members is not None:
                self.add(gang, members)
            if left <= 0:
                left = _GANGS_A_STEP
                yield

    def add(self, gang: Gang, members: Mapping[PodUid, NodeName]) -> None:
        """The pending members of a gang start on these nodes."""
        view, index = self._run.view, self._run.table.index
        rows: list[int] = []
        amounts: list[Ints] = []
        for pod in gang.pending:
            row = index.get(members.get(pod.uid, NodeName("")))
            vector = view.vector(pod.member_class)
            if row is not None and vector is not None:
                rows.append(row)
                amounts.append(vector)
        if rows:
            self._end(gang, np.array(rows, np.int64), np.array(amounts, np.int64), running_since_s(gang))

    def freed(self, rows: Ints, until_s: float, *, which: int = 0) -> Ints:
        """What comes free on `rows` (k,), ascending, up to this moment; (k, resources).

        `which`: 0: at the level that counts, 1: early, 2: late, 3: as expected when the gangs started.
        """
        at, amounts, _, ends = self._entries()
        total = np.zeros((len(rows), amounts.shape[1]), np.int64)
        place = np.minimum(np.searchsorted(rows, at), len(rows) - 1)
        some = (rows[place] == at) & (ends[:, which] <= until_s)
        scatter_add(total, place[some], amounts[some])
        return total

    def over(self, rows: Ints, which: int) -> tuple[Ints, Ints, Floats]:
        """Entries on `rows`, ascending: places among them, amounts, ends; in the order of their ends."""
        at, amounts, _, ends = self._entries()
        place = np.minimum(np.searchsorted(rows, at), len(rows) - 1)
        some = np.flatnonzero(rows[place] == at)
        some = some[np.argsort(ends[some, which], kind="stable")]
        return place[some], amounts[some], ends[some, which]

    def last_before(self, rows: Ints, until_s: float) -> GangKey | None:
        """The gang whose end on these rows is the last up to this moment."""
        at, _, owner, ends = self._entries()
        some: NDArray[np.int64] = np.flatnonzero(np.isin(at, rows) & (ends[:, 0] <= until_s))
        return self.gangs[int(owner[some[ends[some, 0].argmax()]])] if len(some) else None

    def _read(self, gang: Gang) -> int:
        """Add what runs of the gang; gives how many were not known from an earlier run."""
        run = self._run
        known = run.cache.running.get(gang.key)
        stamp = run.view.layout, run.table.axis
        new = known is None or known[0] is not gang or known[1] != stamp
        if known is None or new:
            on_nodes = [pod for pod in gang.members if pod.node is not None and not pod.terminal]
            since_s = running_since_s(gang)
            known = run.cache.running[gang.key] = (gang, stamp, *run.table.footprint(on_nodes), since_s)
        _, _, rows, amounts, since_s = known
        if len(rows):
            self._end(gang, rows, amounts, since_s)
        return int(new)

    def _end(self, gang: Gang, rows: Ints, amounts: Ints, since_s: float | None) -> None:
        length, now_s = gang.length, self._now_s
        if length is None:
            return
        start_s = now_s if since_s is None else min(since_s, now_s)
        ran_s = now_s - start_s
        usual, early, late = (rounded(now_s + remaining_s(length, ran_s, level)) for level in self._levels)
        self.gangs.append(gang.key)
        self._rows.append(rows)
        self._amounts.append(amounts)
        self._ends.append((usual, early, late, rounded(start_s + length.at_s(self._levels[0]))))
        self._stacked = None

    def _entries(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Rows, amounts, number of the gang, ends (entries, 4)."""
        if self._stacked is None:
            columns = len(self._run.table.axis)
            owner = np.repeat(np.arange(len(self._rows)), [len(one) for one in self._rows]).astype(np.int64)
            if self._rows:
                rows, amounts = np.concatenate(self._rows), np.concatenate(self._amounts)
            else:
                rows, amounts = np.zeros(0, np.int64), np.zeros((0, columns), np.int64)
            ends = np.array(self._ends, np.float64).reshape(-1, 4)[owner]
            self._stacked = rows, amounts, owner, ends
        return self._stacked
