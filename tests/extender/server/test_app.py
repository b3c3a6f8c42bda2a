"""The HTTP side in-process: verbs when all is well, when the caller is wrong and when we are; what is beside them."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from starlette.types import ASGIApp

from client import path_of
from extender.convert.wire import INTERNAL_ERROR, BindArgs, Failed, FilterAnswer, Passed, Refused
from extender.errors import BadRequestError
from extender.runtime.telemetry import Telemetry
from extender.server.app import DEBUG_BINDS_NOTHING, UNREADY_AFTER_ERROR_S, VerbsApp, for_people
from scoring import Namespace, NodeName, PodName, PodUid
from scoring.model.reasons import Reason
from tests.extender.server.served import call
from tests.fakes.verbs import ARGS, BINDING, FakeVerbs, FakeViews

BODIES: Mapping[str, Mapping[str, Any]] = {"filter": ARGS, "prioritize": ARGS, "bind": BINDING}  # well-formed ones
VERBS = tuple(BODIES)
KUBE_SCHEDULER = "Go-http-client/1.1"  # kube-scheduler's client sets no User-Agent, so Go's own is sent
CURL = "curl/8.5.0"


class Service:
    def __init__(self, verbs: FakeVerbs | None = None, views: FakeViews | None = None, **options: Any) -> None:
        self.verbs = verbs or FakeVerbs()
        self.views = views or FakeViews()
        self.telemetry = Telemetry()
        self.app: ASGIApp = VerbsApp(self.verbs, self.views, self.telemetry, **options)

    def for_people(self) -> "Service":
        other = copy(self)
        other.app = for_people(self.app)
        return other

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://netgang")

    async def post(self, verb: str, body: object, *, agent: str = KUBE_SCHEDULER) -> Any:
        """Send `body` (JSON, or bytes as they are) and return the decoded reply, which must be a 200."""
        async with self.client() as client:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            reply = await client.post(f"/{verb}", content=content, headers={"User-Agent": agent})
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
        return reply.json()

    async def get(self, path: str) -> httpx.Response:
        async with self.client() as client:
            return await client.get(path)

    def counted(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(f"netgang_{name}", labels)


def fail(*_: object) -> Any:
    raise KeyError("secret")


def nothing_passes(verb: str, reply: Any) -> bool:
    if verb == "prioritize":
        return {each["Score"] for each in reply} <= {0}
    if verb == "bind":
        return bool(reply["Error"])
    return bool(reply["Error"]) and reply["NodeNames"] is None and reply["Nodes"] is None


async def test_each_verb_asks_the_service_once() -> None:
    service = Service()
    reply = await service.post("filter", ARGS)
    assert (reply["NodeNames"], list(reply["FailedAndUnresolvableNodes"])) == (["n1", "n3"], ["n2"])
    assert [each["Score"] for each in await service.post("prioritize", ARGS)] == [0, 1, 2]
    assert await service.post("bind", BINDING) == {"Error": ""}
    asked = [(args.pod.uid, args.node_names) for args in (*service.verbs.filtered, *service.verbs.prioritized)]
    assert asked == [("u1", ["n1", "n2", "n3"])] * 2
    assert service.verbs.bound == [BindArgs(PodName("p"), Namespace("team-a"), PodUid("u1"), NodeName("n1"))]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_no_nodes_is_answered_without_asking(verb: str) -> None:
    """An empty list of nodes leaves nothing to decide, and nothing to learn from."""
    service = Service()
    reply = await service.post(verb, ARGS | {"NodeNames": []})
    assert reply == [] or (reply["NodeNames"], reply["Error"]) == ([], "")
    assert (service.verbs.filtered, service.verbs.prioritized) == ([], [])


OUTCOMES: dict[str, tuple[str, str, FilterAnswer]] = {  # case: (outcome, reason counted, answer)
    "passed": ("passed", "", Passed([NodeName("n1")])),
    "refused": ("refused", Reason.BEHIND, Refused(Reason.BEHIND)),
    "passed nothing": ("refused", Reason.RESERVED, Passed((), others=Reason.RESERVED)),
    "failed": ("failed", Reason.NOT_SYNCED, Failed(Reason.NOT_SYNCED)),
    "failed with a free text": ("failed", "other", Failed("try again")),
}


@pytest.mark.parametrize(("outcome", "reason", "answer"), OUTCOMES.values(), ids=OUTCOMES)
async def test_outcomes_are_counted(outcome: str, reason: str, answer: FilterAnswer) -> None:
    async def refuse(*_: object) -> Reason:
        return Reason.QUORUM_TIMEOUT

    service = Service(FakeVerbs(on_filter=lambda _: answer, on_bind=refuse))
    assert await service.post("bind", BINDING) == {"Error": Reason.QUORUM_TIMEOUT}
    assert service.counted("refusals_total", verb="bind", reason=Reason.QUORUM_TIMEOUT) == 1
    await service.post("filter", ARGS)
    assert service.counted("requests_total", verb="filter", outcome=outcome) == 1
    assert service.counted("request_duration_seconds_count", verb="filter") == 1
    assert not reason or service.counted("refusals_total", verb="filter", reason=reason) == 1


BOTH, PLAYED = Service, partial(Service, curl_looks=False)  # the default is the careful one: curl is a person
CALLS: dict[str, tuple[bool, Callable[[], Service], str, str]] = {  # case: (debugging, service, query, User-Agent)
    "kube-scheduler": (False, BOTH, "", KUBE_SCHEDULER),
    "kube-scheduler by way of a proxy with HTTP/2": (False, BOTH, "", "Go-http-client/2.0"),
    "no name": (False, BOTH, "", ""),
    "curl": (True, BOTH, "", CURL),
    "curl, marked": (True, BOTH, "?debug", CURL),
    "marked": (True, BOTH, "?debug", KUBE_SCHEDULER),
    "another mark": (False, BOTH, "?debugging", KUBE_SCHEDULER),
    "curl inside another name": (False, BOTH, "", "libcurl/8.5.0"),
    "a name that only begins so": (False, BOTH, "", "curlew/1.0"),
    "curl in kube-scheduler's place": (False, PLAYED, "", CURL),
    "marked, curl in kube-scheduler's place": (True, PLAYED, "?debug", CURL),
    "kube-scheduler at the port for people": (True, lambda: PLAYED().for_people(), "", KUBE_SCHEDULER),
}


@pytest.mark.parametrize(("debugging", "made", "query", "agent"), CALLS.values(), ids=CALLS)
async def test_debugging_calls_are_marked_and_bind_nothing(
    debugging: bool, made: Callable[[], Service], query: str, agent: str
) -> None:
    """Calls of people are marked, and their bind never reaches the service (docs/safety.md S2); all others count."""
    service = made()
    for verb in ("filter", "prioritize"):
        await service.post(verb + query, ARGS, agent=agent)
    reply = await service.post("bind" + query, BINDING, agent=agent)
    assert [args.debug for args in (*service.verbs.filtered, *service.verbs.prioritized)] == [debugging, debugging]
    assert (reply["Error"], len(service.verbs.bound)) == ((DEBUG_BINDS_NOTHING, 0) if debugging else ("", 1))


@pytest.mark.parametrize("verb", VERBS)
async def test_the_service_may_find_the_request_malformed(verb: str) -> None:
    def refuse(*_: object) -> Any:
        raise BadRequestError("Pod.spec: bad quantity")

    service = Service(FakeVerbs(refuse, refuse, refuse))
    reply = await service.post(verb, BODIES[verb])
    assert nothing_passes(verb, reply)
    assert verb == "prioritize" or reply["Error"] == "netgang: malformed request: Pod.spec: bad quantity"
    assert service.counted("requests_total", verb=verb, outcome="malformed") == 1
    assert (await service.get("/readyz")).status_code == 200


@pytest.mark.parametrize("verb", VERBS)
async def test_too_large(verb: str) -> None:
    """Refused unread by its declared length, else read up to the limit and not beyond; the connection is given up."""
    service = Service(max_body_bytes=100)
    unread = iter([b"x" * 60, b"x" * 60, b"x" * 60])
    for sent in (
        await call(service.app, verb, [b"{}"], headers=[(b"content-length", b"101")]),
        await call(service.app, verb, unread),
    ):
        assert nothing_passes(verb, json.loads(sent[1]["body"]))
        assert (b"connection", b"close") in sent[0]["headers"]
    assert len(list(unread)) == 1


async def test_a_body_in_pieces_is_put_together() -> None:
    body = json.dumps(BINDING).encode()
    service = Service(max_body_bytes=len(body))
    assert await service.post("bind", body) == {"Error": ""}
    sent = await call(service.app, "bind", [body[i : i + 7] for i in range(0, len(body), 7)])
    assert json.loads(sent[1]["body"]) == {"Error": ""}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_caller_that_hangs_up_early_gets_nothing(verb: str) -> None:
    service = Service()
    assert not [sent for sent in await call(service.app, verb, []) if sent.get("body")]
    assert [*service.verbs.filtered, *service.verbs.prioritized, *service.verbs.bound] == []
    assert service.counted("requests_total", verb=verb, outcome="gone") == 1


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
async def test_other_methods(verb: str, method: str) -> None:
    async with Service().client() as client:
        reply = await client.request(method, f"/{verb}")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.looptime
@pytest.mark.parametrize("verb", VERBS)
async def test_a_bug_passes_nothing_and_is_seen_at_both_ports(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(FakeVerbs(fail, fail, fail))
    people = service.for_people()
    with caplog.at_level(logging.ERROR):
        reply = await service.post(verb, BODIES[verb])
    assert nothing_passes(verb, reply)
    assert "secret" not in json.dumps(reply)
    assert verb == "prioritize" or reply["Error"] == INTERNAL_ERROR
    assert "secret" in caplog.text
    assert service.counted("internal_errors_total", place=verb) == 1
    assert service.counted("requests_total", verb=verb, outcome="internal") == 1
    assert [(await one.get("/readyz")).status_code for one in (service, people)] == [503, 503]
    await asyncio.sleep(UNREADY_AFTER_ERROR_S)
    assert (await service.get("/readyz")).status_code == 200
    await people.post("filter", ARGS)
    assert [(await one.get("/readyz")).status_code for one in (service, people)] == [503, 503]


WRONG_ANSWERS: dict[str, tuple[str, FakeVerbs]] = {
    "a node that was not asked": ("filter", FakeVerbs(on_filter=lambda _: Passed([NodeName("n9")]))),
    "no answer": ("filter", FakeVerbs(on_filter=lambda _: None)),  # type: ignore[arg-type, return-value]
    "too few scores": ("prioritize", FakeVerbs(on_prioritize=lambda _: [1])),
    "a score above the limit": ("prioritize", FakeVerbs(on_prioritize=lambda _: [1, 2, 11])),
}


@pytest.mark.parametrize(("verb", "verbs"), WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
async def test_an_impossible_answer_is_a_bug(verb: str, verbs: FakeVerbs) -> None:
    """What kube-scheduler would misread is never sent."""
    service = Service(verbs)
    assert nothing_passes(verb, await service.post(verb, ARGS))
    assert service.counted("internal_errors_total", place=verb) == 1


def plain(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


async def test_probes_documents_and_metrics_with_the_calls_made_so_far() -> None:
    reply = await Service(views=FakeViews(not_ready=("pods are not listed yet",))).get("/readyz")
    assert (reply.status_code, reply.json()["reasons"]) == (503, ["pods are not listed yet"])
    service = Service()
    await service.post("filter", ARGS)
    alive = await service.get("/healthz")
    assert (alive.status_code, alive.text) == (200, "ok\n")
    reply = await service.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    assert 'netgang_requests_total{outcome="passed",verb="filter"} 1.0' in reply.text
    shown = {
        "/readyz": service.views.readiness(),
        "/v1/plan": service.views.plan(),
        "/v1/network": service.views.network(),
        "/v1/network/n1/n2": await service.views.link("n1", "n2"),
    }
    for path, document in shown.items():
        assert (await service.get(path)).json() == plain(document)


PROBLEMS = {  # case: (status, path)
    "unknown gang": (404, "/v1/explain/team-a/nobody"),
    "unknown node": (404, "/v1/network/n1/mars"),
    "a name that cannot be one": (400, "/v1/explain/Team_A/nobody"),
    "a very long name": (400, "/v1/explain/team-a/" + "a" * 254),
    "unknown document": (404, "/v1/nothing"),
    "unknown page": (404, "/filter/"),
}


@pytest.mark.parametrize(("status", "path"), PROBLEMS.values(), ids=PROBLEMS)
async def test_problem_documents(status: int, path: str) -> None:
    reply = await Service().get(path)
    assert (status, "application/problem+json") == (reply.status_code, reply.headers["content-type"])
    assert reply.json()["status"] == status


async def test_a_gang_may_be_called_as_no_object_is() -> None:
    for name in ("ResNet_50.v2", "exp/7_B", "a b", "50%", "..", "ünïcode", "q?x=1#y", "a//b/", "-n", "_x", "x" * 253):
        reply = await Service().get(path_of("v1", "explain", "team-a", name))
        assert (reply.status_code, reply.json()["detail"]) == (404, f"no gang team-a/{name}")


async def test_no_site_reads_documents_through_its_readers_port_forward() -> None:
    """Under its own name, which it leads to the loopback. The verbs ask for none: kube-scheduler may use any."""
    for at, host, status in (
        ("127.0.0.1", "127.0.0.1:8889", 200),
        ("[::1]", "netgang.netgang-system.svc:8889", 200),
        ("127.0.0.1", "site.example:8889", 421),
        ("10.0.0.7", "api.site.example", 200),  # by the API server's proxy
    ):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(Service().app), base_url=f"http://{at}") as door:
            assert (await door.get("/v1/plan", headers={"Host": host})).status_code == status
            assert (await door.post("/filter", json=ARGS, headers={"Host": host})).status_code == 200


async def test_a_bug_in_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeViews, "plan", fail)
    service = Service()
    reply = await service.get("/v1/plan")
    assert (reply.status_code, reply.headers["content-type"]) == (503, "application/problem+json")
    assert "secret" not in reply.text
    assert service.counted("internal_errors_total", place="document") == 1
    assert (await service.get("/readyz")).status_code == 503
