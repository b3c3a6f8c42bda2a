"""Taking reports: of jobs that there are, in ascending steps, not too many; and who may send them."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from extender.api.auth import Reporters
from extender.api.reports import create_reports_app, reports_door
from extender.controllers.elastic.records import JobView, Records
from extender.controllers.elastic.reports import Rates, Reports
from extender.runtime.telemetry import Telemetry
from scoring.scaling.job import MetricOptions
from tests.extender.controllers.elastic.reporting import PATH as RESNET
from tests.extender.controllers.elastic.reporting import job_key, view
from tests.fakes.clock import FakeClock
from tests.fakes.reviews import FakeReviews

TEAM = {"authorization": "Bearer team-token"}
OWNERS = {
    "team-token": "system:serviceaccount:team:trainer",
    "other-token": "system:serviceaccount:other:trainer",
    "teams-token": "system:serviceaccount:teams:trainer",
    "ann-token": "ann",
    "odd-token": "system:serviceaccount:team:",
    "netgang-token": "system:serviceaccount:team:trainer",
    "vault-token": "system:serviceaccount:team:trainer",
}
AUDIENCES = {"netgang-token": "netgang", "vault-token": "vault"}


class Port:
    def __init__(
        self, *jobs: JobView, rates: Rates = Rates(), audiences: tuple[str, ...] = (), body_timeout_s: float = 5.0
    ) -> None:
        self.clock = FakeClock()
        self.jobs = {one.job.key: one for one in jobs or (view("resnet"),)}
        records = Records(Telemetry())
        records.views = self.jobs
        self.reports = Reports(records, MetricOptions(), self.clock, rates=rates)
        self.reviews = FakeReviews(owners=OWNERS, audiences=AUDIENCES)
        self.leads = True
        self.counted: list[str] = []
        app = create_reports_app(self.reports, acting=lambda: self.leads, body_timeout_s=body_timeout_s)
        reporters = Reporters(self.reviews, audiences)
        telemetry = Telemetry()
        telemetry.reported = telemetry.probe_reported = self.counted.append
        self.door = reports_door(app, reporters, self.clock, telemetry)

    async def send(
        self, document: Any, path: str = RESNET, *, headers: Mapping[str, str] = TEAM, method: str = "POST"
    ) -> httpx.Response:
        body = document if isinstance(document, bytes | AsyncIterator) else json.dumps(document).encode()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.door), base_url="http://netgang") as client:
            return await client.request(method, path, content=body, headers=headers)

    async def statuses(self, *steps: int, **more: Any) -> list[int]:
        return [(await self.send(point(step), **more)).status_code for step in steps]

    def kept(self, **key: str) -> list[int]:
        return [one.step for one in self.reports.points(job_key("resnet", **key), "uid-1")]


def point(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "loss": 1.0, **more}


async def test_a_report_is_kept_with_the_workers_of_the_moment() -> None:
    port = Port()
    answer = await port.send({"points": [point(1, time=port.clock.now_s()), point(2, time=port.clock.now_s())]})
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2, "step": 2})
    assert [(one.step, one.workers) for one in port.reports.points(job_key("resnet"), "uid-1")] == [(1, 3), (2, 3)]
    assert port.counted == ["accepted"]


async def test_a_bad_value_is_400_and_names_the_field() -> None:
    port = Port()
    body = b'[{"step": 1, "loss": 1, "time": 1700000000}, {"step": 2, "loss": NaN, "time": 1700000000}]'
    answer = await port.send(body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith("points[1].loss: must be a number")
    assert (port.kept(), port.counted) == ([], ["bad report"])


async def test_steps_go_back_only_after_a_restart() -> None:
    port = Port()
    assert await port.statuses(10, 20, 30) == [200, 200, 200]
    answer = await port.send(point(20))
    assert (answer.status_code, port.kept()) == (409, [10, 20, 30])
    assert "points[0].step: 20 is not above 30" in answer.json()["detail"]
    assert (await port.send(point(20, restarted=True))).status_code == 200
    assert port.kept() == [10, 20]
    assert (await port.send(point(0, restarted=True))).status_code == 200
    assert port.kept() == [0]


UNKNOWN = {  # case: (path, status)
    "no such job": ("/v1/jobs/team/vgg/metrics", 404),
    "no name": ("/v1/jobs/team//metrics", 404),
    "no name of Kubernetes": ("/v1/jobs/team/ResNet/metrics", 400),
    "another kind": (f"{RESNET}?kind=PyTorchJob", 404),
    "its kind": (f"{RESNET}?kind=tfjob", 200),
    "its kind with the group": (f"{RESNET}?kind=TFJob.kubeflow.org", 200),
    "a document of people": ("/v1/jobs/team/resnet", 404),
    "a verb": ("/bind", 403),
    "another method": ("GET " + RESNET, 405),
}


@pytest.mark.parametrize(("path", "status"), UNKNOWN.values(), ids=UNKNOWN)
async def test_nothing_else_is_at_this_port(path: str, status: int) -> None:
    port = Port()
    method, _, path = path.rpartition(" ")
    answer = await port.send(point(1), path, method=method or "POST")
    assert answer.status_code == status
    assert status == 200 or answer.json()["status"] == status


async def test_two_jobs_of_one_name_must_be_told_apart() -> None:
    port = Port(view("resnet"), view("resnet", kind="Job.batch"))
    answer = await port.send(point(1))
    assert (answer.status_code, "Job.batch, TFJob.kubeflow.org" in answer.json()["detail"]) == (409, True)
    assert (await port.send(point(1), f"{RESNET}?kind=job")).status_code == 200
    assert (port.kept(kind="Job.batch"), port.kept()) == ([1], [])


CALLERS = {  # case: (token, audiences asked for, status); who shows none is in tests/extender/api/test_auth.py
    "another namespace": ("other-token", (), 403),
    "a namespace that begins alike": ("teams-token", (), 403),
    "a person": ("ann-token", (), 403),
    "an account without a name": ("odd-token", (), 403),
    "an account of the namespace": ("team-token", (), 200),
    "one for us that nobody asks for": ("netgang-token", (), 401),
    "one for us": ("netgang-token", ("netgang",), 200),
    "one for us or others": ("netgang-token", ("vault", "netgang"), 200),
    "a pod's own where one for us is asked for": ("team-token", ("netgang",), 401),
    "one for somebody else": ("vault-token", ("netgang",), 401),
}


@pytest.mark.parametrize(("token", "audiences", "status"), CALLERS.values(), ids=CALLERS)
async def test_a_pod_reports_for_its_own_namespace(token: str, audiences: tuple[str, ...], status: int) -> None:
    """Its token is by default for the API server, as a pod's own is; else for one whom the settings name."""
    port = Port(audiences=audiences)
    answer = await port.send(point(1), headers={"authorization": f"Bearer {token}"})
    assert (answer.status_code, port.kept()) == (status, [1] if status == 200 else [])
    assert port.counted == [{200: "accepted", 401: "no token", 403: "other namespace"}[status]]
    assert status != 403 or "let a pod of the job's namespace report" in answer.json()["detail"]


