"""A netgang that answers of a saved cluster at one moment: /v1/explain and /v1/what-if, by the service's own code."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from cli.offline.plan import filled_cache
from extender.api.documents.explain import explain_document, preemption_document
from extender.api.documents.plan import supposed_document
from extender.api.problems import problem_body
from extender.api.what_if import read_what_if, supposed
from extender.bootstrap import empty_cache
from extender.settings.settings import Settings
from scoring.explain.gang import explain
from scoring.ids import gang_key
from scoring.plan import PlannerCache, plan
from scoring.what_if import MisfitError, Situation
from tests.cli.world import CLUSTER, MESH
from tests.fakes.raw_http import InThread

NOW_S = 1_793_613_900.0  # 2026-11-02T10:05:00Z, five minutes after the jobs of the example came


class Saved:
    def __init__(self, cluster: Path, mesh: Path | None, settings: Settings, *, now_s: float) -> None:
        self.settings, self.now_s, self.known = settings, now_s, PlannerCache()
        self.cache = filled_cache(cluster, mesh, settings, now_s=now_s)
        self.base = Situation(self.cache.snapshot(), settings.policy(), now_s)
        self.plan = plan(self.base.snapshot, self.base.policy, now_s=now_s, cache=self.known)

    def explained(self, namespace: str, name: str) -> bytes | None:
        pod = self.cache.pod_by_name(namespace, name)
        gang = self.cache.gang(gang_key(namespace, name)) or (self.cache.gang_of(pod.uid) if pod is not None else None)
        if gang is None:
            return None
        found = explain(self.base.snapshot, self.plan, gang, self.base.policy, now_s=self.now_s, cache=self.known)
        preemption = preemption_document(self.base.snapshot, gang.key, blocked=None)
        return msgspec.json.encode(explain_document(found, preemption))

    def supposed(self, body: bytes) -> bytes:
        what = read_what_if(body)
        found = supposed(self.base, self.plan, what, self.settings, partial(empty_cache, self.settings))
        return msgspec.json.encode(supposed_document(found, what))


@contextmanager
def saved(
    cluster: Path = CLUSTER, mesh: Path | None = MESH, settings: Settings | None = None, *, now_s: float = NOW_S
) -> Iterator[str]:
    """Its address."""
    netgang = Saved(cluster, mesh, settings or Settings(), now_s=now_s)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = netgang.explained(*self.path.split("/")[3:])
            self._answer(
                *(
                    (200, found)
                    if found is not None
                    else (404, problem_body(HTTPStatus.NOT_FOUND, "no such gang is known"))
                )
            )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                self._answer(200, netgang.supposed(body))
            except MisfitError as error:
                self._answer(400, problem_body(HTTPStatus.BAD_REQUEST, str(error)))

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with InThread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as running:
        yield running.url
