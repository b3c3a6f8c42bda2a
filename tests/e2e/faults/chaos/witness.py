"""See every pod's life by watch, and name what must never happen: the witness of the chaos run.

Why a watch and the audit log: a look every second misses the gang that stood over two zones for half of one, and only
the API server knows which account wrote what.
Rule: the witness only reads. Members are counted by run (controller uid), as netgang must count them. A gang in part is
a problem once it stayed so for `PARTIAL_LIMIT_S` of *calm* time: all parts up, and the half minute over in which a new
leader removes nothing (docs/safety.md S11).
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic

import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL
from scoring.model.pod import parse_quantity
from tests.e2e.objects import OURS

PARTIAL_TIMEOUT_S = 10.0  # what netgang is set to: a gang in part that never started is evicted after it
PARTIAL_LIMIT_S = PARTIAL_TIMEOUT_S + 25.0  # and kube-scheduler's longest backoff twice, and a slow machine
QUIET_S = 30.0  # after a take-over netgang removes nothing for so long
_TICK_S = 0.5


class Run(msgspec.Struct, frozen=True):
    namespace: str
    gang: str
    controller: str


class Seen(msgspec.Struct):
    name: str
    namespace: str
    scheduler: str
    run: Run | None
    minimum: int
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    gone: bool = False
    cpu_millicores: int = 0

    @property
    def counts(self) -> bool:
        """It is on a node and works, or has done its work."""
        return self.phase == "Succeeded" or (bool(self.node) and self.alive)

    @property
    def alive(self) -> bool:
        return not (self.deleting or self.gone) and self.phase not in ("Succeeded", "Failed")


class Witness(msgspec.Struct):
    api: Api
    zone_of: Mapping[str, str]  # node → its zone; names are never used again for another zone
    calm_since: Callable[[], float | None]
    """Since when (monotonic seconds) every part runs under one leader; `None`: one is down"""
    pods: dict[str, Seen] = {}  # uid → pod, those that are gone included
    whole: set[Run] = set()  # runs that had their minimum at some time
    lost_nodes: set[str] = set()  # nodes that were deleted or do not answer now
    problems: list[str] = []
    longest_partial_s: float = 0.0
    _by_run: dict[Run, set[str]] = {}
    _partial_s: dict[Run, tuple[float, float]] = {}  # gang in part → seconds in all, calm ones
    _said: set[Run] = set()  # runs whose standing in part is among the problems

    async def follow(self) -> None:
        async for change, pod in self.api.watch("Pod"):
            self.see(change, pod)

    async def tick(self) -> None:
        last_s = monotonic()
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = monotonic()
            self._count_partial(now_s - last_s, now_s)
            last_s = now_s

    def see(self, change: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        seen = self.pods.get(uid)
        if seen is None:
            seen = self.pods[uid] = _first_sight(pod)
            if seen.run is not None:
                self._by_run.setdefault(seen.run, set()).add(uid)
        node = pod["spec"].get("nodeName", "")
        if seen.node and node != seen.node:
            self.problems.append(f"{seen.namespace}/{seen.name} went from {seen.node} to {node}")
        seen.node = node
        seen.phase = pod["status"].get("phase", "Pending")
        seen.deleting = "deletionTimestamp" in pod["metadata"]
        seen.gone = change == "DELETED"
        if seen.run is not None:
            self._look_at(seen.run)

    def runs(self, namespace: str) -> dict[Run, list[Seen]]:
        return {
            run: found
            for run in list(self._by_run)
            if run.namespace == namespace and (found := [one for one in self._members(run) if not one.gone])
        }

    def others_touched(self, audit_log: Path) -> list[str]:
        """Writes of netgang's account on pods that are not its own, by the API server's own record."""
        found = Counter[str]()
        for line in audit_log.read_text().splitlines():
            entry = json.loads(line)
            about = entry.get("objectRef", {})
            if about.get("resource") != "pods" or about.get("namespace") == INSTALLED_IN:
                continue
            pod = about.get("namespace", ""), about.get("name", "")
            schedulers = {one.scheduler for one in self.pods.values() if (one.namespace, one.name) == pod}
            if schedulers and OURS not in schedulers:
                what = "/".join(filter(None, ("pods", about.get("subresource"))))
                found[f"{entry['verb']} {what} {about['namespace']}/{about['name']}"] += 1
        return sorted(found)

    def too_full(self, nodes: Iterable[Object]) -> list[str]:
        """Nodes whose pods ask for more CPU than there is: two schedulers bound to them in the same moment."""
        used: Counter[str] = Counter()
        for one in self.pods.values():
            if one.node and not one.gone and one.phase not in ("Succeeded", "Failed"):
                used[one.node] += one.cpu_millicores
        there = {one["metadata"]["name"]: one["status"]["allocatable"]["cpu"] for one in nodes}
        room = {name: parse_quantity(cpu, millis=True) for name, cpu in there.items()}
        return sorted(name for name, much in used.items() if much > room.get(name, much))

    def _members(self, run: Run) -> list[Seen]:
        return [self.pods[uid] for uid in sorted(self._by_run.get(run, ()))]

    def _look_at(self, run: Run) -> None:
        members = self._members(run)
        if sum(one.counts for one in members) >= max(one.minimum for one in members):
            self.whole.add(run)
        nodes = {one.node for one in members if one.node and one.alive} - self.lost_nodes
        if len(zones := {self.zone_of[node] for node in nodes}) > 1:
            self._problem(f"{run} is in zones {sorted(zones)}")

    def _count_partial(self, passed_s: float, now_s: float) -> None:
        since_s = self.calm_since()
        calm = since_s is not None and now_s - since_s > QUIET_S
        before, self._partial_s = self._partial_s, {}
        for run in self._by_run.keys() - self.whole:
            if not any(one.node and one.alive for one in self._members(run)):
                continue
            all_s, calm_s = before.get(run, (0.0, 0.0))
            self._partial_s[run] = (all_s + passed_s, calm_s + (passed_s if calm else 0.0))
            self.longest_partial_s = max(self.longest_partial_s, all_s + passed_s)
            if self._partial_s[run][1] > PARTIAL_LIMIT_S and run not in self._said:
                self._said.add(run)
                members = "; ".join(map(str, self._members(run)))
                self._problem(f"{run} stood in part for more than {PARTIAL_LIMIT_S:g} s of calm: {members}")

    def _problem(self, what: str) -> None:
        if what not in self.problems:
            self.problems.append(what)


def _first_sight(pod: Object) -> Seen:
    labels = pod["metadata"].get("labels", {})
    scheduler = pod["spec"].get("schedulerName", "")
    owners = [one["uid"] for one in pod["metadata"].get("ownerReferences", []) if one.get("controller")]
    gang, least = labels.get(GROUP_NAME_LABEL), labels.get(MIN_AVAILABLE_LABEL, "1")
    namespace = pod["metadata"]["namespace"]
    run = Run(namespace, gang, "".join(owners)) if gang and scheduler == OURS else None
    cpu = sum(
        parse_quantity(one.get("resources", {}).get("requests", {}).get("cpu", "0"), millis=True)
        for one in pod["spec"]["containers"]
    )
    minimum = int(least) if least.isdigit() else 1
    return Seen(pod["metadata"]["name"], namespace, scheduler, run, minimum, cpu_millicores=cpu)
