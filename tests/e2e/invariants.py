"""What must hold at every moment of a scenario, looked at a few times a second while it runs.

Looks are at the API server and /v1/plan alone, as a user has them. What may be true for a moment (a commit under way)
must end within a limit; that time counts only while API server and netgang both answer.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
import httpx
import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL
from lab.testbed.parts.service import Netgang
from scoring.model.pod import parse_quantity
from tests.e2e.objects import OURS
from tests.e2e.stage import document

COMMIT_S = 5.0  # longest time in part: posting takes milliseconds, a loaded machine takes longer
GRACE_S = 5.0  # longest time for which /v1/plan may promise places to pods that need none any more
_EVERY_S = 0.25
_GAP_S = 1.5  # looks further apart than this: something did not answer, and clocks start again
_SETTLED_S = 1.0  # a pod of others counts as known to us this long after it was first seen on its node
_LIMIT_S = 5.0  # for one answer
Passing = tuple[str, str, float]  # a key that stays while numbers change, what may be true for a time, and how long


class Checker(msgspec.Struct):
    api: Api
    netgang: Netgang
    namespace: str
    commit_s: float = COMMIT_S
    grace_s: float = GRACE_S
    scheduler: str = OURS  # the name in pods that are netgang's
    problems: list[str] = []
    looks: int = 0
    _seen_s: float = -1e9  # when everything answered last
    _node_of: dict[str, tuple[str, float]] = {}  # pod's uid → node, and since when it is there
    _started: dict[str, set[str]] = {}  # gang that was whole once → uids since then
    _since: dict[str, float] = {}  # what is true but must not stay → since when

    async def look(self) -> None:
        try:
            async with asyncio.timeout(_LIMIT_S):
                nodes = await self.api.list_all("Node")
                pods = await self.api.list_all("Pod", namespace=self.namespace)
                plan = await document(self.netgang, "/v1/plan")
        except (TimeoutError, aiohttp.ClientError, httpx.HTTPError):
            return
        now_s = monotonic()
        if now_s - self._seen_s > _GAP_S + _EVERY_S:
            self._since.clear()
        self._seen_s = now_s
        self.looks += 1
        self._places(nodes, pods, now_s)
        gangs = self._gangs(pods)
        passing = [*self._partial(gangs), *self._idle_promises(plan, gangs)]
        self._since = {key: self._since.get(key, now_s) for key, _, _ in passing}
        for key, what, limit_s in passing:
            if now_s - self._since[key] > limit_s:
                self._report(f"for more than {limit_s:g} s: {what}")

    def _places(self, nodes: Iterable[Object], pods: list[Object], now_s: float) -> None:
        """No pod changes its node; our pods fit beside each other and beside what was there before them."""
        for one in pods:
            uid, node = one["metadata"]["uid"], one["spec"].get("nodeName")
            if uid in self._node_of and self._node_of[uid][0] != node:
                self._report(f"{one['metadata']['name']} went from {self._node_of[uid][0]} to {node}")
            if node is not None:
                self._node_of.setdefault(uid, (node, now_s))
        for node in nodes:
            self._room(node, pods, now_s)

    def _room(self, node: Object, pods: list[Object], now_s: float) -> None:
        name = node["metadata"]["name"]
        here = [one for one in pods if one["spec"].get("nodeName") == name]
        here = [one for one in here if one["status"].get("phase") not in ("Succeeded", "Failed")]
        seen_s = {one["metadata"]["uid"]: self._node_of[one["metadata"]["uid"]][1] for one in here}
        last_s = max((seen_s[one["metadata"]["uid"]] for one in here if self._is_ours(one)), default=None)
        if last_s is None:
            return
        # A pod of others that came at about the time of our last one may have come after it.
        counted = [one for one in here if self._is_ours(one) or seen_s[one["metadata"]["uid"]] < last_s - _SETTLED_S]
        wanted: Counter[str] = Counter({"pods": 1000 * len(counted)})
        for container in (container for one in counted for container in one["spec"]["containers"]):
            for resource, quantity in container["resources"].get("requests", {}).items():
                wanted[resource] += parse_quantity(quantity, millis=True)
        for resource, much in wanted.items():
            if much > parse_quantity(node["status"]["allocatable"].get(resource, "0"), millis=True):
                names = sorted(one["metadata"]["name"] for one in counted)
                self._report(f"{name} has not enough {resource} for {names}")

    def _partial(self, gangs: Mapping[str, list[Object]]) -> Iterator[Passing]:
        for gone in self._started.keys() - gangs.keys():
            del self._started[gone]
        for key, members in gangs.items():
            least = int(members[0]["metadata"]["labels"][MIN_AVAILABLE_LABEL])
            uids = {one["metadata"]["uid"] for one in members}
            there = [one for one in members if one["spec"].get("nodeName")]
            if len(there) >= least or self._started.get(key, set()) & uids:
                self._started.setdefault(key, set()).update(uids)
            elif there:
                yield f"partial {key}", f"{len(there)} of {key} are bound, {least} are needed", self.commit_s

    def _idle_promises(self, plan: Mapping[str, Any], gangs: Mapping[str, list[Object]]) -> Iterator[Passing]:
        for key in sorted({*plan["committed"], *plan["being_admitted"]}):
            pending = sum(not one["spec"].get("nodeName") for one in gangs.get(key, ()))
            kept = plan["committed"].get(key, 0)
            if kept > pending:
                yield f"kept {key}", f"{key} keeps {kept} places for {pending} pods", self.grace_s
            if not pending:
                what = f"{key} is committed or being admitted, and none of its pods is pending"
                yield f"idle {key}", what, self.grace_s

    def _gangs(self, pods: Iterable[Object]) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for one in pods:
            name = one["metadata"].get("labels", {}).get(GROUP_NAME_LABEL)
            if name and self._is_ours(one) and "deletionTimestamp" not in one["metadata"]:
                found.setdefault(f"{one['metadata']['namespace']}/{name}", []).append(one)
        return found

    def _is_ours(self, one: Object) -> bool:
        return bool(one["spec"].get("schedulerName") == self.scheduler)

    def _report(self, what: str) -> None:
        if what not in self.problems:
            self.problems.append(what)


@asynccontextmanager
async def invariants_hold(api: Api, netgang: Netgang, namespace: str, **limits: Any) -> AsyncIterator[Checker]:
    """Look all the time while the block runs; AssertionError at its end with everything that should not have been."""
    checker = Checker(api, netgang, namespace, **limits)

    async def look() -> None:
        while True:
            await checker.look()
            await asyncio.sleep(_EVERY_S)

    try:
        async with beside(look()):
            yield checker
            await checker.look()
    except BaseException as failure:
        failure.add_note(f"invariants: {checker.looks} looks, {checker.problems or 'nothing wrong'}")
        raise
    assert not checker.problems, checker.problems
    assert checker.looks > 0, "nothing was looked at"


async def until_nothing_is_promised(api: Api, netgang: Netgang, *, limit_s: float = 15.0) -> None:
    """Wait until /v1/plan has no committed places, no gang being admitted and no held bind: nothing leaked."""

    def empty(plan: Mapping[str, Any]) -> bool:
        return not (plan["committed"] or plan["being_admitted"] or plan["held_binds"])

    plan = partial(document, netgang, "/v1/plan")
    await api.until(plan, empty, what="nothing committed or being admitted", limit_s=limit_s)
