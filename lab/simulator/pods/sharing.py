"""What jobs share on their nodes: requested cores and the network card, kept up to date as pods come and go.

Why: the training-speed model slows a job down by what is beside it (`simulator.speed.Crowd`), in both engines alike.
Rule: a node's cores are those of all pods bound to it; its talkers are pods of jobs that are whole and talk to other
nodes. The `crowd` is one live view; each change of it returns the other jobs on its nodes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from lab.simulator.speed import Crowd
from lab.simulator.speed.rate import Placement, talks
from scoring.ids import NodeName
from scoring.model import Node
from scoring.model.resources import CPU


class Sharing:
    """Of one run."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._names = tuple(sorted(node.name for node in nodes))
        self._row = {name: row for row, name in enumerate(self._names)}
        self._cores = {self._row[node.name]: max(node.allocatable.get(CPU), 1) for node in nodes}
        """row → millicores that the node has"""
        self._pods: dict[str, tuple[str, int, int]] = {}
        """uid of a pod on a node → its job, its row, its millicores"""
        self._jobs: list[Counter[str]] = [Counter() for _ in self._names]
        """row → job → its pods there"""
        self._talking: dict[str, tuple[int, ...]] = {}
        """job → rows of its pods that talk to other nodes"""
        self._used = Counter[int]()
        self._talkers = Counter[int]()
        self._ratios: dict[int, float] = {}
        self.crowd = Crowd(self._talkers, self._ratios)
        """Of this moment, whenever it is read; rows are those of the nodes' names in order."""

    def take(self, pod: str, job: str, node: NodeName, millicores: int) -> list[str]:
        """A pod is on a node; gives the jobs there."""
        row = self._row[node]
        self._pods[pod] = (job, row, millicores)
        self._jobs[row][job] += 1
        return self._used_changed(row, millicores)

    def give(self, pod: str) -> list[str]:
        """The pod is gone; gives the jobs there. Nothing, for one that was on no node."""
        if pod not in self._pods:
            return []
        job, row, millicores = self._pods.pop(pod)
        self._jobs[row][job] -= 1
        if not self._jobs[row][job]:
            del self._jobs[row][job]
        return self._used_changed(row, -millicores)

    def talk(self, job: str, ps: Iterable[NodeName], workers: Iterable[NodeName]) -> list[str]:
        """The job trains with pods on these nodes, or on none; gives the jobs on nodes whose card has other talkers."""
        row = self._row
        at = Placement(tuple(row[name] for name in ps), tuple(row[name] for name in workers))
        before, now = self._talking.pop(job, ()), talks(at)
        if now:
            self._talking[job] = now
        if before == now:
            return []
        self._talkers.subtract(before)
        self._talkers.update(now)
        return self._on({*before, *now})

    def _used_changed(self, row: int, millicores: int) -> list[str]:
        self._used[row] += millicores
        self._ratios[row] = self._used[row] / self._cores[row]
        return self._on((row,))

    def _on(self, rows: Iterable[int]) -> list[str]:
        return list(dict.fromkeys(job for row in sorted(rows) for job in self._jobs[row]))