async def test_a_name_cannot_lead_into_another_namespace() -> None:
    port = Port(view("resnet"), view("resnet", namespace="other"))
    for path in ("/v1/jobs/team/..%2F..%2Fother%2Fresnet/metrics", "/v1/jobs/team%2F..%2Fother/resnet/metrics"):
        assert (await port.send(point(1), path)).status_code in (400, 403, 404)
    assert (port.kept(), port.kept(namespace="other")) == ([], [])


async def test_too_many_reports_of_a_job_are_429() -> None:
    port = Port(view("resnet"), view("vgg"))
    assert await port.statuses(*range(21)) == [200] * 20 + [429]
    answer = await port.send(point(30))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert await port.statuses(1, path="/v1/jobs/team/vgg/metrics") == [200]
    port.clock.advance(0.5)
    assert await port.statuses(40, 41) == [200, 429]


@pytest.mark.parametrize(("share", "accepted"), [(1.0, 20), (0.5, 10)], ids=["in all", "of one namespace"])
async def test_all_jobs_together_have_a_bound_too(share: float, accepted: int) -> None:
    """So that a thousand jobs cannot keep the scheduler from its work, nor a namespace use up what others need."""
    rates = Rates(per_job=1.0, in_all=2.0, namespace_share=share)
    port = Port(*(view(f"j{i}") for i in range(30)), view("quiet", namespace="other"), rates=rates)
    answers = [await port.statuses(1, path=f"/v1/jobs/team/j{i}/metrics") for i in range(30)]
    assert answers == [[200]] * accepted + [[429]] * (30 - accepted)
    other = {"authorization": "Bearer other-token"}
    quiet = await port.statuses(1, path="/v1/jobs/other/quiet/metrics", headers=other)
    assert quiet == ([200] if share < 1.0 else [429])
    port.clock.advance(1.0)
    assert await port.statuses(1, path="/v1/jobs/team/j20/metrics") == [200]


async def test_a_body_has_a_largest_size() -> None:
    port = Port()
    answer = await port.send(b" " * 65537)
    assert (answer.status_code, answer.headers["connection"], port.counted) == (413, "close", ["too large"])
    assert "larger than 65536 bytes" in answer.json()["detail"]


async def begun() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    assert (await Port(body_timeout_s=0.01).send(begun())).status_code == 408
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    scope = {"type": "http", "method": "POST", "path": RESNET, "raw_path": RESNET.encode(), "query_string": b""}
    send = AsyncMock()
    await Port().door(
        scope | {"headers": [(b"authorization", b"Bearer team-token")]}, AsyncMock(side_effect=messages), send
    )
    assert send.call_args_list[0].args[0]["status"] == 400


async def test_a_standby_keeps_nothing() -> None:
    port = Port()
    port.leads = False
    answer = await port.send(point(1))
    assert (answer.status_code, answer.headers["retry-after"], port.kept()) == (503, "1", [])
    port.leads = True
    assert await port.statuses(5) == [200]
    port.reports.reset()
    assert (port.kept(), await port.statuses(1)) == ([], [200])


async def test_jobs_that_are_gone_are_forgotten() -> None:
    port = Port(view("resnet"), view("vgg"))
    assert await port.statuses(1) == [200]
    assert await port.statuses(1, path="/v1/jobs/team/vgg/metrics") == [200]
    gone = port.jobs.pop(job_key("resnet"))
    port.reports.tidy()
    assert (port.kept(), len(port.reports.points(job_key("vgg"), "uid-1"))) == ([], 1)
    port.jobs[gone.job.key] = gone
    assert await port.statuses(*range(20)) == [200] * 20
