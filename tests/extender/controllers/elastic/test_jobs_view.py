"""What /v1/jobs, `netgang jobs` and Prometheus say of jobs that report and are resized, by the whole service."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from extender.errors import ConfigError
from extender.settings.settings import Settings
from tests.cli.world import Told, refused, shown
from tests.extender.controllers.elastic.cluster import Site, full, site
from tests.extender.controllers.elastic.reporting import TOKEN, TRAINER
from tests.extender.scheduling.world import unfinished

pytestmark = pytest.mark.looptime
LOSS = {"netgang.io/min-workers": "2", "netgang.io/max-workers": "6", "netgang.io/scaling": "loss"}
METRICS = {"every_steps": 50, "min_interval_s": 0.0, "reversal_steps": 0, "workers_step": 2, "settle_steps": 0}


async def tell(here: Site, job: str, losses: list[float], *, first: int = 0) -> httpx.Response:
    here.api.reviews.owners = TRAINER
    app = here.world.service.reports_app
    assert app is not None
    now_s = here.world.clock.now_s()
    points = [{"step": first + i, "loss": loss, "time": now_s} for i, loss in enumerate(losses)]
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://netgang") as client:
        return await client.post(f"/v1/jobs/default/{job}/metrics", json=points, headers=headers)


async def test_a_running_job() -> None:
    async with site(nodes=2) as here:
        await here.runs("low", 6, least=2, annotations={"netgang.io/max-workers": "7"})
        await here.world.settle(2.0)
        document = (await here.world.get("/v1/jobs")).json()
        assert (document["counts"], document["of"]) == ({"RUNNING": 1}, 1)
        [low] = document["jobs"]
        words = {"job": "default/low", "kind": "Job.batch", "state": "RUNNING", "gang": "default/low"}
        assert (words | dict.fromkeys(("refusal", "reported", "last_change"))).items() <= low.items()
        assert {"now": 6, "min": 2, "max": 7}.items() <= low["workers"].items()
        assert (sum(low["placement"]["nodes"].values()), low["placement"]["zones"]) == (6, ["a"])
        assert low["weight"]["omega"] > 0.5
        assert 0.0 < low["network"] <= 100.0
        assert low["metrics"]["policy"] == "curve"
        full = (await here.world.get("/v1/jobs/default/low")).json()
        assert low.items() <= full.items()
        assert len(full["pods"]) == 6
        assert (full["changes"], full["points"]) == ([], {"kept": 0, "last": []})
        await here.until("it has grown", lambda: here.workers("low") == 7)
        [change] = (await here.world.get("/v1/jobs/default/low")).json()["changes"]
        assert (change["who"], change["why"]) == ("queue", "there is idle room")


async def test_the_history_of_a_change() -> None:
    async with full() as here:
        await here.gives_way()
        await here.world.settle(1.0)
        [change] = (await here.world.get("/v1/jobs/default/low")).json()["changes"]
        assert (change["before"], change["after"], change["who"], change["for"]) == (6, 3, "queue", "default/heavy")
        assert change["why"] == "room for default/heavy"
        assert (change["stage"], change["took_s"], change["lost_pod_s"]) == ("removing", None, None)
        await here.heavy_runs()
        await here.world.settle(3.0)
        [change] = (await here.world.get("/v1/jobs/default/low")).json()["changes"]
        assert (change["stage"], change["lost_pod_s"]) == ("done", pytest.approx(3 * change["took_s"]))
        assert change["decided_s"] < change["gone_s"] <= change["ended_s"]
        assert here.world.counted("resizes_total", kind="Job.batch", direction="in", outcome="done") == 1.0


async def test_reports_become_a_wish_and_the_wish_workers() -> None:
    async with site(reports={"port": 0}, elastic={"metrics": METRICS}) as here:
        await here.runs("low", 2, least=2, annotations=LOSS)
        await here.world.settle(2.0)
        assert (await tell(here, "low", [2.0 - i / 50 for i in range(51)])).json() == {"accepted": 51, "step": 50}
        await here.until_quiet_is_over()
        await here.until("low has grown", lambda: here.on_nodes("low") == [0, 1, 2, 3], limit_s=20.0)
        await here.world.settle(5.0)
        low = (await here.world.get("/v1/jobs/default/low")).json()
        assert (low["metrics"]["policy"], low["metrics"]["workers"]) == ("loss", 4)
        assert low["metrics"]["reason"]
        assert (low["reported"]["step"], low["reported"]["loss"], low["reported"]["workers"]) == (50, 1.0, 2)
        assert low["points"]["kept"] == 51
        assert [point["step"] for point in low["points"]["last"]] == list(range(31, 51))
        [change] = low["changes"]
        assert (change["who"], change["before"], change["after"]) == ("metrics", 2, 4)
        assert here.workers("low") == 4, "its wish is no wish for the maximum"
        assert here.world.counted("reports_total", outcome="accepted") == 1.0


ASKED = {  # case: (path, status)
    "no such job": ("/v1/jobs/default/none", 404),
    "another kind": ("/v1/jobs/default/low?kind=TFJob", 404),
    "its kind": ("/v1/jobs/default/low?kind=job", 200),
    "no name of Kubernetes": ("/v1/jobs/default/Low", 400),
    "a limit of none": ("/v1/jobs?limit=0", 400),
    "a namespace without jobs": ("/v1/jobs?namespace=other", 200),
}


@pytest.mark.parametrize(("path", "status"), ASKED.values(), ids=ASKED)
async def test_addresses_of_jobs(path: str, status: int) -> None:
    async with site() as here:
        here.create("low", 2, least=2)
        await here.world.settle(2.0)
        answer = await here.world.get(path)
        assert answer.status_code == status, answer.text
        if "namespace" in path:
            assert (answer.json()["jobs"], answer.json()["of"]) == ([], 0)


async def test_without_elastic_jobs_the_address_says_so() -> None:
    async with unfinished() as world:
        for path in ("/v1/jobs", "/v1/jobs/default/low"):
            answer = await world.get(path)
            assert (answer.status_code, "elastic.enabled" in answer.json()["detail"]) == (404, True)
        assert world.service.reports_app is None


def lines(*arguments: str, told: Told) -> list[str]:
    """What `netgang jobs` prints, in a thread without an event loop, as a process begins."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(shown, "jobs", *arguments, told=told).result()


