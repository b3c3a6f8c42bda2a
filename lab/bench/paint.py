"""How soon a browser shows the page: a real Chromium that opens it again, several times.

Why a browser: bytes and CPU of the server say nothing about when a person sees something. Rule: times are the browser's
own, from the start of the navigation; the picture counts when queue and zones are drawn and that frame is painted. Each
look is a new context with nothing cached. Chromium is Debian's, driven by Playwright, and both are optional here.
"""

import shutil
from dataclasses import dataclass
from importlib.util import find_spec

_LIMIT_MS = 30_000.0
_DRAWN = """
window.picture = new Promise((done) => {
  const look = () => {
    const drawn = document.querySelector("#queue-rows tr") && document.querySelector("#zone-list .zone-card");
    requestAnimationFrame(drawn ? () => setTimeout(() => done(performance.now())) : look);
  };
  look();
});
"""
_FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


@dataclass(frozen=True, slots=True)
class Paint:
    """Milliseconds since the navigation began."""

    first_ms: float
    """Something is painted."""
    picture_ms: float
    """Queue and zones are."""


def why_not() -> str | None:
    """Why no browser can be asked; `None`: one can."""
    if find_spec("playwright") is None:
        return "Playwright is not installed"
    return None if shutil.which("chromium") else "Chromium is not installed (apt-get install chromium)"


def paints(url: str, *, times: int) -> list[Paint]:
    """Open the page so many times. Errors: Playwright's, when it is not drawn within 30 s."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(times):
            context = chromium.new_context(viewport={"width": 1500, "height": 1000})
            page = context.new_page()
            page.set_default_timeout(_LIMIT_MS)
            page.add_init_script(_DRAWN)
            page.goto(url, wait_until="commit")
            picture_ms = page.evaluate("() => window.picture")
            found.append(Paint(page.evaluate(_FIRST_PAINT), picture_ms))
            context.close()
        chromium.close()
    return found
