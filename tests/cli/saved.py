"""A netgang that answers of a saved cluster at one moment: /v1/explain and /v1/what-if, by the service's own code."""

from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import msgspec

from cli.offline import filled_cache
from extender.api.what_if import read_what_if, supposed
from extender.bootstrap import empty_cache
from extender.settings.settings import Settings
from scoring.explain.gang import explain
from scoring.ids import gang_key
from scoring.plan import PlannerCache, plan
from scoring.what_if import MisfitError, Situation
from tests.cli.world import CLUSTER, MESH, problem

NOW_S = 1_793_613_900.0  # 2026-11-02T10:05:00Z, five minutes after the jobs of the example came


class Saved:
    def __init__(
        self, cluster: Path = CLUSTER, mesh: Path | None = MESH, *, now_s: float = NOW_S, **settings: Any
    ) -> None:
        self.settings, self.now_s, self.known = Settings().changed(settings), now_s, PlannerCache()
        self.cache = filled_cache(cluster, mesh, self.settings, now_s=now_s)
        self.base = Situation(self.cache.snapshot(), self.settings.policy(), now_s)
        self.plan = plan(self.base.snapshot, self.base.policy, now_s=now_s, cache=self.known)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        try:
            found = self._answer(request)
        except MisfitError as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        if found is None:
            return problem(HTTPStatus.NOT_FOUND, "no such gang is known")
        return httpx.Response(200, content=msgspec.json.encode(found))

    def _answer(self, request: httpx.Request) -> msgspec.Struct | None:
        if request.method == "POST":
            what, empty = read_what_if(request.content), partial(empty_cache, self.settings)
            return supposed(self.base, self.plan, what, self.settings, empty)
        namespace, name = request.url.path.split("/")[3:]
        pod = self.cache.pod_by_name(namespace, name)
        gang = self.cache.gang(gang_key(namespace, name)) or (self.cache.gang_of(pod.uid) if pod is not None else None)
        if gang is None:
            return None
        return explain(self.base.snapshot, self.plan, gang, self.base.policy, now_s=self.now_s, cache=self.known)
