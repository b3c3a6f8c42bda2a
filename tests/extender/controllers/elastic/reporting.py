"""Jobs that report, in one line, for the tests of reports, series and their address."""

import json
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from extender.controllers.elastic.kinds import Seen, WorkerBounds
from extender.controllers.elastic.records import JobView
from scoring import GangKey, Namespace
from scoring.queue.states import JobState
from scoring.records import Point
from scoring.scaling.job import ElasticJob, JobKey, Wants
from tests.fakes.raw_http import InThread

TFJOB = "TFJob.kubeflow.org"
PATH = "/v1/jobs/team/resnet/metrics"
TOKEN = "of a pod"
TRAINER = {TOKEN: "system:serviceaccount:default:trainer"}


def job_key(name: str, *, namespace: str = "team", kind: str = TFJOB) -> JobKey:
    return JobKey(Namespace(namespace), kind, name)


def elastic_job(name: str, *, namespace: str = "team", kind: str = TFJOB, **fields: Any) -> ElasticJob:
    fields = {"uid": "uid-1", "workers": 3, "min_workers": 1, "max_workers": 6, "indexes": {}, **fields}
    fields = {"refusal": None, "wants": Wants.LOSS, "changed_s": None, **fields}
    return ElasticJob(job_key(name, namespace=namespace, kind=kind), gang=GangKey(f"{namespace}/{name}"), **fields)


def view(name: str, **fields: Any) -> JobView:
    job = elastic_job(name, **fields)
    seen = Seen(job.key, job.uid, job.workers, WorkerBounds(1), None, None)
    return JobView(seen, None, None, job, elastic=True, rough_state=JobState.RUNNING)


def points(steps: Iterable[int]) -> list[Point]:
    return [Point(step, float(step), 1.0) for step in steps]


class Sink(InThread):
    """A server that keeps what is reported and answers with `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[tuple[str, str | None, dict[str, Any]]] = []  # (path, authorization, document) of each request
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append((self.path, self.headers["authorization"], json.loads(body)))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    @property
    def url(self) -> str:
        return f"{super().url}{PATH}"

    def points(self) -> list[dict[str, Any]]:
        return [point for _, _, document in self.got for point in document["points"]]

    def steps(self) -> list[list[int]]:
        return [[point["step"] for point in document["points"]] for _, _, document in self.got]
