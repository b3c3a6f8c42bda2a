"""When room comes free: what each gang of known length takes on its nodes, and until when.

Why: the start of a gang that waits follows from the ends of those that run. Rules: a gang of unknown length has no end,
so its room never comes free here; one whose start is not known is taken to have started just now, which is late at
worst. Gangs that are committed, or that this run has admitted, end too.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final

import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang
from scoring.model.gang import remaining_s
from scoring.network.matrix import Floats, Ints
from scoring.plan.result import Admission
from scoring.plan.run import Run
from scoring.queue.states import running_since_s

ROUNDING_S: Final = 0.001
"""What ends are rounded to: the same end, found at two moments, is the same number."""


def rounded(at_s: float) -> float:
    """A moment in whole milliseconds."""
    return round(at_s * 1e3) / 1e3 if isfinite(at_s) else at_s  # what `np.round` gives, in a tenth of its time


class Endings:
    """What comes free, entry by entry, by rows: a row, an amount, and when; Unix seconds."""

    def __init__(self, run: Run, *, now_s: float) -> None:
        self._run, self.now_s = run, now_s
        self._gangs: list[GangKey] = []
        self._rows: Ints = np.zeros(0, np.int64)
        self._amounts: Ints = np.zeros((0, len(run.table.axis)), np.int64)
        self._owner: Ints = np.zeros(0, np.int64)
        self._ends_s: Floats = np.zeros(0)
        self._added: list[tuple[Ints, Ints, Floats]] = []  # Rows, amounts, ends of gangs behind those of `_owner`

    def read(self, admissions: Iterable[Admission]) -> None:
        """Add what runs, is committed, or was admitted by this run; some gangs in a step."""
        run = self._run
        snapshot = run.snapshot
        running = run.cache.running.read(snapshot.gangs.values(), run.table, (run.view.layout, run.table.axis))
        self._gangs = list(running.gangs)
        self._rows, self._amounts, self._owner = running.rows, running.amounts, running.owner
        self._ends_s = self._ends(running.since_s, running.length_s)[running.owner]
        starts = {key: commitment.assignment for key, commitment in snapshot.commitments.items()}
        for key, members in {**starts, **{one.gang: one.members for one in admissions}}.items():
            gang = snapshot.gangs.get(key)
            if gang is not None:
                self.add(gang, members)

    def add(self, gang: Gang, members: Mapping[PodUid, NodeName]) -> tuple[Ints, Ints, Floats]:
        """The pending members of a gang start on these nodes; gives the new entries: rows, amounts, ends."""
        view, index = self._run.view, self._run.table.index
        rows: list[int] = []
        amounts: list[Ints] = []
        for pod in gang.pending if gang.length_s is not None else ():
            row = index.get(members.get(pod.uid, NodeName("")))
            if row is not None:
                rows.append(row)
                amounts.append(view.vector(pod.member_class))
        if not rows or gang.length_s is None:
            return self._rows[:0], self._amounts[:0], self._ends_s[:0]
        since_s = running_since_s(gang)
        ends_s = self._ends(np.array([self.now_s if since_s is None else since_s]), np.array([gang.length_s]))
        added = np.array(rows, np.int64), np.array(amounts, np.int64), ends_s.repeat(len(rows))
        self._added.append(added)
        self._gangs.append(gang.key)
        return added

    def freed(self, rows: Ints, until_s: float) -> Ints:
        """What comes free on `rows` (k,), ascending, up to this moment; (k, resources)."""
        self._take_in()
        total = np.zeros((len(rows), self._amounts.shape[1]), np.int64)
        place, entries = self._on(rows)
        some = self._ends_s[entries] <= until_s
        scatter_add(total, place[some], self._amounts[entries[some]])
        return total

    def freed_before(self, before_s: float) -> Ints:
        """What comes free on all nodes before this moment; (nodes, resources). Cost: O(nodes + entries)."""
        self._take_in()
        total = np.zeros_like(self._run.capacity.start)
        some = self._ends_s < before_s
        scatter_add(total, self._rows[some], self._amounts[some])
        return total

    def over(self, rows: Ints) -> tuple[Ints, Ints, Floats]:
        """Entries on `rows`, ascending: places among them, amounts, ends; in the order of their ends."""
        self._take_in()
        place, entries = self._on(rows)
        order = np.argsort(self._ends_s[entries], kind="stable")
        entries = entries[order]
        return place[order], self._amounts[entries], self._ends_s[entries]

    def last_before(self, rows: Ints, until_s: float) -> GangKey | None:
        """The gang whose end on these rows is the last up to this moment; of several, the first by name.

        By name, as the order in which a snapshot lists gangs decides nothing.
        """
        self._take_in()
        _, some = self._on(rows)
        some = some[self._ends_s[some] <= until_s]
        ends_s = self._ends_s[some]
        last = self._owner[some[ends_s == ends_s.max(initial=-np.inf)]]
        return min((self._gangs[number] for number in set(last.tolist())), default=None)

    def _take_in(self) -> None:
        """Put what was added among the rest. Many gangs may be added before anything is looked up again."""
        if not self._added:
            return
        rows, amounts, ends_s = zip(*self._added, strict=True)
        first = len(self._gangs) - len(rows)
        owner = np.repeat(np.arange(first, len(self._gangs)), [len(one) for one in rows])
        all_rows = np.concatenate((self._rows, *rows))
        by_row = np.argsort(all_rows, kind="stable")
        self._rows, self._amounts = all_rows[by_row], np.concatenate((self._amounts, *amounts))[by_row]
        self._ends_s = np.concatenate((self._ends_s, *ends_s))[by_row]
        self._owner = np.concatenate((self._owner, owner))[by_row]
        self._added.clear()

    def _on(self, rows: Ints) -> tuple[Ints, Ints]:
        """The entries on `rows`: places of their rows among these, and which entries. Cost: O(rows · log entries)."""
        begins = np.searchsorted(self._rows, rows, side="left")
        counts = np.searchsorted(self._rows, rows, side="right") - begins
        place = np.repeat(np.arange(len(rows)), counts)
        return place, np.arange(len(place)) + (begins - np.cumsum(counts) + counts)[place]

    def _ends(self, since_s: Floats, length_s: Floats) -> Floats:
        """(gangs,): the ends of gangs that run since then (NaN: it is not known)."""
        ran_s = np.where(np.isnan(since_s), 0.0, self.now_s - since_s)
        return np.asarray(np.round(self.now_s + remaining_s(length_s, ran_s), 3), np.float64)
