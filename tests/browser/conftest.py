"""A real Chromium (Debian's), a real server, and a page of which nothing may go wrong unseen."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from lab.testbed.processes.network import free_ports

ARTIFACTS = Path(__file__).parent / "artifacts"
ROOT = Path(__file__).parents[2]


class Watched:
    def __init__(self, page: Page) -> None:
        """Hear errors of the console (which refused content is, too), of scripts, and of requests."""
        self.page, self.complaints = page, list[str]()

        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.complaints.append(message.text)

        def failed(request: Request) -> None:
            if request.failure != "net::ERR_ABORTED":  # the page gives a question up when a newer one replaces it
                self.complaints.append(f"{request.url}: {request.failure}")

        page.on("console", said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", failed)


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


@contextmanager
def served(*arguments: str, port: int | None = None) -> Iterator[str]:
    """`netgang …` on a port of the loopback, a free one unless it is given; its address, once it shows bad links."""
    [port] = free_ports(1) if port is None else [port]
    program = [sys.executable, "-m", "cli.main", *arguments, "--port", str(port)]
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            page = httpx.get(f"{url}/v1/page", timeout=10.0, trust_env=False).raise_for_status().json()
            return bool(page["network"]["degraded"])
        except httpx.HTTPError:
            return False

    try:
        while not ready():
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"netgang ended with {process.wait(timeout=0.2)}")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with served("demo") as url:
        yield url


@pytest.fixture
def watched(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1500, "height": 1000})
    made = Watched(context.new_page())
    failed_before = request.session.testsfailed
    yield made
    if request.session.testsfailed > failed_before or made.complaints:
        ARTIFACTS.mkdir(exist_ok=True)
        made.page.screenshot(path=ARTIFACTS / f"{request.node.name}.png", full_page=True)
    context.close()
    assert made.complaints == []


@pytest.fixture
def shown(watched: Watched, demo: str) -> Page:
    watched.page.goto(demo)
    return watched.page
