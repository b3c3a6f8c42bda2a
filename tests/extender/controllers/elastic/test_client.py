"""`netgang_report`: what it sends, how it reaches the port for reports, and that training never notices a fault."""

import ast
import asyncio
import logging
import os
import shutil
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen, run
from typing import Any

import httpx
import pytest

from extender.bootstrap.serve import configs
from extender.ports import SystemClock
from extender.settings.settings import Settings
from netgang_report import Reporter
from tests.extender.conftest import Certificates
from tests.extender.controllers.elastic.cluster import Site, site
from tests.extender.controllers.elastic.reporting import PATH, TOKEN, TRAINER, Sink
from tests.extender.scheduling import world
from tests.extender.server.served import listening
from tests.fakes.clock import LoopClock
from tests.fakes.raw_http import CERTIFICATE, Answer, RawServer, drip, hang, ok, reset
from tests.liveness import LIVENESS_S

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "report/netgang_report"


@pytest.fixture
def client(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reporter]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens there: a proxy must not be asked
    reporter = Reporter()
    yield reporter
    reporter.flush(10.0)
    for thread in senders():
        thread.join(10.0)
    assert senders() == []


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "netgang-report"]


def sent(client: Reporter, step: int) -> bool:
    client.report(step=step, loss=1.0)
    return client.flush()


def test_a_report_is_sent(client: Reporter, sink: Sink) -> None:
    client.report(step=7, loss=0.5, samples_per_second=100, compute_ratio=None, workers=3)
    client.flush()
    [(path, authorization, document)] = sink.got
    assert (path, authorization, document["restarted"]) == (PATH, "Bearer sesame", True)
    [point] = document["points"]
    assert point.pop("time") > 1_700_000_000.0
    assert point == {"step": 7, "loss": 0.5, "samples_per_second": 100.0, "workers": 3.0}


def test_many_reports_are_few_requests(sink: Sink) -> None:
    client = Reporter(interval_s=LIVENESS_S)  # so that `flush` alone ends the pause, whatever the machine's speed
    for step in range(100):
        assert client.report(step=step, loss=1.0)
    assert client.flush()
    assert sent(client, 100)
    assert [step for steps in sink.steps() for step in steps] == list(range(101))
    assert 2 <= len(sink.got) <= 4
    assert [document["restarted"] for _, _, document in sink.got] == [True] + [False] * (len(sink.got) - 1)


def test_several_threads_may_report(client: Reporter, sink: Sink) -> None:
    def train(first: int) -> None:
        for step in range(first, first + 50):
            client.report(step=step, loss=1.0)
            assert len(senders()) <= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(train, (0, 50, 100, 150)))
    client.flush()
    assert sorted(step for steps in sink.steps() for step in steps) == list(range(200))


def test_a_report_that_was_refused_was_not_the_first(client: Reporter, sink: Sink) -> None:
    sink.status = 503
    assert sent(client, 1) is False
    sink.status = 200
    assert sent(client, 2)
    assert [document["restarted"] for _, _, document in sink.got] == [True, True]
    assert sink.steps() == [[1], [2]]


class NoNumber:
    """What a framework may hand over by mistake."""

    def __float__(self) -> float:
        raise RuntimeError("a tensor of many elements")


ODD = {
    "a text": {"step": 1, "loss": "low"},
    "no number": {"step": 1, "loss": NoNumber()},
    "no step": {"step": None, "loss": 1.0},
    "not a number": {"step": 1, "loss": float("nan")},
    "infinite": {"step": 1, "loss": 1.0, "samples_per_second": float("inf")},
    "an infinite step": {"step": float("inf"), "loss": 1.0},
    "no loss": {"step": 1, "loss": None},
}


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
def test_odd_values_stop_nothing(client: Reporter, sink: Sink, values: dict[str, Any]) -> None:
    assert client.report(**values) is False
    assert sent(client, 2)
    assert [step for steps in sink.steps() for step in steps][-1] == 2