async def documents() -> list[Any]:
    """All jobs, one of them, and the first alone, of a service in which a job has reported and was shrunk."""
    async with site(reports={"port": 0}) as here:
        await here.runs("low", 6, least=2)
        await here.world.settle(2.0)
        assert (await tell(here, "low", [0.5])).status_code == 200
        await here.until_quiet_is_over()
        await here.runs("heavy", 5, least=5)
        await here.world.settle(3.0)
        paths = ("/v1/jobs", "/v1/jobs/default/low", "/v1/jobs?limit=1")
        return [(await here.world.get(path)).json() for path in paths]


async def test_for_people_and_for_machines() -> None:
    everything, low, first = await documents()
    told = {"/v1/jobs/default/low": low, "/v1/jobs?limit=1000": everything}
    table = lines(told=told)
    assert any(line.startswith("default/low ") and " RUNNING 3 2 6 " in line for line in table)
    assert any(line.startswith("default/heavy ") and " RUNNING 5 5 5 " in line for line in table)
    assert table[-1] == "2 RUNNING"
    wide = lines("-o", "wide", told=told)
    assert "STEP LOSS SAMPLES/S REPORTED" in wide[0]
    assert any(line.startswith("default/low ") and " 0 0.5 " in line for line in wide)
    one = lines("default/low", told=told)
    assert any(" 6 → 3 queue done " in line and line.endswith("room for default/heavy") for line in one)
    assert json.loads("".join(lines("--json", told=told))) == everything
    assert json.loads("".join(lines("default/low", "--json", told=told))) == low
    assert [job["job"] for job in first["jobs"]] == ["default/heavy"]
    assert lines(told={"/v1/jobs?limit=1000": first})[-1] == "1 RUNNING; 1 of 2 jobs; see --namespace"


def test_no_jobs_are_no_table() -> None:
    none = {"at_s": 0, "counts": {}, "first_waiting": {"gang": None, "reason": None, "detail": ""}, "jobs": [], "of": 0}
    told = {f"/v1/jobs?limit=1000{only}": none for only in ("", "&namespace=a")}
    assert lines(told=told) == ["no jobs of kinds that netgang resizes"]
    assert "known in namespace a; namespaces with jobs: none" in refused("jobs", "-n", "a", told=told)


DOORS: dict[str, tuple[dict[str, Any], str]] = {
    "a probe without its port": ({"probe": {"enabled": True}}, "probe.enabled needs reports.port"),
    "a port that is taken": ({"reports": {"port": 8888}}, "must differ from port"),
    "a saved cluster": ({"reports": {"port": 1}, "snapshot": "c.json"}, "reports.port needs a live cluster"),
    "tokens for nobody": ({"reports": {"port": 1, "audiences": ["netgang", ""]}}, "at least 1 character"),
    "readable tokens at the host of the verbs": ({"reports": {"port": 1}, "host": "0.0.0.0"}, "cross the network"),
}


@pytest.mark.parametrize(("settings", "said"), DOORS.values(), ids=DOORS)
def test_a_door_that_would_stand_open_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings().changed({"elastic": {"enabled": True}, **settings})


def test_a_door_that_is_guarded_is_accepted() -> None:
    tls = {"cert_file": "a.crt", "key_file": "a.key"}
    given = {"host": "0.0.0.0", "tls": tls, "elastic": {"enabled": True}, "reports": {"port": 8891}}
    assert Settings().changed(given).reports.port == 8891
