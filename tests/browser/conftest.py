"""A real Chromium (Debian's), a real server, and a page of which nothing may go wrong unseen."""

import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

ARTIFACTS = Path(__file__).parent / "artifacts"
ROOT = Path(__file__).parents[2]


@dataclass
class Watched:
    page: Page
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Hear errors of the console (which refused content is, too), of scripts, and of requests."""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", self._failed)

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page gives a question up when a newer one replaces it
            self.complaints.append(f"{request.url}: {request.failure}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless; for one module, since its driver's event loop is in the way of other tests."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def served(*arguments: str, port: int | None = None) -> Iterator[str]:
    """`netgang …` on a port of the loopback, a free one unless it is given; its address."""
    port = free_port() if port is None else port
    program = [sys.executable, "-m", "cli.main", *arguments, "--port", str(port)]
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while not _answers(f"{url}/readyz"):
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"netgang ended with {process.wait(timeout=0.2)}")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10):
            return True
    except OSError:
        return False


@pytest.fixture
def watched(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A new page; whatever it complains of fails the test, and a failure keeps a screenshot."""
    context = chromium.new_context(viewport={"width": 1500, "height": 1000})
    made = Watched(context.new_page())
    made.listen()
    failed_before = request.session.testsfailed
    yield made
    if request.session.testsfailed > failed_before or made.complaints:
        ARTIFACTS.mkdir(exist_ok=True)
        made.page.screenshot(path=ARTIFACTS / f"{request.node.name}.png", full_page=True)
    context.close()
    assert made.complaints == []