def test_without_an_address_nothing_happens(client: Reporter, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    for change in (partial(monkeypatch.setenv, value=""), monkeypatch.delenv):
        change("NETGANG_REPORT_URL")
        assert (client.report(step=1, loss=1.0), senders()) == (False, [])
        client.flush()
    monkeypatch.setenv("NETGANG_REPORT_URL", sink.url)
    sent(client, 2)
    assert sink.steps() == [[2]]


FAULTS: dict[str, Answer | str] = {
    "nobody listens": "http://127.0.0.1:9/",
    "no address": "resnet",
    "another scheme": "file:///etc/hostname",
    "a reset": reset,
    "silence": hang,
    "an answer that never ends": drip,
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "a server's error": ok(b"", status=500),
    "a refusal": ok(b'{"detail": "no"}', status=403),
    "a redirect": b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_no_fault_reaches_training(
    client: Reporter, sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Answer | str
) -> None:
    callers: set[str] = set()
    connect = socket.socket.connect

    def noted(own: socket.socket, address: Any) -> None:
        callers.add(threading.current_thread().name)
        connect(own, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    with RawServer({PATH: fault} if not isinstance(fault, str) else {}) as server:
        monkeypatch.setenv("NETGANG_REPORT_URL", fault if isinstance(fault, str) else f"{server.url}{PATH}")
        with caplog.at_level(logging.WARNING):
            for step in range(1000):
                client.report(step=step, loss=1.0)
                assert len(senders()) <= 1
            assert callers <= {"netgang-report"}
            client.flush(0.05)
        assert all(request.startswith(f"POST {PATH} ") for request in server.requests)
    monkeypatch.setenv("NETGANG_REPORT_URL", sink.url)
    client.flush()
    assert sum(map(len, sink.steps())) <= 256


def test_a_token_that_is_missing_stops_nothing(client: Reporter, sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        file = Path(os.environ["NETGANG_TOKEN_FILE"])
        file.unlink()
        sent(client, 1)
        client.flush()
        assert sink.got == []
        assert "FileNotFoundError" in caplog.text
        file.write_text("open")
        sent(client, 2)
    assert [authorization for _, authorization, _ in sink.got] == ["Bearer open"]


@pytest.mark.parametrize("trusted", [True, False], ids=["with its authority", "without"])
def test_a_server_must_show_a_certificate_that_is_trusted(
    client: Reporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trusted: bool
) -> None:
    with RawServer({PATH: ok(b"{}")}, tls=True) as server, caplog.at_level(logging.WARNING):
        monkeypatch.setenv("NETGANG_REPORT_URL", f"{server.url}{PATH}")
        if trusted:
            monkeypatch.setenv("NETGANG_CA_FILE", str(CERTIFICATE))
        sent(client, 1)
        client.flush()
    assert (len(server.requests), "CERTIFICATE_VERIFY_FAILED" in caplog.text) == ((1, False) if trusted else (0, True))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_end_of_a_process_is_not_held_up(tmp_path: Path, scheme: str) -> None:
    """Ten times, since a thread that was in OpenSSL when the process ended crashed one end in six."""
    (tmp_path / "token").write_text("sesame")
    program = "import netgang_report as it\nfor step in range(50): it.report(step=step, loss=1.0)\nprint('trained')"
    with RawServer({PATH: hang}) as server:
        url = f"{scheme}{server.url.removeprefix('http')}{PATH}"
        environment = {"NETGANG_REPORT_URL": url, "NETGANG_TOKEN_FILE": str(tmp_path / "token")}
        programs = [
            Popen([sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=PIPE, stderr=PIPE, text=True)
            for _ in range(10)
        ]
        ended = [(*one.communicate(timeout=LIVENESS_S), one.returncode) for one in programs]
    assert ended == [("trained\n", "", 0)] * 10


def test_one_warning_a_minute(client: Reporter, sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    sink.status = 503
    for step in range(5):
        sent(client, step)
        client.report(step=step, loss="low")  # type: ignore[arg-type]
    assert len(sink.got) == 5
    assert [(one.name, "503" in one.getMessage()) for one in caplog.records] == [("netgang_report", True)]


def test_arguments_come_before_the_environment(sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").write_text("open")
    monkeypatch.setenv("NETGANG_REPORT_URL", "http://127.0.0.1:9/")
    client = Reporter(sink.url, token_file=str(tmp_path / "other"))
    assert sent(client, 1)
    assert [authorization for _, authorization, _ in sink.got] == ["Bearer open"]


def answer_at_the_end(connection: socket.socket, stopping: threading.Event) -> None:
    hang(connection, stopping)
    connection.sendall(ok(b"{}"))


def test_a_process_that_forked_reports_for_itself(client: Reporter, sink: Sink) -> None:
    """A data loader's process has neither the thread that sends nor what its parent had still to send."""
    with RawServer({PATH: answer_at_the_end}) as server:
        busy = Reporter(f"{server.url}{PATH}")
        busy.report(step=1, loss=1.0)
        child = os.fork()
        if child == 0:
            os._exit(0 if busy.flush(0.0) and client.report(step=2, loss=1.0) and client.flush(LIVENESS_S) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sink.steps() == [[2]]
        busy.flush(0.0)
    for thread in senders():
        thread.join(LIVENESS_S)


@pytest.mark.parametrize("file", sorted(PACKAGE.glob("*.py")), ids=lambda file: file.name)
def test_the_package_needs_nothing_but_python_3_8(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for one in ast.walk(tree)
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in ([one.module or ""] if isinstance(one, ast.ImportFrom) else [alias.name for alias in one.names])
    }
    assert imported <= sys.stdlib_module_names | {"netgang_report"}


def test_it_runs_on_the_oldest_python(sink: Sink) -> None:
    """`ast` knows the grammar alone: what the library of 3.8 lacks is found by running it, where there is one."""
    program = "import netgang_report as c; s = c.StepReporter(batch_size=1, every=1); s.step(0.5); s.close()"
    names = ("NETGANG_REPORT_URL", "NETGANG_TOKEN_FILE")
    environment = {"PYTHONPATH": str(PACKAGE.parent), **{name: os.environ[name] for name in names}}
    oldest = python_3_8()
    done = run([oldest, "-c", program], env=environment, capture_output=True, text=True, timeout=LIVENESS_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sink.steps() == [[1]]


def python_3_8() -> str:
    """On PATH, or as pyenv has it (whose shim of that name may lead nowhere); a loud skip without any."""
    for found in (*sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python3.8")), shutil.which("python3.8")):
        if found and run([found, "--version"], capture_output=True).returncode == 0:
            return str(found)
    pytest.skip("no Python 3.8: that netgang-report runs on it is NOT checked")


@asynccontextmanager
async def served(here: Site, reports: dict[str, Any]) -> AsyncIterator[str]:
    """The service's port for reports on the loopback, as `netgang serve` has it; its address."""
    settings = Settings().changed({"elastic": {"enabled": True}, "reports": reports})
    config = dict(configs(settings, here.world.service))["reports.port"]
    async with listening(config, setting="reports") as server:
        yield server.url


async def test_a_pod_reports_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(world, "LoopClock", lambda: LoopClock(SystemClock().now_s() - loop.time()))
    pair = certificates.ours.server().into(tmp_path)
    tls = {"cert_file": pair.cert, "key_file": pair.key, "client_ca_file": certificates.ours.cert}
    reports = {"port": 0}
    (tmp_path / "token").write_text(TOKEN)
    async with site(reports=reports, tls=tls, health_port=0) as here, served(here, reports) as url:
        assert url.startswith("https://")
        here.api.reviews.owners = TRAINER
        here.create("train", 2, least=2)
        async with asyncio.timeout(LIVENESS_S):
            while (await here.world.get("/v1/jobs/default/train")).status_code != 200:
                await here.world.settle(0.05)
        path, token, authority = f"{url}/v1/jobs/default/train/metrics", tmp_path / "token", certificates.ours.cert
        reporter = Reporter(path, token_file=str(token), ca_file=str(authority))
        for step in range(30):
            reporter.report(step=step, loss=1.0, compute_ratio=step / 30)
        assert await asyncio.to_thread(reporter.flush, LIVENESS_S)
        told = (await here.world.get("/v1/jobs/default/train")).json()
        last = told["reported"]
        assert (told["points"]["kept"], last["step"], last["compute_ratio"]) == (30, 29, 29 / 30)
        context = ssl.create_default_context(cafile=str(certificates.ours.cert))
        shown = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=url, verify=context, trust_env=False, headers=shown) as client:
            assert [(await client.post(verb, json={})).status_code for verb in ("/filter", "/bind")] == [403, 403]
