"""A real Chromium (Debian's), a real server, and a page of which nothing may go wrong unseen."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from lab.testbed.processes.network import free_ports

ARTIFACTS = Path(__file__).parent / "artifacts"
ROOT = Path(__file__).parents[2]


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
def served(*arguments: str, port: int | None = None, measured: bool = True) -> Iterator[str]:
    """`netgang …` on a port of the loopback, a free one unless it is given; its address, once it shows bad links."""
    [port] = free_ports(1) if port is None else [port]
    program = [sys.executable, "-m", "cli.main", *arguments, "--port", str(port)]
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            asked = httpx.get(f"{url}/v1/network", timeout=30.0, trust_env=False).raise_for_status()
            return bool(asked.json()["degraded"]) or not measured
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
    with served("demo", "--still") as url:
        yield url


@pytest.fixture
def complaints() -> list[str]:
    """Errors of the console (which refused content is, too), of scripts, and of requests: there are to be none."""
    return []


@pytest.fixture
def page(chromium: Browser, complaints: list[str], request: pytest.FixtureRequest) -> Iterator[Page]:
    page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.on("console", lambda message: complaints.extend([message.text] * (message.type in ("error", "warning"))))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda asked: complaints.extend([asked.url] * (asked.failure != "net::ERR_ABORTED")))
    yield page
    page.screenshot(path=ARTIFACTS / f"{request.node.name}.png")
    page.context.close()
    assert complaints == []


@pytest.fixture
def shown(page: Page, demo: str) -> Page:
    page.goto(demo)
    return page
