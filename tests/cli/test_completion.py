"""What a shell offers at TAB, by the protocol of each shell, from the demonstration as it is served."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from cli import kubectl
from cli.main import app
from tests.cli.world import CLUSTER, served
from tests.contract.docs.demonstration import demonstration
from tests.extender.server.served import listening
from tests.fakes.api_proxy import ApiProxy
from tests.fakes.raw_http import RawServer, hang, reset


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of README's demonstration, served by a thread of its own."""
    address: list[str] = []
    ready, end = threading.Event(), threading.Event()

    async def serve() -> None:
        async with (
            demonstration() as made,
            listening(uvicorn.Config(made.service.app, port=0, log_config=None)) as server,
        ):
            address.append(server.url)
            ready.set()
            await asyncio.to_thread(end.wait)

    def run() -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    yield address[0]
    end.set()
    thread.join()


def offered(*words: str, url: str | None = None, shell: str = "bash") -> list[str]:
    """The lines that a shell gets when TAB is pressed in the last word; nothing is on standard error."""
    line = ["netgang", *words]
    env = {"_NETGANG_COMPLETE": f"complete_{shell}", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words))}
    env |= {"_TYPER_COMPLETE_ARGS": " ".join(line), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    result = CliRunner().invoke(app, [], env=env | ({"NETGANG_URL": url} if url else {}), prog_name="netgang")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return [one for one in result.stdout.split("\n") if one]


NAMES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    # case: (words, of which the last is typed at; what is offered)
    "a gang": (("explain", ""), ["demo/case1", "demo/tf-smoke-gpu"]),
    "what is typed already": (("explain", "demo/t"), ["demo/tf-smoke-gpu"]),
    "another namespace": (("explain", "team/"), []),
    "a gang of -n": (("explain", "-n", "demo", "c"), ["case1"]),
    "-n itself": (("queue", "-n", ""), ["demo"]),
    "the queue's gangs, each once": (("queue", "demo/case1", "demo/"), ["demo/tf-smoke-gpu"]),
    "two nodes": (("scores", "node28", "node29"), ["node29"]),
    "a zone": (("network", "show", "--zone", ""), ["A", "B", "C", "D"]),
    "a file in netgang's place": (("explain", "--cluster", str(CLUSTER), "demo/"), []),
    "a file's namespaces": (("plan", str(CLUSTER), "-n", ""), []),
    "jobs, which are switched off": (("jobs", ""), []),
}  # fmt: skip


@pytest.mark.parametrize(("words", "wanted"), NAMES.values(), ids=NAMES)
def test_names_of_the_running_netgang_are_offered(words: tuple[str, ...], wanted: list[str], demo: str) -> None:
    assert sorted(offered(*words, url=demo)) == sorted(wanted)


SHELLS = {  # shell → how it is given a gang with its state
    "fish": "demo/tf-smoke-gpu\twaiting",
    "zsh": '"demo/tf-smoke-gpu":"waiting"',
}


@pytest.mark.parametrize(("shell", "line"), SHELLS.items(), ids=SHELLS)
def test_shells_that_show_what_a_name_is(shell: str, line: str, demo: str) -> None:
    assert any(line in one for one in offered("explain", "demo/t", url=demo, shell=shell))


def test_an_address_on_the_line_is_asked(demo: str) -> None:
    assert offered("explain", "--url", demo, "demo/t", url="http://127.0.0.1:1") == ["demo/tf-smoke-gpu"]


def gang(name: str) -> dict[str, object]:
    weight = {"omega_prime": 1.0, "exact": "1", "omega": 1.0, "given": False}
    members = {"min_available": 1, "pending": 1, "running": 0, "succeeded": 0, "failed": 0}
    nothing = (
        "rank",
        "waiting_since_s",
        "waited_s",
        "starves_in_s",
        "running_since_s",
        "zone",
        "network",
        "leaves_for",
    )
    return {
        **dict.fromkeys((*nothing, "code", "reason")),
        **{"gang": name, "queue": "WQ", "state": "WAITING", "priority": 0, "weight": weight, "created_s": 1.0},
        **{"members": members, "admitted": False, "held_nodes": [], "makes_room": [], "detail": ""},
    }


def job(name: str) -> dict[str, object]:
    nothing = ("gang", "weight", "network", "running_network", "refusal", "metrics", "reported", "last_change")
    workers = {"now": 2, "min": 1, "max": 4, "min_from": None}
    return {
        **dict.fromkeys(nothing),
        **{"job": name, "kind": "TFJob.kubeflow.org", "state": "RUNNING", "wish": ""},
        **{"workers": workers, "placement": {"zones": [], "nodes": {}}},
    }


JOBS = {
    "at_s": 1.0, "counts": {}, "of": 2, "first_waiting": {"gang": None, "reason": None, "detail": ""},
    "jobs": [job("a/resnet"), job("b/llama")],
}  # fmt: skip


def test_jobs_are_those_that_may_be_resized() -> None:
    with RawServer({"/v1/jobs?limit=1000": served(JOBS)}) as server:
        assert offered("jobs", "", url=server.url) == ["a/resnet", "b/llama"]


HOSTILE = ("a/$(reboot)", "a/x\ny", "a/x y", "a/\x1b[2J", "-a/x", "a/b/c", "a/`x`", "a/'x", "a/" + "x" * 300)


def test_what_is_no_name_is_not_offered() -> None:
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "shares": [], "gangs": [*map(gang, (*HOSTILE, "a/good"))]}
    with RawServer({"/v1/queue": served(queue), "/v1/queue?namespace=a": served(queue)}) as server:
        assert offered("explain", "", url=server.url) == ["a/good"]
        assert offered("explain", "a/", url=server.url) == ["a/good"]


FAILURES = {
    "another document": served({"gangs": 1}),
    "an error": served({"detail": "show a token"}, status=401),
    "a closed connection": reset,
    "no answer": hang,
}


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
def test_without_an_answer_nothing_is_offered(answer: object) -> None:
    with RawServer({"/v1/queue": answer}) as server:  # type: ignore[dict-item]
        assert offered("explain", "", url=server.url) == []


BAD_OPTIONS = (
    ("--url", "x y"),
    ("--token-file", "/no/such"),
    ("--kubeconfig", "/no/such"),
    ("--service", "?"),
    ("--through", "air"),
)


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_options_that_cannot_be_used_are_not_reported(options: tuple[str, str]) -> None:
    assert offered("explain", *options, "") == []


def test_names_come_through_the_api_server_too(tmp_path: Path) -> None:
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "shares": [], "gangs": [gang("a/good")]}
    with RawServer({"/v1/queue": served(queue)}) as server, ApiProxy({8889: server.port}) as site:
        assert offered("explain", "--kubeconfig", str(site.kubeconfig(tmp_path)), "") == ["a/good"]


def test_kubectl_is_offered_names_of_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "shares": [], "gangs": [gang("a/good")]}
    with RawServer({"/v1/queue": served(queue)}) as server, ApiProxy({8889: server.port}) as site:
        for name in ("NETGANG_URL", "_NETGANG_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS"):
            monkeypatch.setenv(name, "")  # so that what is set is taken away afterwards
        monkeypatch.setenv("KUBECONFIG", str(site.kubeconfig(tmp_path)))
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-netgang", "explain", "a"])
        kubectl.complete()
    assert capsys.readouterr().out.splitlines() == ["a/good\twaiting", ":4"]
