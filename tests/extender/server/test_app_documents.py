"""What the app serves beside the verbs: probes, metrics, documents, problems, OpenAPI."""

from typing import Any

import msgspec
import pytest

from extender.schemas.plan import PlanInForce
from tests.extender.server.test_app import Service
from tests.fakes.verbs import ARGS, FakeViews


def plain(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


async def test_probes() -> None:
    """Alive as long as the event loop turns; 503 with sentences and details until the service is ready."""
    ready, waiting = Service(), Service(views=FakeViews(not_ready=("pods are not listed yet",)))
    alive = await ready.get("/healthz")
    assert (alive.status_code, alive.text) == (200, "ok\n")
    assert (await ready.get("/readyz")).json() == plain(ready.views.readiness())
    reply = await waiting.get("/readyz")
    assert (reply.status_code, reply.json()["reasons"]) == (503, ["pods are not listed yet"])


async def test_metrics() -> None:
    """Prometheus' text format, with the calls made so far."""
    service = Service()
    await service.post("filter", ARGS)
    reply = await service.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    assert 'netgang_requests_total{outcome="passed",verb="filter"} 1.0' in reply.text


async def test_documents() -> None:
    service = Service()
    shown = {
        "/v1/plan": service.views.plan(),
        "/v1/network": service.views.network(),
        "/v1/explain/team-a/resnet": await service.views.explain("team-a", "resnet"),
        "/v1/network/n1/n2": service.views.link("n1", "n2"),
    }
    for path, document in shown.items():
        assert (await service.get(path)).json() == plain(document)


PROBLEMS = {  # case: (status, path)
    "unknown gang": (404, "/v1/explain/team-a/nobody"),
    "unknown node": (404, "/v1/network/n1/mars"),
    "a name that cannot be one": (400, "/v1/explain/team-a/No_Name"),
    "a very long name": (400, "/v1/explain/team-a/" + "a" * 254),
    "unknown document": (404, "/v1/nothing"),
    "unknown page": (404, "/filter/"),
}


@pytest.mark.parametrize(("status", "path"), PROBLEMS.values(), ids=PROBLEMS)
async def test_problem_documents(status: int, path: str) -> None:
    """A caller's mistake is a problem document with its status inside."""
    reply = await Service().get(path)
    assert (status, "application/problem+json") == (reply.status_code, reply.headers["content-type"])
    assert reply.json()["status"] == status


class BrokenViews(FakeViews):
    def plan(self) -> PlanInForce:
        raise KeyError("secret")


async def test_a_bug_in_a_document() -> None:
    service = Service(views=BrokenViews())
    reply = await service.get("/v1/plan")
    assert (reply.status_code, reply.headers["content-type"]) == (503, "application/problem+json")
    assert "secret" not in reply.text
    assert service.counted("internal_errors_total", place="document") == 1
    assert (await service.get("/readyz")).status_code == 503


async def test_openapi_describes_the_documents() -> None:
    service = Service()
    paths = (await service.get("/openapi.json")).json()["paths"]
    documents = {"/v1/plan", "/v1/explain/{namespace}/{name}", "/v1/network", "/v1/queue", "/v1/jobs", "/v1/what-if"}
    assert documents | {"/readyz", "/healthz", "/metrics"} <= set(paths)
    assert (await service.get("/docs")).status_code == 200
